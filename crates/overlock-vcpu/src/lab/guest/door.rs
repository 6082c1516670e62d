// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs of a vCPU: this file builds each of [`Verbs`](overlock_bench::Verbs) on the guest's
//! [`Door`], once.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed};

use overlock::platform::Platform;
use overlock_bench::clock::ticks;
use overlock_bench::{Hint, Program, Vcpu};

use super::abi::{Call, Hooks, VcpuRecord};
pub(crate) use super::call::{CallNumber, Door, Record};
use super::platform::Guest;

pub(crate) fn call<D: Door>(call: Call, arguments: [u64; 2]) {
    D::call(CallNumber(call), arguments);
}

#[inline(always)]
pub(crate) fn now_ns<D: Door>() -> u64 {
    D::record().0.ns_at(ticks())
}

#[inline(always)]
pub(crate) fn away_ns<D: Door>() -> u64 {
    let record = D::record().0;
    record.steal_ns.load(Relaxed) + record.halted_ns.load(Relaxed)
}

pub(crate) fn work_ns<D: Door>(ns: u64) {
    if ns == 0 {
        return;
    }
    let (start, away) = (now_ns::<D>(), away_ns::<D>());
    let mut end = start + ns;
    loop {
        let now = now_ns::<D>();
        if now >= end {
            let taken = away_ns::<D>() - away;
            if now >= start + ns + taken {
                return;
            }
            end = start + ns + taken;
        }
    }
}

#[inline]
pub(crate) fn relax<D: Door>() {
    <Guest<D, false> as Platform>::relax();
}

pub(crate) fn halt_unless<D: Door>(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
    // The host remembers a kick that comes between this load and the halt.
    if word.load(Relaxed) == expected {
        call::<D>(Call::Halt, [deadline_ns.unwrap_or(0), 0]);
    }
}

pub(crate) fn sleep_ns<D: Door>(ns: u64) {
    let deadline = now_ns::<D>() + ns;
    while now_ns::<D>() < deadline && !D::stopping() {
        call::<D>(Call::Halt, [deadline, 0]);
    }
}

pub(crate) fn is_preempted<D: Door>(number: u32) -> bool {
    D::record().0.other(number).is_some_and(|record| record.preempted.load(Relaxed))
}

#[inline]
pub(crate) fn leave_critical<D: Door>() {
    let record = D::record().0;
    record.critical.store(false, Relaxed);
    if record.yield_wanted.load(Relaxed) {
        call::<D>(Call::EndGrace, [0, 0]);
    }
}

/// The verbs of a world that has a [`Door`]; each world has its own PM timer.
macro_rules! verbs {
    () => {
        type Word = std::sync::atomic::AtomicU32;
        type Aware = $crate::lab::guest::platform::Guest<Self, true>;
        type Native = $crate::lab::guest::platform::Guest<Self, false>;
        type Ordered =
            $crate::lab::guest::platform::Guest<Self, true, $crate::lab::guest::cells::Full>;

        #[inline]
        fn number() -> u32 {
            Self::record().0.number
        }
        fn count() -> u32 {
            Self::record().0.shared().vcpus
        }
        #[inline]
        fn stopping() -> bool {
            Self::record().0.shared().stop.load(std::sync::atomic::Ordering::Relaxed)
        }
        #[inline(always)]
        fn now_ns() -> u64 {
            door::now_ns::<Self>()
        }
        #[inline(always)]
        fn away_ns() -> u64 {
            door::away_ns::<Self>()
        }
        fn work_ns(ns: u64) {
            door::work_ns::<Self>(ns);
        }
        #[inline]
        fn relax() {
            door::relax::<Self>();
        }
        fn halt_unless(word: &Self::Word, expected: u32, deadline_ns: Option<u64>) {
            door::halt_unless::<Self>(word, expected, deadline_ns);
        }
        fn sleep_ns(ns: u64) {
            door::sleep_ns::<Self>(ns);
        }
        fn kick(target: u32) {
            door::call::<Self>(Call::Kick, [u64::from(target), 0]);
        }
        fn interrupt(target: u32, number: u32) {
            door::call::<Self>(Call::Ipi, [u64::from(target), u64::from(number)]);
        }
        fn interrupt_all(number: u32) {
            door::call::<Self>(Call::IpiAll, [u64::from(number), 0]);
        }
        fn yield_to(target: Option<u32>) {
            door::call::<Self>(Call::YieldTo, [target.map_or(u64::MAX, u64::from), 0]);
        }
        fn long_spin() {
            door::call::<Self>(Call::LongSpin, [0, 0]);
        }
        fn is_preempted(number: u32) -> bool {
            door::is_preempted::<Self>(number)
        }
        #[inline]
        fn enter_critical() {
            Self::record().0.critical.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        #[inline]
        fn leave_critical() {
            door::leave_critical::<Self>();
        }
    };
}
pub(crate) use verbs;

/// Starts a vCPU's program, as its outermost frame: it never returns to a caller's frame.
pub(crate) fn begin<W: Door, P: Program<W>>(program: &P) {
    call::<W>(Call::Started, [ticks(), 0]);
    program.run(Vcpu::current());
}

impl Hooks {
    /// Those of program `P` in world `W`.
    pub(crate) fn of<W: Door, P: Program<W>>() -> Self {
        Self {
            deliver: deliver::<W, P>,
            hint: hint::<W, P>,
            truth: truth::<W, P>,
            progress: progress::<W, P>,
            was_away: was_away::<W, P>,
        }
    }
}

/// Delivers pending interrupts until there are none. Runs on the vCPU, on top of the program.
///
/// The host has found `pending` set and `interrupts_off` clear, and has stopped the vCPU at some
/// instruction. An interrupt that arrives while this runs finds `interrupts_off` set; the load of
/// `pending` that follows the clearing sees it, or the host does at the exit that its arrival
/// causes.
extern "C" fn deliver<W: Door, P: Program<W>>(record: &VcpuRecord) {
    // SAFETY: the engine made this function for the program it runs, and `program` points to it.
    let program = unsafe { &*record.program.cast::<P>() };
    while record.deliverable() {
        record.interrupts_off.store(true, Relaxed);
        // ORDERING: Acquire → the Release with which the host sets a bit; shows what senders did.
        let mut pending = record.pending.swap(0, Acquire);
        while pending != 0 {
            program.interrupt(Vcpu::current(), pending.trailing_zeros());
            pending &= pending - 1;
        }
        record.interrupts_off.store(false, Relaxed);
    }
}

/// Asks the program for the hint that it publishes about a vCPU's wait. Runs on the host.
fn hint<W: Door, P: Program<W>>(record: &VcpuRecord) -> Hint {
    // SAFETY: the engine made this function for the program it runs, and `program` points to it.
    unsafe { &*record.program.cast::<P>() }.hint(record.number)
}

/// Asks the program which vCPU a vCPU really waits for. Runs on the host.
fn truth<W: Door, P: Program<W>>(record: &VcpuRecord) -> Hint {
    // SAFETY: as in `hint`.
    unsafe { &*record.program.cast::<P>() }.truth(record.number)
}

/// Asks the program how many waits of a vCPU have ended. Runs on the host.
fn progress<W: Door, P: Program<W>>(record: &VcpuRecord) -> u64 {
    // SAFETY: as in `hint`.
    unsafe { &*record.program.cast::<P>() }.progress(record.number)
}

/// Tells the program that a vCPU was without a processor. Runs on the host.
fn was_away<W: Door, P: Program<W>>(record: &VcpuRecord, since_ns: u64, until_ns: u64) {
    // SAFETY: the engine made this function for the program it runs, and `program` points to it.
    let program = unsafe { &*record.program.cast::<P>() };
    program.was_away(record.number, since_ns, until_ns);
}
