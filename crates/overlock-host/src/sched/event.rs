// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the embedder tells the scheduler, and what the scheduler tells it to do.
//!
//! A vCPU *owns* its pCPU from the [`Action::Run`] that names it until the scheduler gives the
//! pCPU away. Events come in two kinds:
//!
//! - *from the owner, which is out of the guest and waits*: [`Event::Halted`],
//!   [`Event::LongSpin`], [`Event::Yielded`], [`Event::YieldedTo`], [`Event::Preempted`],
//!   [`Event::Stopped`]. Each is answered by exactly one `Run` or [`Action::Idle`] for the owner's
//!   pCPU. If the `Run` names the owner itself, it just goes back in; if it names another, the
//!   owner waits for its next `Run`.
//! - *from anywhere, at any time*: the others. They may start an idle pCPU, move a timer, or ask
//!   for a preemption, which takes effect with the owner's next event of the first kind.
//!
//! One event leads to at most one action. It touches one pCPU (the owner's, or the one that is to
//! take a woken vCPU), and no pCPU is idle while a vCPU is queued that may run there, so giving one
//! away never makes work for another. Where vCPUs are restricted to some pCPUs it may: then ask
//! [`Scheduler::rebalance`](super::Scheduler::rebalance).
//!
//! An event that cannot be true (a vCPU that does not exist, or halts while it is not running) is
//! counted and otherwise ignored: a guest can send any hypercall with any argument.

use super::yield_to::View;
use crate::{Nanos, Pcpu, Vcpu};

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The owner has nothing to do until it is kicked or interrupted. If a kick came since it last
    /// halted, it is sent back at once: a kick is never lost.
    Halted(Vcpu),
    /// The owner has spun for longer than a lock is usually held.
    LongSpin(Spin),
    /// The owner gives up its pCPU but could go on, naming nobody.
    Yielded(Vcpu),
    /// The owner gives up its pCPU to another by name, whatever the policy. If that one cannot have
    /// it, whoever lags most gets it.
    YieldedTo {
        /// Who gives.
        vcpu: Vcpu,
        /// To whom.
        to: Vcpu,
    },
    /// The owner has come out of the guest because of an [`Action::Preempt`] (or by accident, in
    /// which case it goes back).
    Preempted(Vcpu),
    /// This vCPU ends, or is unplugged, wherever it is: asleep, queued, or the owner of a pCPU and
    /// out of the guest. Only from an owner this is answered, as an event of the first kind.
    Stopped(Vcpu),
    /// A vCPU that had stopped is there again, halted, with all that is known of its past but its
    /// kicks: a reset is a stop and this. It joins with the share of one that has slept.
    Plugged(Vcpu),
    /// Somebody wakes this vCPU. Kicking a vCPU that does not sleep, or is gone, does no harm.
    Kicked {
        /// The vCPU that is to wake up.
        target: Vcpu,
        /// Who kicks, if a vCPU does: usually one that has just released a lock.
        by: Option<Vcpu>,
    },
    /// A vCPU interrupts another; like a kick, this ends a halt.
    Ipi {
        /// The sender.
        from: Vcpu,
        /// The receiver.
        to: Vcpu,
    },
    /// This vCPU has taken all interrupts that were sent to it: it owes nobody an answer.
    ///
    /// One that enters the guest is taken to do so at once. Where the embedder does not say this of
    /// one that ran when it was interrupted, policies believe it in debt until it enters again.
    Answered(Vcpu),
    /// The time that the last `Run` or [`Action::SetTimer`] set for this pCPU has come.
    Timer(Pcpu),
    /// A vCPU says that it enters or leaves a critical section. Where the guest says so in shared
    /// memory, it is enough to look there just before each [`Event::Timer`].
    CriticalSection {
        /// Who says so.
        vcpu: Vcpu,
        /// Whether it is inside from now on.
        inside: bool,
    },
}

/// A long spin, and what is known about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    /// Who spins.
    pub vcpu: Vcpu,
    /// How it was found out.
    pub source: SpinSource,
    /// What the guest says about the lock. Guests may be wrong, or lie.
    pub hint: SpinHint,
    /// Whom the spinner truly waits for, if the embedder can know: the lock's holder, and those
    /// that will have it before the spinner. Only the oracle policy acts on it; with any other it
    /// tells in the [`Decision`](super::yield_to::Decision) whether the choice was right.
    pub truth: SpinHint,
}

impl Spin {
    /// A spin of which nothing is known but who reported it.
    #[must_use]
    pub const fn reported(vcpu: Vcpu) -> Self {
        Self { vcpu, source: SpinSource::Reported, hint: SpinHint::NONE, truth: SpinHint::NONE }
    }

    /// Whom a pCPU would help the spinner most: of the true holder and those before the spinner
    /// the first that is off CPU. If all are on one, that is the holder; nothing if the truth is
    /// not known.
    #[must_use]
    pub fn awaited(&self, view: &View<'_>) -> Option<Vcpu> {
        let mut line = self.truth.line();
        line.clone().find(|&vcpu| view.off_cpu(vcpu)).or_else(|| line.next())
    }
}

/// How a long spin was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinSource {
    /// The guest said so, or the hardware's pause-loop exit did.
    Reported,
    /// The embedder sampled the guest's instruction pointer and saw it stay in one loop.
    Sampled,
}

/// How many waiters a [`SpinHint`] can name.
pub const HINT_WAITERS: usize = 4;

/// What a paravirtual guest knows about the lock it spins for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpinHint {
    /// The vCPU that holds the lock.
    pub holder: Option<Vcpu>,
    /// The first of those that wait before the spinner, in the order in which they will get the
    /// lock.
    pub waiters: [Option<Vcpu>; HINT_WAITERS],
}

impl SpinHint {
    /// No hint.
    pub const NONE: Self = Self { holder: None, waiters: [None; HINT_WAITERS] };

    /// A hint that names the holder alone.
    #[must_use]
    pub const fn holder(vcpu: Vcpu) -> Self {
        Self { holder: Some(vcpu), ..Self::NONE }
    }

    /// The holder and then the waiters.
    pub fn line(&self) -> impl Iterator<Item = Vcpu> + Clone {
        self.holder.into_iter().chain(self.waiters.into_iter().flatten())
    }
}

/// Something to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Let `vcpu` enter the guest as the owner of `pcpu`, and set the pCPU's timer to `until`.
    Run {
        /// Who runs.
        vcpu: Vcpu,
        /// Where.
        pcpu: Pcpu,
        /// When to send [`Event::Timer`] for this pCPU.
        until: Nanos,
    },
    /// Leave this pCPU empty, without a timer.
    Idle {
        /// Which one.
        pcpu: Pcpu,
    },
    /// Bring the owner out of the guest; answer with [`Event::Preempted`]. Until then it still
    /// owns the pCPU, so this may take as long as it takes.
    Preempt {
        /// The vCPU that is to come out.
        vcpu: Vcpu,
        /// The pCPU it owns.
        pcpu: Pcpu,
    },
    /// Move the pCPU's timer.
    SetTimer {
        /// Whose timer.
        pcpu: Pcpu,
        /// When to send [`Event::Timer`] for this pCPU.
        at: Nanos,
    },
}
