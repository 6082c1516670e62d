//! What a policy sees of the host when it decides.

use super::candidate::Candidate;
use super::decision::{Skipped, Trace};
use crate::host::sched::judge::Judge;
use crate::host::sched::spin::Spin;
use crate::host::{Nanos, Vcpu};

/// The host at the time of a spin: which vCPUs could be boosted, and how busy the host is.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The time of the spin.
    pub now: Nanos,
    /// How many pCPUs there are.
    pub pcpus: u32,
    vcpus: Vcpus<'a>,
}

/// The vCPUs that a view shows.
#[derive(Clone, Copy, Debug)]
enum Vcpus<'a> {
    /// All candidates are given.
    Listed(&'a [Candidate]),
    /// Each vCPU is judged when the policy asks for it; the number is how many wait for a pCPU.
    Live(&'a Judge<'a>, u32),
}

impl<'a> View<'a> {
    /// Makes a view of `pcpus` pCPUs and one candidate for each vCPU, for tests of a policy.
    pub const fn new(now: Nanos, pcpus: u32, candidates: &'a [Candidate]) -> Self {
        Self { now, pcpus, vcpus: Vcpus::Listed(candidates) }
    }

    /// Makes a view of the vCPUs that `judge` judges, of which `waiting` wait for a pCPU.
    pub(in crate::host::sched) const fn live(
        now: Nanos,
        pcpus: u32,
        waiting: u32,
        judge: &'a Judge<'a>,
    ) -> Self {
        Self { now, pcpus, vcpus: Vcpus::Live(judge, waiting) }
    }

    fn candidate(&self, vcpu: Vcpu) -> Option<Candidate> {
        match self.vcpus {
            Vcpus::Listed(candidates) => candidates.get(vcpu.index()).copied(),
            Vcpus::Live(judge, _) => judge.candidate(vcpu),
        }
    }

    /// How many vCPUs there are.
    pub fn vcpus(&self) -> u32 {
        let count = match self.vcpus {
            Vcpus::Listed(candidates) => candidates.len(),
            Vcpus::Live(judge, _) => judge.vcpus.len(),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// How many vCPUs wait for a pCPU.
    pub fn waiting(&self) -> u32 {
        match self.vcpus {
            Vcpus::Listed(_) => (0..self.vcpus()).filter(|&n| self.off_cpu(Vcpu(n))).count() as u32,
            Vcpus::Live(_, waiting) => waiting,
        }
    }

    /// Why `vcpu` cannot be boosted; `None` if it can.
    pub fn unfit(&self, vcpu: Vcpu) -> Option<Skipped> {
        self.candidate(vcpu).map_or(Some(Skipped::Unknown), |candidate| candidate.unfit)
    }

    /// Whether `vcpu` waits for a pCPU.
    pub fn off_cpu(&self, vcpu: Vcpu) -> bool {
        matches!(self.unfit(vcpu), None | Some(Skipped::AheadOfShare))
    }

    /// Whether `vcpu` can be boosted; if it cannot, `trace` records why.
    pub fn fit(&self, vcpu: Vcpu, trace: &mut Trace) -> bool {
        match self.unfit(vcpu) {
            None => true,
            Some(why) => {
                trace.skip(vcpu, why);
                false
            }
        }
    }

    /// Whether `vcpu` left its pCPU through a pause loop and has not run since.
    pub fn spinning(&self, vcpu: Vcpu) -> bool {
        self.candidate(vcpu).is_some_and(|candidate| candidate.spinning)
    }

    /// Whether `vcpu` was in user mode when it was last in the guest, as far as is known.
    pub fn in_user(&self, vcpu: Vcpu) -> bool {
        self.candidate(vcpu).is_some_and(|candidate| candidate.in_user)
    }
}

impl Spin {
    /// The vCPU to which a pCPU would help the spinner most: of the true holder and the waiters
    /// before the spinner, the first that is off CPU. If all of them run, it is the holder; `None`
    /// if the truth is not known.
    pub fn awaited(&self, view: &View<'_>) -> Option<Vcpu> {
        let mut line = self.truth.line();
        line.clone().find(|&vcpu| view.off_cpu(vcpu)).or_else(|| line.next())
    }
}
