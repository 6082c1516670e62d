// SPDX-License-Identifier: MIT OR Apache-2.0
//! `none`: the spinner spins on until its slice is over. What every other policy is measured by.

use super::{Missed, Policy, Trace, Verdict, View};
use crate::sched::Spin;

/// Never yields.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stay;

impl Policy for Stay {
    fn name(&self) -> &'static str {
        "none"
    }

    fn on_spin(&mut self, _: &Spin, _: &View<'_>, _: &mut Trace) -> Verdict {
        Verdict::Stay(Missed::PolicyNever)
    }
}
