# Two guests of 4 vCPUs on 2 CPUs, under each policy. Run by tests/machine.rs in its machine.
for module in irqbypass kvm kvm-amd; do insmod /modules/$module.ko; done
say() { echo "== $*"; }
say compare
overlock-host compare --rounds ${ROUNDS:-1} --copies 2 --check --json -- overlock-vmm --cpus=4 \
  /bin/overlock-boot on=kvm smp=4 do=micro locks=hybrid cpus=4 ms=200 runs=1 cs=3000 ncs=3000 2>&1
cat /sys/kernel/sched_ext/state
# What the guest says on the page is heard, and it hears the host's answer.
say page
mkdir /sys/fs/cgroup/vm; sleep 100000 & other=$!
echo $other >/sys/fs/cgroup/vm/cgroup.procs
overlock-host run --policy pv-hint --cgroup /sys/fs/cgroup/vm --page /sys/fs/bpf/page --check --json \
  >/tmp/first 2>/dev/null & first=$!
while [ "$(cat /sys/kernel/sched_ext/state)" != enabled ]; do sleep 0.1; done
sh -c 'echo $$ >/sys/fs/cgroup/vm/cgroup.procs; exec overlock-vmm --cpus=4 --page=/sys/fs/bpf/page \
  /bin/overlock-boot on=kvm smp=4 do=micro locks=hybrid ms=1000 runs=1 cs=200000 ncs=200000'
kill -9 $other; wait $other; rmdir /sys/fs/cgroup/vm; wait $first; cat /tmp/first
# Which vCPUs were preempted in user mode, and where the spinner is.
for vcpus in kkuu kkkk ppuu; do
  say $vcpus; modes $vcpus & vm=$!
  overlock-host run --policy linux --pids $vm --seconds 2 --check --json 2>/dev/null
  kill -9 $vm; wait $vm
done
say died; modes kkuu & vm=$!
overlock-host run --policy linux-ipi --pids $vm >/tmp/first 2>/dev/null & first=$!
while [ "$(cat /sys/kernel/sched_ext/state)" != enabled ]; do sleep 0.1; done
kill -9 $vm; wait $first; cat /tmp/first /sys/kernel/sched_ext/state
say end
