# What becomes of the scheduler, and of the threads that have it. Run by tests/machine.rs in its machine.
say() { echo "== $*"; }
state() { cat /sys/kernel/sched_ext/state; }
mkdir -p /etc; echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
overlock-host load --threads 4 --ms 600000 --cs-us 50 --ncs-us 50 & load=$!
sleep 1
say each
for policy in none yield skip-spinners spin-count load-gate ipi-first pv-hint; do
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
say no-sched-ext; mount -t tmpfs none /sys/kernel/sched_ext; overlock-host run --policy none --pids 1
say no-btf; mount -t tmpfs none /sys/kernel/btf; overlock-host run --policy none --pids 1
say end
