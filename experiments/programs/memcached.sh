#!/bin/sh
# A memcached server with 4 threads under load from memcslap on a socket of this machine. Prints
# the load generator's figures, among them "Time to set N keys by N threads: N.NNN seconds". Both
# run under the lock that is preloaded.
set -eu
dir=$(mktemp -d)
memcached -u "$(id -un)" -t 4 -s "$dir/socket" -a 0777 &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
tries=0
until [ -S "$dir/socket" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 500 ] || { echo "memcached did not open its socket" >&2; exit 1; }
    sleep 0.01
done
memcslap --servers="$dir/socket" --concurrency="${1:-16}" --execute-number="${2:-3000}" --test=set
