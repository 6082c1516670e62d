#!/bin/sh
# PHP's server of processes, asked by FastCGI; prints the answers.
set -eu
. "$(dirname "$0")/until.sh"
PATH=$PATH:/usr/sbin
fpm=$(ls /usr/sbin/php-fpm* | head -1)
cat >conf <<END
[global]
pid=$PWD/pid
error_log=$PWD/log
[www]
listen=$PWD/socket
pm=dynamic
pm.max_children=4
pm.start_servers=2
pm.min_spare_servers=1
pm.max_spare_servers=3
pm.max_requests=5
END
cat >a.php <<'END'
<?php
echo array_sum(range(1, 1000)), "\n";
$process = proc_open(["echo", "child"], [1 => ["pipe", "w"]], $pipes);
echo stream_get_contents($pipes[1]);
END
"$fpm" -n -y conf -p "$PWD" -D 2>/dev/null
trap '[ ! -e pid ] || kill "$(cat pid)"' EXIT
export SCRIPT_FILENAME="$PWD/a.php" REQUEST_METHOD=GET
until_ready cgi-fcgi -bind -connect socket
for n in $(seq 40); do cgi-fcgi -bind -connect socket | tail -2; done | sort | uniq -c
kill -QUIT "$(cat pid)"
until_ready test ! -e pid
