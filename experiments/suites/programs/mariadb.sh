#!/bin/sh
# A fresh MariaDB with a pool of threads, 8 clients that write and 8 that read; prints the sums.
set -eu
. "$(dirname "$0")/until.sh"
PATH=$PATH:/usr/sbin
mariadb-install-db --no-defaults --datadir="$PWD/data" --auth-root-authentication-method=normal \
    --skip-test-db >install.log 2>&1
mariadbd --no-defaults --datadir="$PWD/data" --socket="$PWD/s" --skip-networking \
    --pid-file="$PWD/pid" --thread-handling=pool-of-threads --thread-pool-size=4 \
    --innodb-buffer-pool-size=32M --innodb-log-file-size=8M >server.log 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
client="mariadb --no-defaults --socket=$PWD/s -uroot"
until_ready $client -e 'select 1'
$client -e 'create database d'
columns='(id int auto_increment primary key, v int)'
$client d -e "create table t $columns engine=innodb; create table m $columns engine=aria"
clients=
for n in 1 2 3 4 5 6 7 8; do
    writes='insert into t (v) values (&); insert into m (v) values (&);'
    seq 100 | sed "s/.*/$writes update t set v=v+1 where id=1;/" | $client d &
    clients="$clients $!"
    seq 100 | sed 's/.*/select count(*), sum(v) from t;/' | $client d >/dev/null &
    clients="$clients $!"
done
wait $clients
for table in t m; do
    $client d -N -e "select count(*), sum(v) from $table; check table $table"
done
mariadb-admin --no-defaults --socket="$PWD/s" -uroot shutdown
wait "$server"
echo "ended with $?"
