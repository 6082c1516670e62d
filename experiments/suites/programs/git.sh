#!/bin/sh
# Packs a repository with 8 threads, and checks it; prints the pack's objects.
set -eu
git init -q .
git config user.name nobody
git config user.email nobody@example.org
for number in $(seq 40); do
    seq "$number" 4000 >"file$number"
    git add .
    GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' \
        git commit -q -m "$number"
done
git -c pack.threads=8 repack -q -a -d -f --window=50
git -c index.threads=8 fsck --full
git rev-list --objects --all | sha256sum
