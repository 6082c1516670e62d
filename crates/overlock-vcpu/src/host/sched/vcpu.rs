//! What the scheduler knows of one vCPU: its state, and how much CPU time it has had.
//!
//! ```text
//!            kicked                    picked
//!  Halted ───────────▶ Queued(pcpu) ──────────▶ Running(pcpu)
//!    ▲                      ▲                     │   │
//!    │                      └─ slice over, yield ─┘   │
//!    └──────────────────────────── halted ────────────┘
//!    ▲                  from anywhere: stopped ─▶ Stopped
//!    └───────────────────────────────── plugged ─────┘
//! ```
//!
//! Virtual time is CPU time divided by weight, in units of 2⁻²⁰ ns for a weight of one. The
//! embedder's clock never exceeds 2⁶⁴ ns and no moment is charged twice, so a vCPU is charged less
//! than 2⁶⁴ · 2²⁰ = 2⁸⁴ in its life; leads and caps add less than 2⁸⁷. A `u128` cannot overflow.

use core::num::NonZeroU32;

use crate::host::{Nanos, Pcpu};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct VirtualTime(pub(super) u128);

impl VirtualTime {
    /// The virtual time that `span` is worth to a vCPU of this weight.
    pub(super) fn of(span: Nanos, weight: NonZeroU32) -> Self {
        Self((u128::from(span.0) << 20) / u128::from(weight.get()))
    }

    pub(super) const fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    pub(super) const fn minus(self, span: Self) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// The weight every vCPU starts with; one of twice this weight gets twice the CPU time.
pub const WEIGHT_DEFAULT: NonZeroU32 = NonZeroU32::new(1024).unwrap();

/// The state of a vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It waits for a kick or an interrupt. Every vCPU starts in this state.
    #[default]
    Halted,
    /// It could run, and waits in the queue of this pCPU: it was preempted, or has not run yet.
    Queued(Pcpu),
    /// It owns this pCPU.
    Running(Pcpu),
    /// It has been unplugged, and runs again only once it is plugged in.
    Stopped,
}

impl Standing {
    /// What a timeline shows of it: its name, and the pCPU if it owns one.
    pub const fn shown(self) -> (&'static str, Option<u32>) {
        match self {
            Self::Running(Pcpu(pcpu)) => ("running", Some(pcpu)),
            Self::Queued(_) => ("ready", None),
            Self::Halted | Self::Stopped => ("halted", None),
        }
    }
}

/// A guest: directed yields and boosts stay within it. Every vCPU starts in guest 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guest(pub u32);

/// How a vCPU has spent its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How long it owned a pCPU.
    pub ran: Nanos,
    /// How long it could have run but owned no pCPU: what a guest calls steal time.
    pub steal: Nanos,
    /// How long it slept, since it was first woken.
    pub halted: Nanos,
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) standing: Standing,
    /// When its time was last accounted; meaningful until it is stopped.
    pub(super) since: Nanos,
    pub(super) usage: Usage,
    pub(super) time: VirtualTime,
    pub(super) weight: NonZeroU32,
    pub(super) guest: Guest,
    /// The pCPU it last ran or waited on: where its cache lines may still be.
    pub(super) home: Pcpu,
    /// Whether a kick came while it was not halted; its next halt then returns at once.
    pub(super) kicked: bool,
    /// Whether it was woken from a halt and has not run since. A further kick then has nothing to
    /// add: the vCPU looks at its memory when it runs, after either. KVM merges such kicks too
    /// (`pv_unhalted`, Linux 6.x arch/x86/kvm/x86.c).
    pub(super) woken: bool,
    /// Whether it has been woken before, so that its sleep counts.
    pub(super) begun: bool,
    /// Whether it left the guest through a pause loop and has not entered it since.
    pub(super) spinning: bool,
    /// Whether it was in user mode when it left the guest and has not entered it since.
    pub(super) in_user: bool,
    /// Whether it announces that it is in a critical section.
    pub(super) critical: bool,
}

impl Record {
    /// Makes a halted vCPU whose first home is `home`.
    pub(super) const fn new(home: Pcpu) -> Self {
        Self {
            standing: Standing::Halted,
            since: Nanos::ZERO,
            usage: Usage { ran: Nanos::ZERO, steal: Nanos::ZERO, halted: Nanos::ZERO },
            time: VirtualTime(0),
            weight: WEIGHT_DEFAULT,
            guest: Guest(0),
            home,
            kicked: false,
            woken: false,
            begun: false,
            spinning: false,
            in_user: false,
            critical: false,
        }
    }

    /// Books the time since the last call as run or stolen.
    pub(super) fn account(&mut self, now: Nanos) {
        *self = self.accounted(now);
    }

    /// The virtual time at `now` of a vCPU that has run since it was last accounted.
    pub(super) fn time_at(&self, now: Nanos) -> VirtualTime {
        self.time.plus(VirtualTime::of(now - self.since, self.weight))
    }

    /// The record as it would be if it were accounted `now`.
    pub(super) fn accounted(&self, now: Nanos) -> Self {
        let mut record = self.clone();
        let span = now - self.since;
        match self.standing {
            Standing::Running(_) => {
                record.usage.ran = self.usage.ran + span;
                record.time = self.time_at(now);
            }
            Standing::Queued(_) => record.usage.steal = self.usage.steal + span,
            Standing::Halted if self.begun => record.usage.halted = self.usage.halted + span,
            Standing::Halted | Standing::Stopped => {}
        }
        record.since = now;
        record
    }
}
