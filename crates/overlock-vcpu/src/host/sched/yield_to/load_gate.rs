//! `load-gate`: first asks how busy the host is, then `skip-spinners`.
//!
//! The second of the three ideas that came with `skip-spinners`. If no vCPU waits for a pCPU, none
//! is preempted: the gate declines without a scan. If w vCPUs wait for p pCPUs, this pCPU's share
//! of them is ⌈w/p⌉. The scan considers no more than twice that share, since each further guess is
//! worse than the last. If none of those will do, it lets the scheduler choose: with that many
//! waiting, almost any vCPU makes better use of the pCPU than a spinner.

use super::{Missed, Notice, Policy, Ruling, SkipSpinners, Trace, View};
use crate::host::Nanos;
use crate::host::sched::Spin;

/// How many times this pCPU's share of the waiting vCPUs a scan considers. Two leaves room for a
/// spinner in front of each worker; less makes the gate blind, more makes it pointless.
const SHARES: u32 = 2;

/// Limits the scan according to the host's load, or declines.
#[derive(Clone, Debug)]
pub struct LoadGate {
    inner: SkipSpinners,
}

impl LoadGate {
    /// Puts a gate in front of `inner`.
    pub const fn new(inner: SkipSpinners) -> Self {
        Self { inner }
    }
}

impl Policy for LoadGate {
    fn on_spin(&mut self, _: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        let waiting = view.waiting();
        if waiting == 0 {
            return Ruling::Stay(Missed::NotOvercommitted);
        }
        let share = waiting.div_ceil(view.pcpus.max(1));
        match self.inner.scan(view, trace, share.saturating_mul(SHARES), |_| None) {
            Ruling::Stay(why) => Ruling::Plain(why),
            verdict => verdict,
        }
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        self.inner.notice(now, notice);
    }
}
