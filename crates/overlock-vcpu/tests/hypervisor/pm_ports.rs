// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the timer answer at its ports as hardware does, on rust-vmm's bus, even to nonsense?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use overlock_vcpu::host::Nanos;
use overlock_vcpu::host::pm_timer::read::Pure;
use overlock_vcpu::host::pm_timer::{NoSci, PmPorts, PmTimer, TMR, Width, start_of};
use proptest::prelude::*;
use vm_device::DevicePio;
use vm_device::bus::{PioAddress, PioRange};
use vm_device::device_manager::{IoManager, PioManager};

const BLOCK: u16 = 0x600;

/// A bus with the timer on it, and the time that the timer uses. Control (offset 4) is not the
/// timer's.
fn bus() -> (IoManager, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(0));
    let clock = {
        let time = time.clone();
        move || Nanos(time.load(Relaxed))
    };
    let timer = Arc::new(PmTimer::new(Width::Bits24, clock, Pure, NoSci));
    let ports = Arc::new(PmPorts::new(BLOCK, timer));
    let mut bus = IoManager::new();
    for (offset, size) in [(0, 4), (8, 4)] {
        let range = PioRange::new(PioAddress(BLOCK + offset), size).unwrap();
        bus.register_pio(range, ports.clone()).unwrap();
    }
    (bus, time)
}

fn read<const N: usize>(bus: &IoManager, offset: u16) -> [u8; N] {
    let mut data = [0x55; N];
    bus.pio_read(PioAddress(BLOCK + offset), &mut data).unwrap();
    data
}

fn write(bus: &IoManager, offset: u16, data: &[u8]) {
    bus.pio_write(PioAddress(BLOCK + offset), data).unwrap();
}

#[test]
fn the_count_reads_whole_and_in_parts() {
    let (bus, time) = bus();
    time.store(start_of(0x0123_4567).unwrap().0, Relaxed);
    assert_eq!(u32::from_le_bytes(read(&bus, 8)), 0x0023_4567);
    write(&bus, 8, &[0; 4]);
    assert_eq!(u32::from_le_bytes(read(&bus, 8)), 0x0023_4567, "the count is read-only");
    let count = read::<4>(&bus, 8);
    assert_eq!([read::<2>(&bus, 8), read::<2>(&bus, 10)].concat(), count);
    assert_eq!(read::<1>(&bus, 9), [count[1]]);
}

#[test]
fn status_and_enable_read_and_write_in_parts() {
    let (bus, time) = bus();
    write(&bus, 2, &TMR.to_le_bytes());
    assert_eq!(u16::from_le_bytes(read(&bus, 2)), TMR);
    assert_eq!(u16::from_le_bytes(read(&bus, 0)), 0);
    time.store(start_of(1 << 23).unwrap().0, Relaxed);
    assert_eq!(u32::from_le_bytes(read(&bus, 0)), 0x0001_0001);
    write(&bus, 1, &[0xff]);
    assert_eq!(read::<1>(&bus, 0), [1], "the high byte is not the timer's");
    write(&bus, 0, &0x0000_0001u32.to_le_bytes());
    assert_eq!(u32::from_le_bytes(read(&bus, 0)), 0, "one write clears both");
}

#[test]
fn what_is_not_the_timers_reads_as_ones() {
    let timer = PmTimer::new(Width::Bits32, || Nanos(5), Pure, NoSci);
    let ports = PmPorts::new(BLOCK, &timer);
    for offset in 0..16u16 {
        for len in 1..9u16 {
            let ours = offset + len <= 4 || (8..12).contains(&offset) && offset + len <= 12;
            let mut data = vec![0x55; usize::from(len)];
            ports.pio_read(PioAddress(BLOCK), offset, &mut data);
            let answer = if ours { 0 } else { 0xff };
            assert!(data.iter().all(|&byte| byte == answer), "{len} bytes at {offset}: {data:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_access_breaks_it(base: u16, offset: u16, write: bool, mut data in any::<Vec<u8>>()) {
        let timer = PmTimer::new(Width::Bits32, || Nanos(5), Pure, NoSci);
        let ports = PmPorts::new(BLOCK, &timer);
        // Half of the accesses are near the registers.
        let base = if base % 2 == 0 { BLOCK + base % 16 } else { base };
        let offset = if offset % 2 == 0 { offset % 16 } else { offset };
        if write {
            ports.pio_write(PioAddress(base), offset, &data);
        } else {
            ports.pio_read(PioAddress(base), offset, &mut data);
        }
        prop_assert_eq!(timer.elapsed(), Nanos(0));
    }
}
