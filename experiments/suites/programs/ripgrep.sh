#!/bin/sh
# ripgrep searches the headers of the system with 8 threads; git greps and indexes them.
set -eu
rg -j8 -c 'include' /usr/include --sort none | sort | sha256sum
cp -r /usr/include/linux tree
cd tree
git init -q .
git add .
git -c user.name=a -c user.email=b@c -c gc.auto=0 commit -qm one
git -c grep.threads=8 grep -c define | sha256sum
git -c pack.threads=8 gc -q --aggressive
git -c pack.threads=8 index-pack .git/objects/pack/*.pack >/dev/null
git -c index.threads=8 -c core.preloadIndex=true status --short
git clone -q --no-local . ../copy
git -C ../copy fsck 2>/dev/null && echo fine
