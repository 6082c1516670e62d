// SPDX-License-Identifier: MIT OR Apache-2.0
//! `none` and `report`: the spinner spins on.
//!
//! Both never yield. They differ in what an embedder makes of the name: under `none` it need not be
//! told of spins at all, while under `report` it is, as under every other policy. So what another
//! policy does beyond `report` is its yields, and what `report` does beyond `none` is the price of
//! being told.

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

/// Is told of every long spin, and never yields: the base that other policies are compared with.
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
