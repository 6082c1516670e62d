// SPDX-License-Identifier: MIT OR Apache-2.0
//! A PM timer on rust-vmm's bus, read by several vCPU threads without a lock, with its overflow
//! event served by a timer thread.
//!
//! Run it with `cargo run --example pm_timer_bus --features vm-device`. It exits with 0 if time
//! went forwards for each vCPU.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use overlock_vcpu::host::Nanos;
use overlock_vcpu::host::pm_timer::read::Pure;
use overlock_vcpu::host::pm_timer::{PmPorts, PmTimer, Width};
use vm_device::bus::{PioAddress, PioRange};
use vm_device::device_manager::{IoManager, PioManager};

fn main() {
    // `Instant` is the same for all CPUs, so the readers need to share nothing.
    let start = Instant::now();
    let clock = move || Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    // A real VMM raises and lowers interrupt 9 here.
    let sci = |_high: bool| {};
    let timer = Arc::new(PmTimer::new(Width::Bits32, clock, Pure, sci));

    // At the ports that FADT names: status and enable at 0x600, the count at 0x608.
    let ports = Arc::new(PmPorts::new(0x600, timer.clone()));
    let mut bus = IoManager::new();
    for port in [0x600, 0x608] {
        let range = PioRange::new(PioAddress(port), 4).expect("four ports are a range");
        bus.register_pio(range, ports.clone()).expect("no other device has these ports");
    }

    // The VMM's timer thread would sleep until this time, call `timer.service()`, and ask again.
    assert!(timer.next_flip() > Some(clock()));

    thread::scope(|vcpus| {
        for _ in 0..4 {
            vcpus.spawn(|| {
                let mut last = 0;
                for _ in 0..100_000 {
                    let mut data = [0; 4];
                    bus.pio_read(PioAddress(0x608), &mut data).expect("the timer is registered");
                    let count = u32::from_le_bytes(data);
                    assert!(count >= last, "the timer went from {last} back to {count}");
                    last = count;
                }
            });
        }
    });
}
