#!/usr/bin/env bash
# Seed S1's benchmark for real: pgbench under PostgreSQL 15 with other spin locks, all servers side by side.
#
#     experiments/pgbench.sh [build|run] [FOLDER]
#
# `build` takes Debian's source of PostgreSQL 15 and leaves three servers in FOLDER:
#   stock  as it is: an exchange, then spins and sleeps
#   off    acquires and releases by overlock.h's lock for shared memory, waits as stock
#   on     the same lock, which halts and is kicked
# `run` measures these, and stock under the preload library as a fourth, and leaves runs.jsonl and
# table.txt in FOLDER. Without either word it does both, in a temporary folder that goes when it is done.
#
# Needs, from Debian: gcc, make, bzip2, python3; and a machine whose apt knows bookworm's signing key.
# As root it runs the servers as nobody, for PostgreSQL refuses root. Environment: RUNS rounds (6),
# SECONDS_EACH of a run (2), CLIENTS for each CPU ("1 8"), SCALE of the tables (32), JOBS of make (CPUs),
# SOURCE, an unpacked source of PostgreSQL 15, if there is one already. WRAP is put before each round.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(dirname "$here")
cpus=$(nproc)
servers=(stock off on preload)
read -ra clients <<<"${CLIENTS:-1 8}"

fail() { echo "pgbench.sh: $*" >&2; exit 2; }
need() { for tool; do command -v "$tool" >/dev/null || fail "there is no $tool; install it"; done; }

# The source as Debian has it, by a list of sources of its own: those of the machine stay as they are.
# Debian's patches are left out; they are about paths and its build.
source_of() { # FOLDER
    need apt-get bzip2
    local mirror lists=$1/apt keys=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$lists/lists/partial" "$1/source"
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' |
        awk '$2 == "bookworm" { print $1; exit }')
    [ -n "$mirror" ] || fail "apt knows no mirror of Debian bookworm; run this on Debian 12"
    echo "deb-src [signed-by=$keys] $mirror bookworm main" >"$lists/sources.list"
    local apt=(apt-get -qq -o Dir::Etc::sourcelist="$lists/sources.list" -o Dir::Etc::sourceparts=-
        -o Dir::State::lists="$lists/lists" -o APT::Sandbox::User=root)
    "${apt[@]}" update || fail "apt can't read the list of Debian's sources"
    (cd "$lists" && "${apt[@]}" --download-only source postgresql-15 2>&1) >"$1/apt.log" ||
        { cat "$1/apt.log" >&2; fail "apt does not hand out the source of postgresql-15"; }
    tar xjf "$lists"/postgresql-15_*.orig.tar.bz2 -C "$1/source" --strip-components=1
}

# What makes s_lock.h use the lock for shared memory, after the line that ends the choice of the machine's
# own. Without the last line, waiting is PostgreSQL's.
overlock_lines() { # off|on
    cat <<'C'
#include <overlock.h>
#define slock_t ol_shared_t
#undef TAS
#undef TAS_SPIN
#define TAS(lock) ol_shared_trylock((slock_t *) (lock))
#define S_UNLOCK(lock) ol_shared_unlock((slock_t *) (lock))
#define S_INIT_LOCK(lock) ((void) ((lock)->word = 0))
#define S_LOCK_FREE(lock) ((lock)->word == 0)
C
    if [ "$1" = on ]; then echo '#define S_LOCK(lock) (ol_shared_lock((slock_t *) (lock)), 0)'; fi
}

build() { # FOLDER
    local at=$1 source=${SOURCE:-$1/source} jobs=${JOBS:-$cpus} server target after
    need gcc make objdump tar
    local lib=$repo/target/release/liboverlock_c.a
    [ -e "$lib" ] || fail "there is no $lib; run: cargo build --release -p overlock-c -p overlock-preload"
    [ -n "${SOURCE:-}" ] || source_of "$at"
    local header=$source/src/include/storage/s_lock.h
    [ -e "$header" ] || fail "there is no $header; SOURCE is to be a source of PostgreSQL 15"
    rm -rf "$at/tree" && cp -a "$source" "$at/tree"
    cd "$at/tree"
    header=$at/tree/src/include/storage/s_lock.h
    cp -p "$header" "$at/s_lock.h.stock"
    after=$(grep -n '^#endif.*!defined(HAS_TEST_AND_SET)' "$header" | tail -1 | cut -d: -f1)
    [ -n "$after" ] || fail "this s_lock.h has no place for the lock; PostgreSQL 15's has"
    # The archive is linked into whatever takes one of its functions: the two servers that do.
    echo "== configure"
    ./configure --quiet --prefix=/usr/local/pgsql --enable-depend --without-readline --without-zlib \
        --without-icu CFLAGS='-O2 -g' CPPFLAGS="-I$repo/crates/overlock-c/include" \
        LIBS="$lib -lgcc_s -lpthread -ldl" >"$at/configure.log" 2>&1 ||
        { tail -20 "$at/configure.log" >&2; fail "configure failed"; }
    for server in stock off on; do
        echo "== $server"
        if [ "$server" != stock ]; then
            overlock_lines "$server" >"$at/lines"
            sed "${after}r $at/lines" "$at/s_lock.h.stock" >"$header"
        fi
        for target in all install; do
            make -C src -j"$jobs" -s "$target" DESTDIR="$at/$server" >"$at/$server.log" 2>&1 ||
                { tail -20 "$at/$server.log" >&2; fail "make $target of $server failed"; }
        done
        holds "$at/$server" "$server"
    done
}

# Shows that a server has the lock that its name says: which of its slow paths it calls.
holds() { # INSTALLED NAME
    local calls
    calls=$(objdump -d --no-show-raw-insn "$1/usr/local/pgsql/bin/postgres" |
        grep -oE 'call +[0-9a-f]+ <ol_shared_(un)?lock_slow>' | grep -oE '(un)?lock_slow' | sort -u | xargs || true)
    case $2:$calls in
        stock: | off:unlock_slow | on:'lock_slow unlock_slow') ;;
        *) fail "$2 calls these slow paths of the lock for shared memory: ${calls:-none}" ;;
    esac
}

# Root hands the servers to another user.
user=()
if [ "$(id -u)" = 0 ]; then
    user=(setpriv --reuid=nobody "--regid=$(id -g nobody)" --clear-groups --)
fi

bin() { echo "$at/${1/preload/stock}/usr/local/pgsql/bin"; }

start() { # SERVER
    local preload=
    if [ "$1" = preload ]; then preload=$repo/target/release/liboverlock_preload.so; fi
    # Nothing is written for safety, and no vacuum runs beside pgbench.
    "${user[@]}" env LD_PRELOAD="$preload" "$(bin "$1")/postgres" -D "$data/$1" -k "$data/$1" \
        -c listen_addresses= -c shared_buffers=640MB -c max_connections=1000 -c fsync=off \
        -c synchronous_commit=off -c full_page_writes=off -c autovacuum=off -c max_wal_size=8GB \
        -c checkpoint_timeout=1d >"$data/$1.log" 2>&1 &
    pids+=($!)
    for _ in {1..200}; do
        if "${user[@]}" "$(bin "$1")/psql" -qAtX -h "$data/$1" -c 'select 1' postgres >/dev/null 2>&1; then
            if [ "$1" = preload ] && ! grep -q liboverlock_preload "/proc/$!/maps"; then
                fail "the preload library is not in the server"
            fi
            return
        fi
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    tail -20 "$data/$1.log" >&2
    fail "the server $1 did not start"
}

stop() {
    local pid
    for pid in "${pids[@]}"; do kill -QUIT "$pid" 2>/dev/null || true; done
    wait "${pids[@]}" 2>/dev/null || true
    if [ -n "$data" ]; then rm -rf "$data"; fi
}

bench() { # SERVER SCRIPT CLIENTS SECONDS: prints the transactions a second
    local said
    said=$("${user[@]}" "$(bin stock)/pgbench" -h "$data/$1" -n -M prepared -b "$2" -c "$3" \
        -j "$(($3 < cpus ? $3 : cpus))" -T "$4" postgres 2>&1) ||
        { echo "$said" >&2; fail "pgbench of $1 failed"; }
    sed -n 's/^tps = \([0-9.]*\).*/\1/p' <<<"$said"
}

run() { # FOLDER
    at=$1 data=$(mktemp -d) pids=()
    need python3 setpriv objdump
    trap stop EXIT
    local server round
    for server in stock off on; do
        [ -x "$(bin "$server")/postgres" ] || fail "there is no server $server in $at; build it first"
        holds "$at/$server" "$server"
    done
    [ -e "$repo/target/release/liboverlock_preload.so" ] ||
        fail "there is no preload library; run: cargo build --release -p overlock-preload"
    if [ "$(id -u)" = 0 ]; then chown nobody "$data"; fi
    : >"$at/runs.jsonl"
    "${user[@]}" "$(bin stock)/initdb" -D "$data/stock" -A trust -U "$("${user[@]}" id -un)" \
        --no-locale -N >"$data/initdb.log" 2>&1 ||
        { tail -5 "$data/initdb.log" >&2; fail "initdb failed (may others enter $at?)"; }
    start stock
    "${user[@]}" "$(bin stock)/pgbench" -h "$data/stock" -i -q -s "${SCALE:-32}" postgres >"$data/fill.log" 2>&1 ||
        { tail -5 "$data/fill.log" >&2; fail "pgbench -i failed"; }
    "${user[@]}" "$(bin stock)/pg_ctl" stop -D "$data/stock" -m fast -t 60 >"$data/stop.log" 2>&1 ||
        { tail -5 "$data/stop.log" >&2; fail "the server that was filled does not stop"; }
    pids=()
    for server in off on preload; do cp -a "$data/stock" "$data/$server"; done
    for server in "${servers[@]}"; do start "$server"; done
    for server in "${servers[@]}"; do bench "$server" select-only $((8 * cpus)) 3 >/dev/null; done
    for ((round = 0; round < ${RUNS:-6}; round++)); do
        ${WRAP:-} "$0" --round "$at" "$data" "$round"
    done
    python3 "$here/programs/pgbench.py" "$at/runs.jsonl" | tee "$at/table.txt"
}

# Measures every server once at every point: what is compared ran within a minute.
round() { # FOLDER DATA NUMBER
    at=$1 data=$2
    local script each server tps
    # Each is first once in four rounds.
    local order=("${servers[@]:$3 % 4}" "${servers[@]:0:$3 % 4}")
    for script in select-only tpcb-like; do
        for each in "${clients[@]}"; do
            for server in "${order[@]}"; do
                tps=$(bench "$server" "$script" $((each * cpus)) "${SECONDS_EACH:-2}")
                printf '{"kind":"pgbench","server":"%s","script":"%s","clients":%d,"cpus":%d,"round":%d,"tps":%s}\n' \
                    "$server" "$script" $((each * cpus)) "$cpus" "$3" "$tps" >>"$at/runs.jsonl"
            done
        done
    done
}

what=both
if [ "${1:-}" = --round ]; then
    round "${@:2}"
    exit
fi
case ${1:-} in
    build | run) what=$1 && shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \?//;p}' "$0" && exit ;;
esac
if [ $# -gt 1 ]; then fail "one folder at most"; fi
if [ $# = 1 ]; then
    if [ $what != run ]; then mkdir -p "$1"; fi
    folder=$(realpath -e "$1") || fail "there is no folder $1"
elif [ $what = both ]; then
    folder=$(mktemp -d) && chmod 755 "$folder"
    trap 'rm -rf "$folder"' EXIT
else
    fail "$what of which folder?"
fi
if [ $what != run ]; then (build "$folder"); fi
if [ $what != build ]; then (run "$folder"); fi
