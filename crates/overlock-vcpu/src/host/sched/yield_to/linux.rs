//! `linux` and `linux-ipi`: what `kvm_vcpu_on_spin` chooses in Linux 7, and what it would choose
//! with W. Li's series of 2025.
//!
//! `linux` is `skip-spinners` with a test before it. A vCPU that was preempted in user mode holds
//! no lock of the guest's kernel. If the spinner is in the kernel, such a vCPU is passed over,
//! unless an interrupt is pending for it: its handler may be what the spinner waits for.
//!
//! `linux-ipi` asks in this order:
//! 1. the vCPU that the spinner interrupted last, if that has not answered within 50 ms,
//! 2. any vCPU for which an interrupt is pending,
//! 3. `linux`,
//! 4. if that finds none, any preempted vCPU.
//!
//! # Departures
//! Linux sees an interrupt until its handler ends, this until the vCPU enters the guest or
//! [answers](crate::host::sched::Event::Answered). Linux remembers only IPIs to one vCPU; of an IPI
//! to several this remembers the last receiver, since no event says which of the two it was. The
//! other half of the series, a penalty for the yielder's virtual time, belongs to the fair class of
//! Linux's scheduler; here [`yield_lead`](crate::host::sched::Config::yield_lead) bounds yields.
//!
//! # Sources
//! Longpeng, "KVM: add spinlock optimization framework", 2017, merged into Linux 4.14; W. Li,
//! "Semantics-aware vCPU scheduling for oversubscribed KVM", 2025 (not merged).

use alloc::vec;
use alloc::vec::Vec;

use super::debts::Debts;
use super::{Chosen, Missed, Notice, Policy, Rotation, Ruling, SkipSpinners, Skipped, Trace, View};
use crate::host::sched::Spin;
use crate::host::{Nanos, Vcpu};

/// Boosts vCPUs in turn, spinners only every other time, and none that was preempted in user mode.
#[derive(Clone, Debug)]
pub struct Linux {
    inner: SkipSpinners,
    debts: Debts,
}

impl Linux {
    /// Makes the policy for a guest of `vcpus`.
    pub fn new(vcpus: u32) -> Self {
        Self { inner: SkipSpinners::new(vcpus), debts: Debts::new(vcpus) }
    }
}

impl Policy for Linux {
    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        let (debts, wants_kernel) = (&self.debts, !view.in_user(spin.vcpu));
        self.inner.scan(view, trace, u32::MAX, |vcpu| {
            let is_idle = view.in_user(vcpu) && !debts.pending(vcpu, view.now);
            (wants_kernel && is_idle).then_some(Skipped::InUser)
        })
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        self.debts.notice(now, notice);
        self.inner.notice(now, notice);
    }
}

/// Boosts the vCPU that the spinner interrupted last, and asks [`Linux`] if there is none.
#[derive(Clone, Debug)]
pub struct LinuxIpi {
    inner: Linux,
    rotation: Rotation,
    /// The vCPU that each one interrupted last.
    last: Vec<Option<Vcpu>>,
}

impl LinuxIpi {
    /// Makes the policy for a guest of `vcpus`.
    pub fn new(vcpus: u32) -> Self {
        let last = vec![None; vcpus as usize];
        Self { inner: Linux::new(vcpus), rotation: Rotation::default(), last }
    }
}

impl Policy for LinuxIpi {
    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        let (now, debts) = (view.now, &self.inner.debts);
        let last = self.last.get(spin.vcpu.index()).copied().flatten();
        if let Some(to) = last.filter(|&to| debts.owes(to, spin.vcpu, now))
            && view.fit(to, trace)
        {
            return Ruling::To(to, Chosen::OwesIpi);
        }
        let found = self.rotation.next(view, trace, u32::MAX, |vcpu| {
            if debts.pending(vcpu, now) { Ok(Chosen::IpiPending) } else { Err(Skipped::NoIpi) }
        });
        if let Some((to, why)) = found {
            return Ruling::To(to, why);
        }
        match self.inner.on_spin(spin, view, trace) {
            Ruling::Stay(Missed::NoCandidate) => {
                self.rotation.verdict(view, trace, u32::MAX, |_| Ok(Chosen::NextInTurn))
            }
            verdict => verdict,
        }
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        if let Notice::Ipi { from, to } = notice
            && let Some(last) = self.last.get_mut(from.index())
        {
            *last = Some(to);
        }
        self.inner.notice(now, notice);
    }
}
