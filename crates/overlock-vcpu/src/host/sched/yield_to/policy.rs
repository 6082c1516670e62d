//! What a policy is.

use alloc::boxed::Box;
use core::fmt::Debug;

use super::decision::{Chosen, Missed, Trace};
use super::view::View;
use crate::host::sched::Spin;
use crate::host::{Nanos, Vcpu};

/// A policy's decision about a spinner's pCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Give the spinner's pCPU to this vCPU.
    To(Vcpu, Chosen),
    /// Give it to the vCPU that lags most in CPU time.
    Plain(Missed),
    /// Let the spinner go on.
    Stay(Missed),
}

/// An event other than a spin that a policy may want to know about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// This vCPU enters the guest.
    Runs(Vcpu),
    /// This vCPU left its pCPU without a spin: its slice was over, or it halted.
    Worked(Vcpu),
    /// A vCPU has interrupted another one.
    Ipi { from: Vcpu, to: Vcpu },
    /// This vCPU has taken all interrupts that were sent to it.
    Answered(Vcpu),
}

/// A rule that decides which vCPU gets a spinning vCPU's pCPU.
///
/// Write your own and pass it to [`Scheduler::new`](crate::host::sched::Scheduler::new). A policy should skip
/// every vCPU that [`View::fit`] finds unfit, and record in its [`Trace`] why it skipped any other.
///
/// ```
/// use overlock_vcpu::host::Vcpu;
/// use overlock_vcpu::host::sched::Spin;
/// use overlock_vcpu::host::sched::yield_to::{Chosen, Missed, Policy, Trace, Ruling, View};
///
/// #[derive(Debug)]
/// struct HighestFirst;
///
/// impl Policy for HighestFirst {
///     fn on_spin(&mut self, _: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
///         let found = (0..view.vcpus()).rev().map(Vcpu).find(|&vcpu| view.fit(vcpu, trace));
///         let none = Ruling::Plain(Missed::NoCandidate);
///         found.map_or(none, |vcpu| Ruling::To(vcpu, Chosen::NextInTurn))
///     }
/// }
/// ```
pub trait Policy: Debug {
    /// Decides what to do about a long spin. The spinner is out of the guest and still owns its
    /// pCPU.
    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling;

    /// Takes note of an event that is not a spin. Wrappers pass it on.
    fn notice(&mut self, now: Nanos, notice: Notice) {
        let _ = (now, notice);
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        (**self).on_spin(spin, view, trace)
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        (**self).notice(now, notice);
    }
}
