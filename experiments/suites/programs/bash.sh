#!/bin/bash
# Subshells, pipes, substitutions, co-processes, traps and background jobs of a shell; prints sums.
set -eu
sum=0
for n in {1..300}; do sum=$((sum + $(echo "$n"))); done
echo "$sum"
jobs=()
for n in {1..60}; do (exit $((n % 2))) & jobs+=($!); done
bad=0
for job in "${jobs[@]}"; do wait "$job" || bad=$((bad + 1)); done
echo "$bad"
coproc cat
echo hello >&"${COPROC[1]}"
read -r line <&"${COPROC[0]}"
echo "$line"
trap 'echo trapped' USR1
kill -USR1 $$
seq 1000 | while read -r n; do echo "$n"; done | sort -R | sort -n | md5sum
timeout 0.2 sleep 10 || echo "timed out $?"
setsid bash -c 'nohup true & wait' </dev/null
echo end
