//! Whether a vCPU may have a pCPU out of turn.

use super::vcpu::{Record, Standing, VirtualTime, WEIGHT_DEFAULT};
use super::yield_to::{Candidate, Skipped};
use crate::host::{Nanos, Vcpu};

/// Judges which vCPUs may be boosted past the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge<'a> {
    pub(super) vcpus: &'a [Record],
    pub(super) giver: Vcpu,
    pub(super) limit: Option<VirtualTime>,
}

impl Judge<'_> {
    /// Why `vcpu` cannot have the pCPU; `None` if it can.
    pub(super) fn unfit(&self, vcpu: Vcpu) -> Option<Skipped> {
        if vcpu == self.giver {
            return Some(Skipped::Itself);
        }
        let Some(record) = self.vcpus.get(vcpu.index()) else { return Some(Skipped::Unknown) };
        if self.vcpus.get(self.giver.index()).is_some_and(|giver| giver.guest != record.guest) {
            return Some(Skipped::OtherGuest);
        }
        match record.standing {
            Standing::Halted => Some(Skipped::Halted),
            Standing::Running(_) => Some(Skipped::Running),
            Standing::Stopped => Some(Skipped::Stopped),
            Standing::Queued(_) => self.ahead(vcpu).then_some(Skipped::AheadOfShare),
        }
    }

    /// Whether `vcpu`, which waits, has had too much CPU time.
    pub(super) fn ahead(&self, vcpu: Vcpu) -> bool {
        let record = self.vcpus.get(vcpu.index());
        record.zip(self.limit).is_some_and(|(record, limit)| record.time > limit)
    }

    /// What a policy sees of `vcpu`; `None` if it does not exist.
    pub(super) fn candidate(&self, vcpu: Vcpu) -> Option<Candidate> {
        let Record { spinning, in_user, .. } = *self.vcpus.get(vcpu.index())?;
        Some(Candidate { unfit: self.unfit(vcpu), spinning, in_user })
    }
}

/// The virtual time that `span` is worth to a vCPU of the default weight.
pub(super) fn standard(span: Nanos) -> VirtualTime {
    VirtualTime::of(span, WEIGHT_DEFAULT)
}
