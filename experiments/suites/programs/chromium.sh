#!/bin/sh
# Chromium without a window, as an ordinary user with its own sandbox; prints a page that a script
# and a worker have written.
set -eu
page='<body><script>
let worker=new Worker(URL.createObjectURL(new Blob(["postMessage(6*7)"])));
worker.onmessage=e=>document.body.append("worker "+e.data);
</script></body>'
page=$(printf %s "$page" | tr -d '\n')
timeout -k 5 60 chromium --headless --disable-gpu --user-data-dir="$PWD/user" \
    --virtual-time-budget=3000 --dump-dom "data:text/html,$page" 2>stderr | tail -1
