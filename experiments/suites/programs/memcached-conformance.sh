#!/bin/sh
# Runs libmemcached's test of the protocol on a memcached with 4 threads; prints what it prints.
set -eu
dir=$(mktemp -d)
memcached -u "$(id -un)" -t 4 -l 127.0.0.1 -p 21217 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
tries=0
until memcping --servers=127.0.0.1:21217 >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 500 ] || { echo "memcached did not answer" >&2; exit 1; }
    sleep 0.01
done
memccapable -h 127.0.0.1 -p 21217
