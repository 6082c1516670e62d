//! The scan that the rotating policies share: one round, starting behind the last vCPU boosted.
//!
//! Invariants: R1, a scan considers each vCPU at most once; R2, it returns only a vCPU that the
//! view finds fit, so never the spinner itself, nor one that runs or sleeps; R3, the next scan
//! starts behind the vCPU that this one *returned*. Linux until 6.18 remembered the number of steps
//! taken instead of the place reached, so the rotation jumped about and missed some vCPUs.

use super::{Chosen, Missed, Ruling, Skipped, Trace, View};
use crate::host::Vcpu;

/// The position in the round at which the next scan starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    start: u32,
}

impl Rotation {
    /// Looks for the next fit vCPU that `rule` accepts, and advances behind it.
    ///
    /// At most `limit` fit vCPUs are shown to the rule; those after them are recorded as beyond the
    /// scan.
    pub fn next(
        &mut self,
        view: &View<'_>,
        trace: &mut Trace,
        limit: u32,
        mut rule: impl FnMut(Vcpu) -> Result<Chosen, Skipped>,
    ) -> Option<(Vcpu, Chosen)> {
        let vcpus = view.vcpus();
        let mut shown = 0;
        for step in 0..vcpus {
            // The vCPUs fit in a `u32`, so twice their number fits in a `u64`, and the remainder in
            // a `u32`.
            let place = (u64::from(self.start) + u64::from(step)) % u64::from(vcpus);
            let vcpu = Vcpu(place as u32);
            if !view.fit(vcpu, trace) {
                continue;
            }
            if shown == limit {
                trace.skip(vcpu, Skipped::BeyondScan);
                continue;
            }
            shown += 1;
            match rule(vcpu) {
                Ok(why) => {
                    self.start = vcpu.0 + 1;
                    return Some((vcpu, why));
                }
                Err(why) => trace.skip(vcpu, why),
            }
        }
        None
    }

    /// A yield to the next fit vCPU that `rule` accepts; without one the spinner goes on.
    pub(super) fn verdict(
        &mut self,
        view: &View<'_>,
        trace: &mut Trace,
        limit: u32,
        rule: impl FnMut(Vcpu) -> Result<Chosen, Skipped>,
    ) -> Ruling {
        let found = self.next(view, trace, limit, rule);
        found.map_or(Ruling::Stay(Missed::NoCandidate), |(vcpu, why)| Ruling::To(vcpu, why))
    }
}
