//! `spin-count`: in turn, but the more often a vCPU spins, the longer it is passed over.
//!
//! The first of the three ideas that came with `skip-spinners`: an integer in place of the boolean.
//! Each long spin adds one to the spinner's count, up to a cap of ⌈log₂ n⌉ for n vCPUs. A ready
//! vCPU is passed over while its count is above zero, and each time reduces the count by one; a
//! slice used without a spin, or a halt, halves it. With a cap of one this is `skip-spinners`,
//! except for what one spin leaves behind after the vCPU has run again.
//!
//! A preempted holder that has not spun since it last worked is found as soon as by
//! `skip-spinners`; one that has spun its way to the lock is passed over at most cap times. A scan
//! in which all vCPUs are passed over reduces all counts, so at most cap scans in a row can do
//! that.

use alloc::vec;
use alloc::vec::Vec;

use super::{Chosen, Notice, Policy, Rotation, Ruling, Skipped, Trace, View};
use crate::host::sched::Spin;
use crate::host::{Nanos, Vcpu};

/// Boosts vCPUs in turn; the more one spins, the more rarely it is boosted.
#[derive(Clone, Debug)]
pub struct SpinCount {
    rotation: Rotation,
    counts: Vec<u32>,
    /// The highest count, and therefore how many times in a row a spinner can be passed over.
    pub cap: u32,
}

impl SpinCount {
    /// Makes the policy for a guest of `vcpus`, with a cap of ⌈log₂ `vcpus`⌉, but at least one.
    pub fn new(vcpus: u32) -> Self {
        Self::with_cap(vcpus, vcpus.max(2).next_power_of_two().trailing_zeros())
    }

    /// Makes the policy with another cap, for a guest that may use only some of `vcpus`.
    pub fn with_cap(vcpus: u32, cap: u32) -> Self {
        Self { rotation: Rotation::default(), counts: vec![0; vcpus as usize], cap }
    }
}

impl Policy for SpinCount {
    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        if let Some(count) = self.counts.get_mut(spin.vcpu.index()) {
            *count = self.cap.min(*count + 1);
        }
        let counts = &mut self.counts;
        let rule = |vcpu: Vcpu| {
            let Some(count) = counts.get_mut(vcpu.index()) else { return Err(Skipped::Unknown) };
            match *count {
                0 if view.spinning(vcpu) => Ok(Chosen::SkippedBefore),
                0 => Ok(Chosen::NotSpinning),
                _ => {
                    *count -= 1;
                    Err(Skipped::Spinning)
                }
            }
        };
        self.rotation.verdict(view, trace, u32::MAX, rule)
    }

    fn notice(&mut self, _: Nanos, notice: Notice) {
        if let Notice::Worked(vcpu) = notice
            && let Some(count) = self.counts.get_mut(vcpu.index())
        {
            *count /= 2;
        }
    }
}
