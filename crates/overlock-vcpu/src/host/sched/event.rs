//! What the embedder reports to the scheduler, and what the scheduler tells it to do.
//!
//! A vCPU *owns* its pCPU from the [`Action::Run`] that names it until the scheduler gives the
//! pCPU away. Events come in two kinds:
//!
//! - *from the owner, which is out of the guest and waits*: [`Event::Halted`], [`Event::LongSpin`],
//!   [`Event::Yielded`], [`Event::YieldedTo`], [`Event::Preempted`], [`Event::Stopped`]. The
//!   scheduler answers each with exactly one `Run` or [`Action::Idle`] for the owner's pCPU. If the
//!   `Run` names the owner itself, the owner just goes back in; if it names another vCPU, the owner
//!   waits for its next `Run`.
//! - *from anywhere, at any time*: the others. They may start an idle pCPU, move a timer, or ask
//!   for a preemption, which takes effect with the owner's next event of the first kind.
//!
//! One event leads to at most one action. It touches one pCPU (the owner's, or the one that takes a
//! woken vCPU), and no pCPU is idle while a vCPU is queued, so giving one away never makes work for
//! another.
//!
//! An event that can't have happened (by a vCPU that does not exist, or that halts while it owns no
//! pCPU; before the last event) is an [`SchedError`](super::SchedError), and changes nothing. What a guest claims about
//! others, by a hint or as the target of [`Event::YieldedTo`], may be anything.

use super::spin::Spin;
use crate::host::{Nanos, Pcpu, Vcpu};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The owner has nothing to do until it is kicked or interrupted. If it was kicked while it ran
    /// or was preempted, it is sent back at once: a kick is never lost.
    Halted {
        /// The owner.
        vcpu: Vcpu,
    },
    /// The owner has spun for longer than a lock is usually held.
    LongSpin {
        /// The owner, and what is known of its spin.
        spin: Spin,
    },
    /// The owner gives up its pCPU although it could go on, and names no successor.
    Yielded {
        /// The owner.
        vcpu: Vcpu,
    },
    /// The owner gives up its pCPU to another vCPU by name, whatever the policy. If that one cannot
    /// have it, the vCPU that lags most gets it.
    YieldedTo {
        /// The owner.
        vcpu: Vcpu,
        /// The vCPU that should get the pCPU. A guest may name one that does not exist.
        to: Vcpu,
    },
    /// The owner has come out of the guest because of an [`Action::Preempt`] (or by accident, in
    /// which case it goes back).
    Preempted {
        /// The owner.
        vcpu: Vcpu,
    },
    /// This vCPU ends, or is unplugged, wherever it is: asleep, queued, or the owner of a pCPU and
    /// out of the guest. Only an owner gets an answer, as for an event of the first kind.
    Stopped { vcpu: Vcpu },
    /// A vCPU that had stopped is back, halted, with its whole history except its kicks: a reset is
    /// a stop followed by this. It joins with the share of a vCPU that has slept.
    Plugged { vcpu: Vcpu },
    /// This vCPU is woken. Kicking a vCPU that does not sleep, or is gone, is harmless.
    Kicked {
        /// The vCPU to wake up.
        target: Vcpu,
    },
    /// A vCPU interrupts another; like a kick, this ends a halt.
    Ipi {
        /// The sender; the receiver itself, if the host can't know it, because the interrupt took
        /// no exit.
        from: Vcpu,
        to: Vcpu,
    },
    /// This vCPU has taken all interrupts that were sent to it: it owes no answer.
    ///
    /// A vCPU that enters the guest is assumed to take them at once. If the embedder does not
    /// report this for a vCPU that ran while it was interrupted, policies consider it in debt until
    /// it enters again.
    Answered {
        /// The vCPU that was interrupted.
        vcpu: Vcpu,
    },
    /// This vCPU was in user mode when it left the guest, so it holds no lock of its kernel; told
    /// before the event of the first kind for which it came out.
    InUser {
        /// The vCPU that was in user mode.
        vcpu: Vcpu,
    },
    /// The time that the last `Run` or [`Action::SetTimer`] set for this pCPU has come.
    Timer {
        /// The pCPU whose timer it is.
        pcpu: Pcpu,
    },
    /// A vCPU announces that it enters or leaves a critical section. If the guest announces it in
    /// shared memory, it is enough to read that just before each [`Event::Timer`].
    CriticalSection {
        vcpu: Vcpu,
        /// Whether it is inside the critical section from now on.
        inside: bool,
    },
}

impl Event {
    /// The owner that is out of the guest, if this is an event of the first kind.
    pub const fn owner(&self) -> Option<Vcpu> {
        match *self {
            Self::Halted { vcpu }
            | Self::LongSpin { spin: Spin { vcpu, .. } }
            | Self::Yielded { vcpu }
            | Self::YieldedTo { vcpu, .. }
            | Self::Preempted { vcpu }
            | Self::Stopped { vcpu } => Some(vcpu),
            Self::Plugged { .. }
            | Self::Kicked { .. }
            | Self::Ipi { .. }
            | Self::Answered { .. }
            | Self::InUser { .. }
            | Self::Timer { .. }
            | Self::CriticalSection { .. } => None,
        }
    }
}

/// Something to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Let `vcpu` enter the guest as the owner of `pcpu`, and set the pCPU's timer to `until`.
    Run {
        vcpu: Vcpu,
        pcpu: Pcpu,
        /// When to send [`Event::Timer`] for this pCPU.
        until: Nanos,
    },
    /// Leave this pCPU empty, without a timer.
    Idle {
        /// The pCPU to leave empty.
        pcpu: Pcpu,
    },
    /// Bring the owner out of the guest; answer with [`Event::Preempted`]. Until then it still owns
    /// the pCPU, so this may take any time.
    Preempt {
        /// The vCPU to bring out.
        vcpu: Vcpu,
        /// The pCPU it owns.
        pcpu: Pcpu,
    },
    /// Move the pCPU's timer.
    SetTimer {
        /// The pCPU whose timer to move.
        pcpu: Pcpu,
        /// When to send [`Event::Timer`] for this pCPU.
        at: Nanos,
    },
}
