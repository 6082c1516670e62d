//! The order in which a queue lock serves CPUs: the one difference between its two forms.

/// The order of a [`QueueLock`](super::QueueLock).
pub trait Order: sealed::Sealed + Send + Sync + 'static {
    /// What the lock is called.
    const NAME: &'static str;
    /// Whether running CPUs may pass a queue head that is awake.
    const UNFAIR: bool;
}

/// The order of [`Queued`](crate::Queued): newcomers pass the queue only while its head is halted
/// for the first time.
#[derive(Clone, Copy, Debug)]
pub struct Strict;

/// The order of [`Hybrid`](crate::Hybrid): newcomers pass the queue until its head forbids it.
#[derive(Clone, Copy, Debug)]
pub struct Unfair;

impl Order for Strict {
    const NAME: &'static str = "Queued";
    const UNFAIR: bool = false;
}

impl Order for Unfair {
    const NAME: &'static str = "Hybrid";
    const UNFAIR: bool = true;
}

impl sealed::Sealed for Strict {}
impl sealed::Sealed for Unfair {}

mod sealed {
    pub trait Sealed {}
}
