//! [`Guest`]: the platform of `overlock` on a vCPU of the laboratory.
//!
//! | clause | answer |
//! |---|---|
//! | P0 | The cells of `core::sync::atomic`; releases are read-modify-writes. |
//! | P1 | `wait` loads the word before it calls the host. |
//! | P2 | A kick that came too early, an interrupt, or a deadline ends a halt. |
//! | P3 | A kick is a call of the host. If its target is not halted, the host remembers it, and the target's next halt returns at once. |
//! | P4 | The host ignores a kick of a vCPU that does not exist or has ended. |
//! | P6 | The pause instruction; if the run asks for it, also a reading of the time stamp counter, and a hypercall when the loop has become long, as pause-loop exiting does in hardware. |
//! | P7 | A vCPU's number never changes, and is below `MAX_VCPUS`. |
//! | P8 | The tables are made for each run, and all vCPUs share them. |
//! | P9 | The time stamp counter, scaled; its offset to the host's is measured when a vCPU starts. |
//! | P10 | `GuestPlatform<false>` never halts; `GuestPlatform<true>` halts if the run allows it. |

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};

use overlock::platform::{Bucket, Costs, Cpu, Platform, ReadModifyWrite, Slot};
use overlock_bench::clock::{ticks, ticks_after_loads};

use super::abi::{Call, VcpuRecord};
use super::calls::{call, halt_unless, record};

/// A vCPU on which locks halt (`WAITS`) or only ever spin.
#[derive(Clone, Copy, Debug)]
pub struct GuestPlatform<const WAITS: bool>;

/// Ticks between two pauses of one loop, at most: after a longer time the pause starts another
/// loop.
///
/// The hardware's limit is 128, but hardware loads nothing in between. Here a load of a contended
/// lock word can come between, which takes 250 to 1000 ticks.
const GAP_TICKS: u64 = 4096;

/// Buckets of the table of halted vCPUs, at least: 15 entries each.
const BUCKETS: usize = 256;

/// Data that the locks of one platform share in one run.
struct Table {
    slots: Vec<Slot<AtomicU32>>,
    buckets: Vec<Bucket<AtomicU32>>,
}

/// Data that all locks of a run share: those that spin, and those that halt.
pub(crate) struct Tables([Table; 2]);

impl Tables {
    /// Makes empty tables for `vcpus` vCPUs.
    pub(crate) fn new(vcpus: u32) -> Self {
        let buckets = BUCKETS.max(vcpus.next_power_of_two() as usize);
        Self(std::array::from_fn(|_| Table {
            slots: (0..vcpus).map(|_| Slot::new()).collect(),
            buckets: (0..buckets).map(|_| Bucket::new()).collect(),
        }))
    }
}

impl<const WAITS: bool> GuestPlatform<WAITS> {
    fn table() -> &'static Table {
        // SAFETY: the engine made the tables of the run that this vCPU belongs to, and they outlive
        // it.
        let tables: &Tables = unsafe { &*record().shared().tables.cast() };
        &tables.0[usize::from(WAITS)]
    }
}

// SAFETY: clause by clause in the table above.
unsafe impl<const WAITS: bool> Platform for GuestPlatform<WAITS> {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;

    const WAITS: bool = WAITS;

    type Release = ReadModifyWrite;

    #[inline]
    fn waits() -> bool {
        WAITS && record().shared().waits
    }

    #[inline]
    fn relax() {
        std::hint::spin_loop();
        let record = record();
        let window = record.shared().pause_window_ticks;
        if window != 0 {
            pause_loop(record, window);
        }
    }

    fn nap(ns: u64) {
        let deadline = record().ns_at(ticks()) + ns;
        call(Call::Halt, [deadline, 0]);
    }

    #[inline]
    fn cpu() -> Option<Cpu> {
        Cpu::new(record().number as usize)
    }

    #[inline]
    fn slot(cpu: Cpu) -> &'static Slot<Self::Word> {
        &Self::table().slots[cpu.index()]
    }

    #[inline]
    fn waiters() -> &'static [Bucket<Self::Word>] {
        &Self::table().buckets
    }

    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        halt_unless(word, expected, deadline_ns);
    }

    fn kick(_word: *const AtomicU32, cpu: Cpu) {
        call(Call::Kick, [cpu.index() as u64, 0]);
    }

    #[inline]
    fn costs() -> Costs {
        Costs::DEFAULT.with_wake_ns(record().shared().wake_ns)
    }

    #[inline]
    fn now_ns() -> u64 {
        record().ns_at(ticks_after_loads())
    }
}

/// Counts a pause, and calls the host when pauses have followed each other for `window` ticks.
fn pause_loop(record: &VcpuRecord, window: u64) {
    let now = ticks();
    let gap = now.wrapping_sub(record.last_pause.load(Relaxed));
    let first = record.first_pause.load(Relaxed);
    record.last_pause.store(now, Relaxed);
    if gap > GAP_TICKS {
        record.first_pause.store(now, Relaxed);
    } else if now.wrapping_sub(first) > window {
        call(Call::LongSpin, [0, 0]);
        record.first_pause.store(ticks(), Relaxed);
        record.last_pause.store(ticks(), Relaxed);
    }
}
