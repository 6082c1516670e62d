#!/bin/sh
# A Redis server with 4 threads for input and output, and 8 clients; prints how long the list is
# that these have made.
set -eu
dir=$(mktemp -d)
redis-server --port 0 --unixsocket "$dir/socket" --io-threads 4 --io-threads-do-reads yes \
    --dir "$dir" --save '' >"$dir/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
tries=0
until redis-cli -s "$dir/socket" ping >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 500 ] || { echo "Redis did not answer" >&2; exit 1; }
    sleep 0.01
done
clients=
for _ in 1 2 3 4 5 6 7 8; do
    redis-cli -s "$dir/socket" -r 1000 lpush mylist value >/dev/null &
    clients="$clients $!"
done
wait $clients
redis-cli -s "$dir/socket" llen mylist
redis-cli -s "$dir/socket" bgsave >/dev/null
# A server that ends while it saves ends with 1.
until redis-cli -s "$dir/socket" info persistence | grep -q rdb_bgsave_in_progress:0; do
    sleep 0.01
done
redis-cli -s "$dir/socket" shutdown nosave
wait "$server"
