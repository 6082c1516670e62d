#!/usr/bin/env bash
# Compares the locks under unmodified programs and writes a table and a JSON Lines file for each to
# the folder given as the first argument (default: results). It needs from Debian: sysbench,
# rocksdb-tools, memcached, libmemcached-tools, xz-utils, g++ and python3.
#
#   cargo build --release -p overlock-cli && experiments/compare.sh
#
# Names of experiments after the folder select some of them; LOCKS lists the locks, RUNS is the number
# of rounds, WRAP is put before each comparison, and BESIDE is how many busy processes run meanwhile.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath -m "${1:-results}")
shift || true
overlock=${OVERLOCK:-$here/../target/release/overlock}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
# Runs a command beside $0 busy processes.
beside='for _ in $(seq "$0"); do while :; do :; done & done
    trap "jobs -p | xargs -r kill" EXIT; "$@"'

wanted() { [ $# -eq 1 ] || [[ " ${*:2} " == *" $1 "* ]]; }
compare() { # NAME, then the arguments of `overlock compare`
    local name=$1${BESIDE:+-beside}
    shift
    echo "== $name"
    (cd "$work" && ${WRAP:-} bash -c "$beside" "${BESIDE:-0}" "$overlock" compare ${LOCKS:+--locks "$LOCKS"} --runs "${RUNS:-6}" --out "$out/$name.jsonl" "$@") |
        tee "$out/$name.txt" || true
}

if wanted sysbench-threads "$@"; then
    compare sysbench-threads --metric 'total number of events: +([0-9]+)' --higher-is-better -- \
        sysbench threads --threads=16 --thread-locks=4 --time=1 run
fi
if wanted sysbench-mutex "$@"; then
    compare sysbench-mutex --metric 'total time: +([0-9.]+)s' -- \
        sysbench mutex --threads=16 --mutex-num=4 --mutex-locks=50000 --mutex-loops=100 run
fi
if wanted db_bench-fillrandom "$@"; then
    compare db_bench-fillrandom --metric '([0-9]+) ops/sec' --higher-is-better -- \
        db_bench --benchmarks=fillrandom --num=20000 --threads=8 --disable_wal=1 --db="$work/fill"
fi
if wanted db_bench-readrandom "$@"; then
    db_bench --benchmarks=fillseq --num=100000 --db="$work/read" >/dev/null 2>&1
    compare db_bench-readrandom --metric '([0-9]+) ops/sec' --higher-is-better \
        --check-output --ignore 'ops/sec|^Date|^CPU|^Set seed' -- \
        db_bench --benchmarks=readrandom --use_existing_db=1 --num=100000 --reads=20000 \
        --threads=8 --db="$work/read"
fi
if wanted memcached "$@"; then
    compare memcached --metric 'Time to set .* ([0-9.]+) seconds' -- \
        "$here/programs/memcached.sh" 16 2000
fi
if wanted xz "$@"; then
    head -c 4000000 /dev/urandom | base64 >"$work/data"
    compare xz --check-output -- xz -T4 -1 --block-size=500000 -k -c "$work/data"
fi
if wanted words-cpp "$@"; then
    g++ -O2 -std=c++17 -pthread -o "$work/words" "$here/programs/words.cpp"
    compare words-cpp --check-output -- "$work/words"
fi
if wanted hashes-python "$@"; then
    python=$(python3 -c 'import sys; print(sys.executable)')
    compare hashes-python --check-output -- "$python" "$here/programs/hashes.py"
fi
