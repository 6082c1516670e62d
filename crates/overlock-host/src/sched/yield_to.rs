// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directed yield: a vCPU spins, and could give its pCPU to the one it waits for. To which?
//!
//! A spinning vCPU wastes its slice if the vCPU it waits for is off CPU. The host does not know
//! whom it waits for; each policy here is a different guess, made from what the host can see, and
//! from what the guest is willing to tell. [`Policy`] is the one trait; each policy has its file:
//!
//! | name | type | whom it picks |
//! |---|---|---|
//! | `none` | [`Stay`] | nobody: the spinner spins on |
//! | `report` | [`Report`] | nobody, but the spin is reported: what the others are compared with |
//! | `yield` | [`PlainYield`] | whoever lags most in CPU time (Xen's `vcpu_yield`) |
//! | `round-robin` | [`RoundRobin`] | the next that is ready, after the last one boosted |
//! | `skip-spinners` | [`SkipSpinners`] | the same, but spinners only every other time (Linux since 2012) |
//! | `spin-count` | [`SpinCount`] | the same, but the more a vCPU spins the longer it is skipped |
//! | `load-gate` | [`LoadGate`] | as inside, but a short scan, and none on a host with room |
//! | `pv-hint` | [`PvHint`] | the holder the guest names, who owes it an answer, or the next waiter |
//! | `kick-boost` | [`KickBoost`] | as inside; and a kicked queue head gets the kicker's pCPU |
//! | `ipi-first` | [`IpiFirst`] | a vCPU that owes an answer to the spinner's IPI |
//! | `oracle` | [`Oracle`] | the one the spinner truly waits for: the yardstick |
//!
//! # The safety net
//! A policy cannot do harm. The scheduler tells it in a [`View`] who is fit to be boosted, checks
//! its [`Verdict`] once more, and keeps a boosted vCPU at most
//! [`yield_lead`](super::Config::yield_lead) ahead of the one that lags most. So the worst policy
//! costs throughput, never fairness.
//!
//! # Sources
//! - Linux `virt/kvm/kvm_main.c`, `kvm_vcpu_on_spin`, as of 6.19, and its history: R. van Riel
//!   2011 (round robin), Raghavendra K T 2012 (skipping spinners, and three ideas for later).
//! - W. Li, "KVM: Boost queue head vCPU to mitigate lock waiter preemption", 2019; K. Ishiguro
//!   et al., "Mitigating excessive vCPU spinning in VM-agnostic KVM", VEE 2021.

mod debts;
mod decision;
mod ipi_first;
mod kick_boost;
mod load_gate;
mod oracle;
mod plain;
mod pv_hint;
mod rotation;
mod round_robin;
mod skip_spinners;
mod spin_count;
mod stay;
mod view;

use alloc::boxed::Box;
use core::fmt::Debug;

pub use decision::{Cause, Chosen, Decision, Missed, Outcome, Skipped, Tally, Trace};
pub use ipi_first::IpiFirst;
pub use kick_boost::KickBoost;
pub use load_gate::LoadGate;
pub use oracle::Oracle;
pub use plain::PlainYield;
pub use pv_hint::PvHint;
pub use rotation::Rotation;
pub use round_robin::RoundRobin;
pub use skip_spinners::SkipSpinners;
pub use spin_count::SpinCount;
pub use stay::{Report, Stay};
pub use view::{Candidate, View};

use super::Spin;
use crate::{Nanos, Vcpu};

/// What a policy wants done for a spinner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Give the spinner's pCPU to this vCPU.
    To(Vcpu, Chosen),
    /// Give it to whoever lags most in CPU time.
    Plain(Missed),
    /// Let the spinner go on.
    Stay(Missed),
}

/// What a policy may want to know besides spins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// This vCPU enters the guest.
    Runs(Vcpu),
    /// This vCPU left its pCPU without a spin: its slice was over, or it halted.
    Worked(Vcpu),
    /// A vCPU has interrupted another.
    Ipi {
        /// The sender.
        from: Vcpu,
        /// The receiver.
        to: Vcpu,
    },
    /// This vCPU has taken all interrupts that were sent to it.
    Answered(Vcpu),
}

/// A rule that decides to whom a spinning vCPU gives its pCPU.
///
/// Write your own and hand it to [`Scheduler::new`](super::Scheduler::new). A policy should skip
/// whoever [`View::fit`] finds unfit, and tell its [`Trace`] why it skipped anyone else.
pub trait Policy: Debug {
    /// The policy's name in reports, in lower-case kebab.
    fn name(&self) -> &'static str;

    /// Decides about a long spin. The spinner is out of the guest and still owns its pCPU.
    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Verdict;

    /// Takes note of something that is not a spin. Wrappers pass it on.
    fn notice(&mut self, now: Nanos, notice: Notice) {
        let _ = (now, notice);
    }

    /// Whether a vCPU that kicks a queued one hands over its own pCPU with the kick.
    fn boosts_kicked(&self) -> bool {
        false
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Verdict {
        (**self).on_spin(spin, view, trace)
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        (**self).notice(now, notice);
    }

    fn boosts_kicked(&self) -> bool {
        (**self).boosts_kicked()
    }
}

/// The names of the policies of this crate, in the order of the table above.
pub const NAMES: [&str; 11] = [
    "none",
    "report",
    "yield",
    "round-robin",
    "skip-spinners",
    "spin-count",
    "load-gate",
    "pv-hint",
    "kick-boost",
    "ipi-first",
    "oracle",
];

/// Makes the policy of this name for a guest of `vcpus`, or nothing if there is none such.
///
/// The policies that rest on another one rest on [`SkipSpinners`]; [`PvHint`] on [`IpiFirst`] over
/// it, for spins of which the guest says nothing.
#[must_use]
pub fn by_name(name: &str, vcpus: u32) -> Option<Box<dyn Policy + Send>> {
    let base = || SkipSpinners::new(vcpus);
    Some(match name {
        "none" => Box::new(Stay),
        "report" => Box::new(Report),
        "yield" => Box::new(PlainYield),
        "round-robin" => Box::new(RoundRobin::default()),
        "skip-spinners" => Box::new(base()),
        "spin-count" => Box::new(SpinCount::new(vcpus)),
        "load-gate" => Box::new(LoadGate::new(base())),
        "pv-hint" => Box::new(PvHint::new(vcpus, IpiFirst::new(vcpus, base()))),
        "kick-boost" => Box::new(KickBoost::new(base())),
        "ipi-first" => Box::new(IpiFirst::new(vcpus, base())),
        "oracle" => Box::new(Oracle),
        _ => return None,
    })
}
