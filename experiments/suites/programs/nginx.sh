#!/bin/sh
# nginx as a daemon with two processes and a pool of threads that read files, under a load and a
# change of its configuration; prints how many requests failed.
set -eu
. "$(dirname "$0")/until.sh"
dir=$PWD
mkdir files logs
seq 30000 >files/big
echo small >files/small
cat >nginx.conf <<END
worker_processes 2;
pid $dir/pid;
error_log $dir/logs/error warn;
thread_pool readers threads=8 max_queue=10000;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path $dir/a; proxy_temp_path $dir/b; fastcgi_temp_path $dir/c;
    uwsgi_temp_path $dir/d; scgi_temp_path $dir/e;
    open_file_cache off;
    server {
        listen 127.0.0.1:21380;
        root $dir/files;
        aio threads=readers;
        aio_write on;
        sendfile off;
        output_buffers 2 4k;
    }
}
END
nginx -e "$dir/logs/error" -p "$dir" -c "$dir/nginx.conf"
trap '[ ! -e pid ] || kill "$(cat pid)"' EXIT
until_ready curl -sf http://127.0.0.1:21380/small
load() { ab -q "$@" 2>&1 | grep -E '^(Complete|Failed|Document Length)'; }
load -n 2000 -c 20 http://127.0.0.1:21380/big
nginx -e "$dir/logs/error" -p "$dir" -c "$dir/nginx.conf" -s reload
load -n 2000 -c 20 http://127.0.0.1:21380/small
wrk -t 4 -c 16 -d 1 http://127.0.0.1:21380/big | grep Non-2xx || true
curl -s http://127.0.0.1:21380/big | sha256sum
grep -vE "warn|notice" logs/error || true
nginx -e "$dir/logs/error" -p "$dir" -c "$dir/nginx.conf" -s quit
until_ready test ! -e pid
echo quit
