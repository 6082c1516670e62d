# Two guests of 4 vCPUs on 2 CPUs, under each policy. Run by tests/machine.rs in its machine.
for module in irqbypass kvm kvm-amd; do insmod /modules/$module.ko; done
overlock-host compare --rounds ${ROUNDS:-1} --copies 2 --check --json -- overlock-vmm --cpus=4 --memory=64 \
  /bin/overlock-boot on=kvm smp=4 do=micro locks=hybrid cpus=4 ms=200 runs=1 cs=3000 ncs=3000 2>&1
cat /sys/kernel/sched_ext/state
