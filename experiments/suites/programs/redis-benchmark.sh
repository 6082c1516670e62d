#!/bin/sh
# A Redis server with 4 threads for input and output, under redis-benchmark with 4 threads;
# prints the length of a list.
set -eu
. "$(dirname "$0")/until.sh"
redis-server --port 21679 --io-threads 4 --io-threads-do-reads yes --save '' --dir "$PWD" >log &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
until_ready redis-cli -p 21679 ping
redis-benchmark -p 21679 -q -t set,get,incr,rpush --threads 4 -c 20 -n 8000 -P 8 >rates
redis-cli -p 21679 llen mylist
redis-cli -p 21679 shutdown nosave || true
wait "$server"
