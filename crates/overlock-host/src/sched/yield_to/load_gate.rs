// SPDX-License-Identifier: MIT OR Apache-2.0
//! `load-gate`: asks first how busy the host is, then `skip-spinners`.
//!
//! The second of the three ideas that came with `skip-spinners`. If nobody waits for a pCPU, nobody
//! is preempted: the gate declines and no scan is made. If w vCPUs wait for p pCPUs, this pCPU's
//! share of them is ⌈w/p⌉: the scan looks at no more than twice that, since each further
//! guess is worse than the last, and if none will do, lets the scheduler choose: with so many
//! waiting, almost anyone makes better use of the pCPU than a spinner.

use super::{Missed, Notice, Policy, SkipSpinners, Trace, Verdict, View};
use crate::Nanos;
use crate::sched::Spin;

/// How many times the pCPU's share of the waiting a scan looks at. Two leaves room for a spinner in
/// front of each worker; less makes the gate blind, more takes it away.
const SHARES: u32 = 2;

/// Limits the scan by the host's load, or declines.
#[derive(Clone, Debug)]
pub struct LoadGate {
    inner: SkipSpinners,
}

impl LoadGate {
    /// Puts a gate before `inner`.
    #[must_use]
    pub const fn new(inner: SkipSpinners) -> Self {
        Self { inner }
    }
}

impl Policy for LoadGate {
    fn name(&self) -> &'static str {
        "load-gate"
    }

    fn on_spin(&mut self, _: &Spin, view: &View<'_>, trace: &mut Trace) -> Verdict {
        let waiting = view.waiting();
        if waiting == 0 {
            return Verdict::Stay(Missed::NotOvercommitted);
        }
        let share = waiting.div_ceil(view.pcpus().max(1));
        match self.inner.scan(view, trace, share.saturating_mul(SHARES)) {
            Verdict::Stay(why) => Verdict::Plain(why),
            verdict => verdict,
        }
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        self.inner.notice(now, notice);
    }
}
