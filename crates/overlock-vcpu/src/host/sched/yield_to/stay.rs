//! `none`, `report` and `yield`: no vCPU is named.
//!
//! The first two never yield. They differ in what an embedder infers from the name: under `none` it
//! need not report spins at all, while under `report` it does, as under every other policy. So the
//! difference between another policy and `report` is the effect of its yields, and the difference
//! between `report` and `none` is the price of reporting. `yield` lets the vCPU run that the
//! scheduler would pick next, as Xen does on a pause-loop exit, and `sched_yield` for a thread.

use super::{Missed, Policy, Ruling, Trace, View};
use crate::host::sched::Spin;

macro_rules! constant {
    ($(#[$doc:meta])* $policy:ident, $verdict:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $policy;

        impl Policy for $policy {
            fn on_spin(&mut self, _: &Spin, _: &View<'_>, _: &mut Trace) -> Ruling {
                $verdict
            }
        }
    };
}

constant!(
    /// Never yields: `none` and `report`, with which other policies are compared.
    Stay, Ruling::Stay(Missed::PolicyNever)
);
constant!(
    /// Yields without naming a vCPU.
    PlainYield, Ruling::Plain(Missed::PolicyUndirected)
);
