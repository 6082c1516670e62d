#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Does an installed Overlock work? Run it after the installation, as any user:
#
#     sh /usr/share/doc/overlock/test.sh [PREFIX]
#
# It runs a real program of many threads (sort) under every lock and compares them, and, where
# there is a C compiler, builds a program with the C library. Ends with status 0 if all is well.
set -eu
prefix=${1:-/usr}
overlock=$prefix/bin/overlock
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

step() { echo "== $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

step "the program and its reference"
"$overlock" --version
"$overlock" reference pv_wait_head | grep -q 'queue head' || fail "the reference"
"$overlock" doctor | grep 'preload library' | grep -q "$prefix/lib/overlock/" ||
  fail "doctor does not find the installed preload library"

step "a program of eight threads under every lock"
seq 300000 | awk '{ print ($1 * 7919) % 300007 }' > numbers
LC_ALL=C sort -n numbers > sorted
for lock in hybrid ticket queued test-and-set none libc; do
  LC_ALL=C "$overlock" run $lock -- sort -n --parallel=8 -S 8M -o out numbers 2> counters ||
    { cat counters >&2; fail "sort under $lock"; }
  cmp out sorted || fail "sort under $lock sorts otherwise"
  [ $lock = libc ] || grep -q 'counters of' counters || { cat counters >&2; fail "no counters"; }
done

step "compared"
LC_ALL=C "$overlock" compare --runs 6 --check-output -- sort -n --parallel=8 -S 8M numbers > table ||
  fail "compare"
cat table
grep -q '^  hybrid ' table || fail "the comparison has no hybrid"

step "pages and completions"
for file in share/man/man1/overlock.1 share/man/man1/overlock-compare.1 \
  share/bash-completion/completions/overlock share/zsh/*/_overlock \
  share/fish/vendor_completions.d/overlock.fish share/doc/overlock/reference.md include/overlock.h; do
  [ -s "$(echo "$prefix"/$file)" ] || fail "there is no $prefix/$file"
done

if command -v cc > /dev/null && command -v pkg-config > /dev/null; then
  step "the C library, shared and static"
  cat > twice.c << 'END'
#include <overlock.h>
#include <stdio.h>
static ol_mutex_t mutex = OL_MUTEX_INIT;
int main(void)
{
	ol_mutex_lock(&mutex);
	ol_mutex_unlock(&mutex);
	return puts("locked") < 0;
}
END
  # An unpacked archive is not where its pkg-config file says.
  PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
  export PKG_CONFIG_PATH
  if [ -f "$PKG_CONFIG_PATH/overlock.pc" ]; then
    pkg_config() { pkg-config --define-prefix "$@"; }
    libraries=$prefix/lib
  else
    pkg_config() { pkg-config "$@"; }
    libraries=$(pkg_config --variable=libdir overlock)
  fi
  # shellcheck disable=SC2046
  cc twice.c -o shared $(pkg_config --cflags --libs overlock)
  LD_LIBRARY_PATH=$libraries ./shared | grep -q locked || fail "linked with the shared library"
  # shellcheck disable=SC2046
  cc -static twice.c -o static $(pkg_config --static --cflags --libs overlock)
  ./static | grep -q locked || fail "linked with the static library"
else
  echo "skipped: the C library, for there is no cc or no pkg-config here"
fi
echo "all is well"
