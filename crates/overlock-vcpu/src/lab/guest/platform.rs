// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Guest`]: the platform of `overlock` on a vCPU of the laboratory.
//!
//! | clause | answer |
//! |---|---|
//! | P0 | The cells of [`Cells`], which are those of `core::sync::atomic`, or order more than is asked; releases are read-modify-writes. |
//! | P1 | `wait` loads the word before it calls the host. |
//! | P2 | A kick that came too early, an interrupt, or a deadline ends a halt. |
//! | P3 | A kick is a call of the host. If its target is not halted, the host remembers it, and the target's next halt returns at once. |
//! | P4 | The host ignores a kick of a vCPU that does not exist or has ended. |
//! | P6 | The pause instruction; if the run asks for it, also a reading of the time stamp counter, and a hypercall when the loop has become long, as pause-loop exiting does in hardware. |
//! | P7 | A vCPU's number never changes, and is below `MAX_VCPUS`. |
//! | P8 | The tables are made for each run, and all vCPUs share them. |
//! | P9 | The time stamp counter, scaled; its offset to the host's is measured when a vCPU starts. |
//! | P10 | `Guest<W, false>` never halts; `Guest<W, true>` halts if the run allows it. |

use std::marker::PhantomData;
use std::sync::atomic::{Ordering, Ordering::Relaxed};

use overlock::atomic::ConstAtomic;
use overlock::platform::{Bucket, Costs, Cpu, Platform, ReadModifyWrite, Slot};
use overlock_bench::clock::{ticks, ticks_after_loads};

use super::abi::{Call, VcpuRecord};
use super::call::{CallNumber, Door};
use super::cells::{Cells, Full, Real};

/// A vCPU of world `W`, on which locks halt (`WAITS`) or only ever spin, and are made of `C`.
#[derive(Clone, Copy, Debug)]
pub struct Guest<W, const WAITS: bool, C = Real>(PhantomData<(W, C)>);

/// Ticks between two pauses of one loop, at most: after a longer time the pause starts another
/// loop.
///
/// The hardware's limit is 128, but hardware loads nothing in between. Here a load of a contended
/// lock word can come between, which takes 250 to 1000 ticks.
const GAP_TICKS: u64 = 4096;

/// Buckets of the table of halted vCPUs, at least: 15 entries each.
const BUCKETS: usize = 256;

/// Data that the locks of one platform share in one run.
struct Table<W> {
    slots: Vec<Slot<W>>,
    buckets: Vec<Bucket<W>>,
}

/// Data that all locks of a run share.
pub(crate) struct Tables {
    waiting: Table<<Real as Cells>::Word>,
    spinning: Table<<Real as Cells>::Word>,
    sequential: Table<<Full as Cells>::Word>,
}

impl Tables {
    /// Makes empty tables for `vcpus` vCPUs.
    pub(crate) fn new(vcpus: u32) -> Self {
        Self {
            waiting: Table::new(vcpus),
            spinning: Table::new(vcpus),
            sequential: Table::new(vcpus),
        }
    }
}

impl<W: ConstAtomic<u32>> Table<W> {
    fn new(vcpus: u32) -> Self {
        Self {
            slots: (0..vcpus).map(|_| Slot::new()).collect(),
            buckets: (0..BUCKETS.max(vcpus.next_power_of_two() as usize))
                .map(|_| Bucket::new())
                .collect(),
        }
    }
}

impl<W: Door, const WAITS: bool, C: Cells> Guest<W, WAITS, C> {
    fn table() -> &'static Table<C::Word> {
        const { assert!(WAITS || !C::FULL, "there is no such table") };
        // SAFETY: the engine made the tables of the run that this vCPU belongs to, and they outlive
        // it.
        let tables: &Tables = unsafe { &*W::record().0.shared().tables.cast() };
        let table = match (C::FULL, WAITS) {
            (false, true) => (&raw const tables.waiting).cast(),
            (false, false) => (&raw const tables.spinning).cast(),
            (true, _) => (&raw const tables.sequential).cast::<Table<C::Word>>(),
        };
        // SAFETY: of the three, this is the table that was made for this very platform; the
        // assertion rules out a fourth.
        unsafe { &*table }
    }
}

// SAFETY: clause by clause in the table above.
unsafe impl<W: Door, const WAITS: bool, C: Cells> Platform for Guest<W, WAITS, C> {
    type Byte = C::Byte;
    type Half = C::Half;
    type Word = C::Word;

    const WAITS: bool = WAITS;

    type Release = ReadModifyWrite;

    #[inline]
    fn waits() -> bool {
        WAITS && W::record().0.shared().waits
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }

    #[inline]
    fn relax() {
        std::hint::spin_loop();
        let record = W::record().0;
        let window = record.shared().pause_window_ticks;
        if window != 0 {
            pause_loop::<W>(record, window);
        }
    }

    fn nap(ns: u64) {
        let deadline = W::now_ns() + ns;
        W::call(CallNumber(Call::Halt), [deadline, 0]);
    }

    #[inline]
    fn cpu() -> Option<Cpu> {
        Cpu::new(W::record().0.number as usize)
    }

    #[inline]
    fn slot(cpu: Cpu) -> &'static Slot<Self::Word> {
        &Self::table().slots[cpu.index()]
    }

    #[inline]
    fn waiters() -> &'static [Bucket<Self::Word>] {
        &Self::table().buckets
    }

    fn wait(word: &C::Word, expected: u32, deadline_ns: Option<u64>) {
        W::halt_unless(C::memory(word), expected, deadline_ns);
    }

    fn kick(_word: *const C::Word, cpu: Cpu) {
        W::kick(cpu.index() as u32);
    }

    #[inline]
    fn costs() -> Costs {
        Costs::DEFAULT.with_wake_ns(W::record().0.shared().wake_ns)
    }

    #[inline]
    fn now_ns() -> u64 {
        W::record().0.ns_at(ticks_after_loads())
    }
}

/// Counts a pause, and calls the host when pauses have followed each other for `window` ticks.
fn pause_loop<W: Door>(record: &VcpuRecord, window: u64) {
    let now = ticks();
    let gap = now.wrapping_sub(record.last_pause.load(Relaxed));
    let first = record.first_pause.load(Relaxed);
    record.last_pause.store(now, Relaxed);
    if gap > GAP_TICKS {
        record.first_pause.store(now, Relaxed);
    } else if now.wrapping_sub(first) > window {
        W::long_spin();
        record.first_pause.store(ticks(), Relaxed);
        record.last_pause.store(ticks(), Relaxed);
    }
}
