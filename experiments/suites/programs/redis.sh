#!/bin/sh
# A Redis server with 4 threads for input and output under redis-benchmark with 4 threads; prints
# how many keys there are in the end.
set -eu
dir=$(mktemp -d)
redis-server --port 0 --unixsocket "$dir/socket" --io-threads 4 --io-threads-do-reads yes \
    --dir "$dir" --save '' >"$dir/log" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
tries=0
until redis-cli -s "$dir/socket" ping >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 500 ] || { echo "Redis did not answer" >&2; exit 1; }
    sleep 0.01
done
redis-benchmark -s "$dir/socket" --threads 4 -n 20000 -t set,lpush -q >/dev/null
redis-cli -s "$dir/socket" llen mylist
redis-cli -s "$dir/socket" bgsave >/dev/null
redis-cli -s "$dir/socket" shutdown nosave
wait "$server"
