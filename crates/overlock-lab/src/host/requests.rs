// SPDX-License-Identifier: MIT OR Apache-2.0
//! Yields that a vCPU asks for, on top of any policy for those it does not.
//!
//! A policy guesses whom a spinner waits for. A vCPU that *names* another needs no guess, and is
//! obeyed under every policy, `none` included: this wrapper hands the scheduler the named vCPU and
//! asks the policy only otherwise. If the named one is not waiting for a processor, whoever lags
//! most gets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use overlock_host::sched::Spin;
use overlock_host::sched::yield_to::{Chosen, Notice, Policy, Trace, Verdict, View};
use overlock_host::{Nanos, Vcpu};

/// Nobody is named.
const NOBODY: u32 = u32::MAX;

/// The vCPU that the next spin names; shared by the host, which sets it, and the policy, which
/// takes it.
///
/// Both happen with the state locked, so the cell needs no order of its own.
#[derive(Clone, Debug)]
pub(super) struct Request(Arc<AtomicU32>);

impl Request {
    pub(super) fn none() -> Self {
        Self(Arc::new(AtomicU32::new(NOBODY)))
    }

    /// Has the next spin be a request to let `target` run.
    pub(super) fn name(&self, target: u32) {
        self.0.store(target, Relaxed);
    }

    fn take(&self) -> Option<Vcpu> {
        Some(self.0.swap(NOBODY, Relaxed)).filter(|&target| target != NOBODY).map(Vcpu)
    }
}

/// A policy that obeys requests.
#[derive(Debug)]
pub(super) struct Obeying {
    request: Request,
    policy: Box<dyn Policy + Send>,
}

impl Obeying {
    pub(super) fn new(request: Request, policy: Box<dyn Policy + Send>) -> Self {
        Self { request, policy }
    }
}

impl Policy for Obeying {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Verdict {
        match self.request.take() {
            Some(target) => Verdict::To(target, Chosen::NextWaiter),
            None => self.policy.on_spin(spin, view, trace),
        }
    }

    fn notice(&mut self, now: Nanos, notice: Notice) {
        self.policy.notice(now, notice);
    }

    fn boosts_kicked(&self) -> bool {
        self.policy.boosts_kicked()
    }
}
