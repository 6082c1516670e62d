#!/bin/sh
# A fresh PostgreSQL under pgbench with 4 threads; prints what the bank holds.
set -eu
. "$(dirname "$0")/until.sh"
bin=$(echo /usr/lib/postgresql/*/bin)
"$bin/initdb" -D data -A trust -U postgres >init.log
"$bin/pg_ctl" -D data -w -o "-k $PWD -c listen_addresses= -c fsync=off" -l log start >/dev/null
trap '"$bin/pg_ctl" -D data -m immediate stop >/dev/null 2>&1 || true' EXIT
"$bin/createdb" -h "$PWD" -U postgres b
"$bin/pgbench" -h "$PWD" -U postgres -i -q b 2>/dev/null
"$bin/pgbench" -h "$PWD" -U postgres -c 8 -j 4 -t 100 -C b 2>/dev/null | grep processed
"$bin/pgbench" -h "$PWD" -U postgres -c 8 -j 4 -t 300 b 2>/dev/null | grep processed
"$bin/psql" -h "$PWD" -U postgres -At b -c '
    select (select sum(abalance) from pgbench_accounts)
            = (select sum(tbalance) from pgbench_tellers),
        count(*) from pgbench_history'
"$bin/pg_ctl" -D data -m fast -w stop | tail -1
