//! Long spins: what is known of one, and what a guest says of it.

use crate::host::Vcpu;

/// A long spin, and what is known about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    pub vcpu: Vcpu,
    /// How the spin was detected.
    pub source: SpinSource,
    /// What the guest claims about the lock. Guests can be wrong, or lie.
    pub hint: SpinHint,
    /// The vCPUs for which the spinner really waits, if the embedder can know: the lock's holder,
    /// and those that will have the lock before the spinner. Only the oracle policy acts on it.
    /// With any other policy it shows in the [`Decision`](super::yield_to::Decision) whether the
    /// choice was right.
    pub truth: SpinHint,
}

impl Spin {
    /// A reported spin of which nothing else is known.
    pub const fn reported(vcpu: Vcpu) -> Self {
        Self { vcpu, source: SpinSource::Reported, hint: SpinHint::NONE, truth: SpinHint::NONE }
    }
}

/// How a long spin was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinSource {
    /// The guest reported it, or the hardware's pause-loop exit did.
    Reported,
    /// The embedder sampled the guest's instruction pointer and saw it stay in one loop.
    Sampled,
}

/// How many waiters a [`SpinHint`] can name.
pub const HINT_WAITERS: usize = 4;

/// What a paravirtual guest knows about the lock it spins for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpinHint {
    /// The vCPU that holds the lock.
    pub holder: Option<Vcpu>,
    /// The first of the waiters before the spinner, in the order in which they will get the lock.
    pub waiters: [Option<Vcpu>; HINT_WAITERS],
}

impl SpinHint {
    pub const NONE: Self = Self { holder: None, waiters: [None; HINT_WAITERS] };

    /// A hint that names only the holder.
    pub const fn holder(vcpu: Vcpu) -> Self {
        Self { holder: Some(vcpu), ..Self::NONE }
    }

    /// The holder, followed by the waiters.
    pub fn line(&self) -> impl Iterator<Item = Vcpu> + Clone {
        self.holder.into_iter().chain(self.waiters.into_iter().flatten())
    }
}
