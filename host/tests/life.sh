# What becomes of the scheduler, and of the threads that have it. Run by tests/machine.rs in its machine.
say() { echo "== $*"; }
state() { cat /sys/kernel/sched_ext/state; }
mkdir -p /etc; echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
overlock-host load --threads 4 --ms 600000 --cs-us 50 --ncs-us 50 & load=$!
sleep 1
say each
for policy in none yield skip-spinners spin-count load-gate ipi-first pv-hint linux linux-ipi; do
  overlock-host run --policy $policy --pids $load --seconds 1 --check --json --page /sys/fs/bpf/page 2>/dev/null
done
say nobody; su nobody -c "overlock-host run --policy none --pids $load"
say missing; overlock-host run --policy none --pids 99999
say no-cgroup; overlock-host run --policy none --cgroup /sys/fs/cgroup/none
say occupied
overlock-host run --policy none --pids $load >/tmp/first 2>&1 & first=$!
while [ "$(state)" != enabled ]; do sleep 0.1; done
overlock-host run --policy none --pids $load
say ctrl-c; kill -INT $first; wait $first; echo "code $?"; cat /tmp/first; state
say killed
overlock-host run --policy yield --pids $load 2>/dev/null & first=$!
while [ "$(state)" != enabled ]; do sleep 0.1; done
kill -9 $first; wait $first
while [ "$(state)" != disabled ]; do sleep 0.1; done; state; kill -0 $load && echo alive
say watchdog; overlock-host run --policy none --pids $load --stall-for-a-test 2>/dev/null; echo "code $?"; state
kill -0 $load && echo alive
say cgroup
mkdir /sys/fs/cgroup/vm; sleep 100000 & other=$!
echo $other >/sys/fs/cgroup/vm/cgroup.procs
overlock-host run --policy pv-hint --cgroup /sys/fs/cgroup/vm --page /sys/fs/bpf/page --check --json \
  >/tmp/first 2>/dev/null & first=$!
while [ "$(state)" != enabled ]; do sleep 0.1; done
overlock-host run --policy none --pids $load --page /sys/fs/bpf/page
sh -c 'echo $$ >/sys/fs/cgroup/vm/cgroup.procs; exec overlock-host load --ms 4000 --cs-us 200 --page /sys/fs/bpf/page'
kill -9 $other; wait $other; rmdir /sys/fs/cgroup/vm; wait $first; cat /tmp/first
say page-gone; overlock-host load --page /sys/fs/bpf/page
say page-elsewhere; overlock-host run --policy none --pids $load --page /tmp/page
say died
overlock-host run --policy pv-hint --pids $load >/tmp/first 2>/dev/null & first=$!
while [ "$(state)" != enabled ]; do sleep 0.1; done
kill -9 $load; wait $first; cat /tmp/first; state
# How often a holder lost its processor to another of its threads, as the kernel's recording and the program's own marks
# have it: before it had run for so long, and later.
holders() { # extension, section, so long, us; the load, ms
  cd /sys/kernel/tracing; echo 8192 >buffer_size_kb; echo >trace; echo 1 >events/sched/sched_switch/enable
  mkdir /sys/fs/cgroup/held; sleep 100000 & other=$!
  echo $other >/sys/fs/cgroup/held/cgroup.procs
  overlock-host run --policy none --grace-us $1 --cgroup /sys/fs/cgroup/held --page /sys/fs/bpf/page >/tmp/first 2>&1 & first=$!
  while [ "$(state)" != enabled ]; do sleep 0.1; done
  # What a program does before the scheduler has it is not the scheduler's: field 41 is the policy, and 7 SCHED_EXT.
  sh -c "echo \$\$ >/sys/fs/cgroup/held/cgroup.procs
    until [ \$(cut -d' ' -f41 /proc/\$\$/stat) = 7 ]; do sleep 0.1; done
    exec overlock-host load --ms $4 --cs-us $2 --ncs-us 200 --mark --page /sys/fs/bpf/page" >/dev/null
  echo 0 >events/sched/sched_switch/enable; cd /tmp
  kill -9 $other; wait $other; rmdir /sys/fs/cgroup/held; wait $first
  awk -v least=$3 '
    { pid = $1; sub(/.*-/, "", pid); at = $4 * 1000000 }
    /tracing_mark_write: overlock: holds/ { holds[pid] = 1; ours[pid] = 1 }
    /tracing_mark_write: overlock: frees/ { holds[pid] = 0 }
    / sched_switch: / {
      for (i = 5; i <= NF; i++) { split($i, word, "="); of[word[1]] = word[2] }
      out = of["prev_pid"]; into = of["next_pid"]
      if (holds[out] && of["prev_state"] ~ /^R/ && ours[into] && out in since) n[at - since[out] >= least]++
      since[into] = at
    }
    END { print "holders taken early", n[0] + 0, "late", n[1] + 0 }' /sys/kernel/tracing/trace
}
say extended; holders 40000 200 24000 2000
say not-extended; holders 0 200 24000 2000
say longer-than-extended; holders 10000 60000 9000 6000
say no-sched-ext; mount -t tmpfs none /sys/kernel/sched_ext; overlock-host run --policy none --pids 1
say no-btf; mount -t tmpfs none /sys/kernel/btf; overlock-host run --policy none --pids 1
say end
