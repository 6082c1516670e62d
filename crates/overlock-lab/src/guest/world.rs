// SPDX-License-Identifier: MIT OR Apache-2.0
//! The world as a program sees it: the same few verbs on a vCPU of KVM and on a parked thread.
//!
//! A program is generic over its [`World`]; a world is only two functions, how a vCPU finds its own
//! record and how it calls its host. Everything else is built on these here, once.
//!
//! # What a program may do
//! Compute, use atomics and what it shares by reference, call these verbs. It may *not* make
//! system calls, allocate, print, use thread-locals or unwind: on the KVM engine there is no
//! operating system to ask. Whatever it tries ends the run with an error that says where. It must
//! not own anything whose destructor matters either: a run that is ended by force never runs it.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed};

use overlock::platform::Platform;
use overlock_host::sched::HINT_WAITERS;

use super::abi::{Call, VcpuRecord};
use super::platform::Guest;
use crate::clock::ticks;

/// How a vCPU finds its record and calls its host.
///
/// # Safety
/// `record` returns the record of the vCPU that asks, whenever called from a program that an engine
/// of this world runs.
pub unsafe trait World: Copy + Send + Sync + 'static {
    /// The record of the calling vCPU.
    #[doc(hidden)]
    fn record() -> Record;

    /// Calls the host with two arguments.
    #[doc(hidden)]
    fn call(number: CallNumber, arguments: [u64; 2]);

    /// Reads the ACPI PM timer: 3.579545 MHz, 24 bits.
    fn pm_timer() -> u32;
}

/// The record of a vCPU, opaque outside this crate.
#[derive(Clone, Copy, Debug)]
pub struct Record(pub(crate) &'static VcpuRecord);

/// A call of the host, opaque outside this crate.
#[derive(Clone, Copy, Debug)]
pub struct CallNumber(pub(crate) Call);

/// What a vCPU runs.
pub trait Program<W: World>: Sync {
    /// The body of every vCPU. It returns soon after [`Vcpu::stopping`] turns true.
    fn run(&self, vcpu: Vcpu<W>);

    /// Called for every interrupt, on top of whatever the vCPU was doing.
    ///
    /// Interrupts of one number that arrive before delivery are delivered as one.
    fn interrupt(&self, vcpu: Vcpu<W>, number: u32) {
        let _ = (vcpu, number);
    }

    /// What the guest publishes about the lock that vCPU `spinner` waits for.
    ///
    /// It stands for a page of memory that guest and host share: the host reads it when the vCPU
    /// spins for long. The policy `pv-hint` acts on it.
    fn hint(&self, spinner: u32) -> Hint {
        let _ = spinner;
        Hint::default()
    }

    /// Whom vCPU `spinner` truly waits for: what no host can know, and the oracle is told.
    fn truth(&self, spinner: u32) -> Hint {
        self.hint(spinner)
    }

    /// How many waits of `vcpu` have ended so far.
    ///
    /// Hardware with pause-loop exiting sees the end of a wait as a gap in the pauses. A host that
    /// samples does not; this stands for the gap. So a vCPU that two samples find in the same loop,
    /// but in different waits, does not spin for long.
    fn progress(&self, vcpu: u32) -> u64 {
        let _ = vcpu;
        0
    }

    /// Called on the host, for one vCPU at a time, when `vcpu` gets a processor again that it was
    /// ready for from `since_ns` to `until_ns`: the moment to find out who has waited for it.
    fn was_away(&self, vcpu: u32, since_ns: u64, until_ns: u64) {
        let _ = (vcpu, since_ns, until_ns);
    }
}

/// Whom a spinning vCPU waits for, as far as its program knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// The vCPU that holds the lock, or that owes an answer to it or to the spinner.
    pub holder: Option<u32>,
    /// The first of those that stand between that one and the spinner, in order.
    pub waiters: [Option<u32>; HINT_WAITERS],
}

/// The calling vCPU.
#[derive(Clone, Copy, Debug)]
pub struct Vcpu<W>(PhantomData<W>);

impl<W: World> Vcpu<W> {
    /// The handle is only useful inside a program, which is handed one.
    pub(crate) const fn current() -> Self {
        Self(PhantomData)
    }

    /// The number of this vCPU, from zero.
    #[inline]
    #[must_use]
    pub fn number(self) -> u32 {
        W::record().0.number
    }

    /// How many vCPUs there are.
    #[must_use]
    pub fn count(self) -> u32 {
        W::record().0.shared().vcpus
    }

    /// Whether the program should return.
    #[inline]
    #[must_use]
    pub fn stopping(self) -> bool {
        W::record().0.shared().stop.load(Relaxed)
    }

    /// Nanoseconds since the run began, on the clock of the host.
    #[inline]
    #[must_use]
    pub fn now_ns(self) -> u64 {
        let record = W::record().0;
        record.shared().clock.ns(ticks().wrapping_add(record.tsc_offset.load(Relaxed)))
    }

    /// Nanoseconds that this vCPU was without a processor, halted or robbed, so far.
    #[inline]
    #[must_use]
    pub fn away_ns(self) -> u64 {
        let record = W::record().0;
        record.steal_ns.load(Relaxed) + record.halted_ns.load(Relaxed)
    }

    /// Computes for `ns` nanoseconds of this vCPU's own time: what is taken away is added.
    pub fn work_ns(self, ns: u64) {
        if ns == 0 {
            return;
        }
        let (start, away) = (self.now_ns(), self.away_ns());
        let mut end = start + ns;
        loop {
            let now = self.now_ns();
            if now >= end {
                let taken = self.away_ns() - away;
                if now >= start + ns + taken {
                    return;
                }
                end = start + ns + taken;
            }
        }
    }

    /// Kicks vCPU `number`: ends its halt, or its next one if it is not halted.
    pub fn kick(self, number: u32) {
        W::call(CallNumber(Call::Kick), [u64::from(number), 0]);
    }

    /// Halts while `word` holds `expected`, until kicked, interrupted, or until `now_ns()` reaches
    /// `deadline_ns`. It may also return for no reason.
    ///
    /// A kick that comes between the look at `word` and the halt is not lost: the host remembers it
    /// and the halt returns at once.
    pub fn halt_unless(self, word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        if word.load(Relaxed) == expected {
            W::call(CallNumber(Call::Halt), [deadline_ns.unwrap_or(0), 0]);
        }
    }

    /// Pauses once in a loop that waits, as the locks do.
    #[inline]
    pub fn relax(self) {
        <Guest<W, false> as Platform>::relax();
    }

    /// Halts for `ns` nanoseconds, interrupts aside.
    pub fn sleep_ns(self, ns: u64) {
        let deadline = self.now_ns() + ns;
        while self.now_ns() < deadline && !self.stopping() {
            W::call(CallNumber(Call::Halt), [deadline, 0]);
        }
    }

    /// Tells the host that this vCPU spins in vain. What becomes of its processor is the yield
    /// policy's to say, which may ask the program for a [`hint`](Program::hint).
    pub fn long_spin(self) {
        W::call(CallNumber(Call::LongSpin), [0, 0]);
    }

    /// Asks the host to let vCPU `target`, or any other, run instead of this one, whatever the
    /// yield policy.
    pub fn yield_to(self, target: Option<u32>) {
        W::call(CallNumber(Call::YieldTo), [target.map_or(u64::MAX, u64::from), 0]);
    }

    /// Sends interrupt `number` (below 32) to vCPU `target`.
    pub fn send_interrupt(self, target: u32, number: u32) {
        W::call(CallNumber(Call::Ipi), [u64::from(target), u64::from(number)]);
    }

    /// Sends interrupt `number` (below 32) to all other vCPUs, with one call of the host.
    pub fn interrupt_all(self, number: u32) {
        W::call(CallNumber(Call::IpiAll), [u64::from(number), 0]);
    }

    /// Whether vCPU `number` has lost its processor. Only a hint: it may be stale.
    #[must_use]
    pub fn is_preempted(self, number: u32) -> bool {
        W::record().0.other(number).is_some_and(|record| record.preempted.load(Relaxed))
    }

    /// Asks the host not to take the processor for a moment.
    #[inline]
    pub fn enter_critical(self) {
        W::record().0.critical.store(true, Relaxed);
    }

    /// Ends what [`enter_critical`](Self::enter_critical) began, and gives back what it borrowed.
    #[inline]
    pub fn leave_critical(self) {
        let record = W::record().0;
        record.critical.store(false, Relaxed);
        if record.yield_wanted.load(Relaxed) {
            W::call(CallNumber(Call::EndGrace), [0, 0]);
        }
    }
}

/// The first thing a vCPU runs, and the last: it never returns to a caller's frame.
pub(crate) fn begin<W: World, P: Program<W>>(program: &P) {
    W::call(CallNumber(Call::Started), [ticks(), 0]);
    program.run(Vcpu::current());
}

/// Delivers pending interrupts until there are none. Runs on the vCPU, on top of the program.
///
/// The host has seen `pending` set and `interrupts_off` clear, and has stopped the vCPU at whatever
/// it was doing. An interrupt that arrives while this runs finds `interrupts_off` set; it is seen
/// by the look at `pending` that follows the clearing, or by the host at the exit that its arrival
/// causes.
pub(crate) extern "C" fn deliver<W: World, P: Program<W>>(record: &VcpuRecord) {
    // SAFETY: the engine made this function for the program it runs, and `program` points to it.
    let program = unsafe { &*record.program.cast::<P>() };
    while record.deliverable() {
        record.interrupts_off.store(true, Relaxed);
        // ORDERING: Acquire → the Release with which the host sets a bit; what senders did is seen.
        let mut pending = record.pending.swap(0, Acquire);
        while pending != 0 {
            program.interrupt(Vcpu::current(), pending.trailing_zeros());
            pending &= pending - 1;
        }
        record.interrupts_off.store(false, Relaxed);
    }
}

/// Asks the program what it publishes of whom a vCPU waits for. Runs on the host.
pub(crate) fn hint<W: World, P: Program<W>>(record: &VcpuRecord) -> Hint {
    // SAFETY: the engine made this function for the program it runs, and `program` points to it.
    unsafe { &*record.program.cast::<P>() }.hint(record.number)
}

/// Asks the program whom a vCPU waits for. Runs on the host.
pub(crate) fn truth<W: World, P: Program<W>>(record: &VcpuRecord) -> Hint {
    // SAFETY: as in `hint`.
    unsafe { &*record.program.cast::<P>() }.truth(record.number)
}

/// Asks the program how many waits of a vCPU have ended. Runs on the host.
pub(crate) fn progress<W: World, P: Program<W>>(record: &VcpuRecord) -> u64 {
    // SAFETY: as in `hint`.
    unsafe { &*record.program.cast::<P>() }.progress(record.number)
}

/// Tells the program that a vCPU was without a processor. Runs on the host.
pub(crate) fn was_away<W: World, P: Program<W>>(record: &VcpuRecord, since_ns: u64, until_ns: u64) {
    // SAFETY: the engine made this function for the program it runs, and `program` points to it.
    let program = unsafe { &*record.program.cast::<P>() };
    program.was_away(record.number, since_ns, until_ns);
}
