// SPDX-License-Identifier: MIT OR Apache-2.0
//! `none` and `report`: the spinner spins on.
//!
//! Neither ever yields. They differ in what an embedder infers from the name: under `none` it need
//! not report spins at all, while under `report` it does, as under every other policy. So the
//! difference between another policy and `report` is the effect of its yields, and the difference
//! between `report` and `none` is the price of reporting.

use super::{Missed, Policy, Trace, Verdict, View};
use crate::host::sched::Spin;

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

/// Receives every long spin, and never yields: the base with which other policies are compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report;

impl Policy for Report {
    fn name(&self) -> &'static str {
        "report"
    }

    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Verdict {
        Stay.on_spin(spin, view, trace)
    }
}
