//! The locks by name.

use overlock::counters::Event;
use overlock::{ConstLock, Hybrid, Queued, TestAndSet, Ticket};

use crate::kernel::Kernel;

overlock::lock_class!(
    /// All locks of the kernel's workloads.
    pub(super) Counted
);

/// All of them. Those that begin with `native` never wait.
pub(super) const NAMES: &str = "test-and-set:ticket:queued:hybrid:native-test-and-set:native-ticket:native-queued:native-hybrid";

/// Work with a lock whose type is chosen by name.
pub(super) trait UseLock {
    /// Its result.
    type Output;
    /// Does the work with locks of type `L`.
    fn with<L: ConstLock + 'static>(self) -> Self::Output;
}

pub(super) fn with_lock<K: Kernel, U: UseLock>(name: &str, user: U) -> U::Output {
    match name {
        "test-and-set" => user.with::<TestAndSet<K::Aware, Counted>>(),
        "ticket" => user.with::<Ticket<K::Aware, Counted>>(),
        "queued" => user.with::<Queued<K::Aware, Counted>>(),
        "hybrid" => user.with::<Hybrid<K::Aware, Counted>>(),
        "native-test-and-set" => user.with::<TestAndSet<K::Native, Counted>>(),
        "native-ticket" => user.with::<Ticket<K::Native, Counted>>(),
        "native-queued" => user.with::<Queued<K::Native, Counted>>(),
        "native-hybrid" => user.with::<Hybrid<K::Native, Counted>>(),
        other => panic!("there is no lock called {other}"),
    }
}

/// What the locks have counted so far.
pub(super) fn counted() -> [u64; Event::ALL.len()] {
    core::array::from_fn(|i| Counted::counters().get(Event::ALL[i]))
}
