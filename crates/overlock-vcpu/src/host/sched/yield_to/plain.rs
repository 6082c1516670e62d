// SPDX-License-Identifier: MIT OR Apache-2.0
//! `yield`: the pCPU goes to the vCPU that the scheduler would pick next. This is what Xen does on
//! a pause-loop exit, and what `sched_yield` does for a thread.

use super::{Missed, Policy, Trace, Verdict, View};
use crate::host::sched::Spin;

/// Yields without naming a vCPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainYield;

impl Policy for PlainYield {
    fn name(&self) -> &'static str {
        "yield"
    }

    fn on_spin(&mut self, _: &Spin, _: &View<'_>, _: &mut Trace) -> Verdict {
        Verdict::Plain(Missed::PolicyUndirected)
    }
}
