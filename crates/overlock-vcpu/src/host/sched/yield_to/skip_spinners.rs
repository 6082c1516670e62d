//! `skip-spinners`: in turn, but a vCPU that itself left its pCPU spinning only every other time.
//!
//! A ready vCPU that did not leave its pCPU spinning was preempted while it worked, so it may hold
//! the lock. One that did leave spinning would spin again, so it is passed over; but if it was
//! passed over the last time, the lock may have come to it since, and it gets its turn.
//!
//! ```text
//!                 spins                     looked at: skipped
//!  not spinning ─────────▶ spinning, fresh ──────────────────▶ spinning, due ─┐
//!   (eligible)  ◀───────────────────────── ◀──────────────────  (eligible)    │
//!                runs                             runs           ▲            │ looked at:
//!                                                                └─ skipped ◀─┘ boosted
//! ```
//!
//! A preempted holder that does not spin is eligible at every scan, so no scan misses it. Among n
//! vCPUs on one pCPU it runs within n spins, and within one spin once all others have left
//! spinning.
//!
//! Source: Raghavendra K T, "kvm: Improving directed yield in PLE handler", 2012, merged into
//! Linux 3.6. Its test of who is eligible is still Linux's in 2026, after another one:
//! [`Linux`](super::Linux).

use alloc::vec;
use alloc::vec::Vec;

use super::{Chosen, Notice, Policy, Rotation, Ruling, Skipped, Trace, View};
use crate::host::sched::Spin;
use crate::host::{Nanos, Vcpu};

/// Boosts vCPUs in turn, spinners only every other time.
#[derive(Clone, Debug)]
pub struct SkipSpinners {
    rotation: Rotation,
    /// For each vCPU, whether it was skipped as a spinner since it last ran, and is now due.
    due: Vec<bool>,
}

impl SkipSpinners {
    /// Makes the policy for a guest of `vcpus`.
    pub fn new(vcpus: u32) -> Self {
        Self { rotation: Rotation::default(), due: vec![false; vcpus as usize] }
    }

    /// Decides like [`Policy::on_spin`], but looks at most at `limit` ready vCPUs, and passes over
    /// those against which `skips` has a reason.
    pub(super) fn scan(
        &mut self,
        view: &View<'_>,
        trace: &mut Trace,
        limit: u32,
        skips: impl Fn(Vcpu) -> Option<Skipped>,
    ) -> Ruling {
        let due = &mut self.due;
        let rule = |vcpu: Vcpu| {
            if let Some(why) = skips(vcpu) {
                return Err(why);
            }
            if !view.spinning(vcpu) {
                return Ok(Chosen::NotSpinning);
            }
            let Some(due) = due.get_mut(vcpu.index()) else { return Err(Skipped::Unknown) };
            // Each look at a spinner inverts the answer, whatever the outcome of the yield.
            *due = !*due;
            if *due { Err(Skipped::Spinning) } else { Ok(Chosen::SkippedBefore) }
        };
        self.rotation.verdict(view, trace, limit, rule)
    }
}

impl Policy for SkipSpinners {
    fn on_spin(&mut self, _: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        self.scan(view, trace, u32::MAX, |_| None)
    }

    fn notice(&mut self, _: Nanos, notice: Notice) {
        if let Notice::Runs(vcpu) = notice
            && let Some(due) = self.due.get_mut(vcpu.index())
        {
            *due = false;
        }
    }
}
