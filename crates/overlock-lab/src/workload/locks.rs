// SPDX-License-Identifier: MIT OR Apache-2.0
//! The locks that a workload can run under, by name.

use overlock::counters::Event;
use overlock::{ConstLock, Hybrid, Queued, TestAndSet, Ticket};

use crate::guest::platform::Guest;
use crate::guest::world::World;

overlock::lock_class!(
    /// All locks of the laboratory's workloads.
    pub Locks
);

/// The names of all locks. Those that begin with `native` never wait: they know nothing of being
/// virtual.
pub const LOCKS: [&str; 8] = [
    "test-and-set",
    "ticket",
    "queued",
    "hybrid",
    "native-test-and-set",
    "native-ticket",
    "native-queued",
    "native-hybrid",
];

/// Whether the lock called `name` goes to whoever asked first.
pub(super) fn in_order(name: &str) -> bool {
    matches!(name.strip_prefix("native-").unwrap_or(name), "ticket" | "queued")
}

/// Something to be done with a lock whose type is only known by name.
pub trait UseLock {
    /// What comes of it.
    type Output;
    /// Does it with locks of type `L`.
    fn with<L: ConstLock + 'static>(self) -> Self::Output;
}

/// Has `user` use the lock called `name` on vCPUs of world `W`; nothing if there is none such.
pub(super) fn with_lock<W: World, U: UseLock>(name: &str, user: U) -> Option<U::Output> {
    type Aware<W> = Guest<W, true>;
    type Native<W> = Guest<W, false>;
    Some(match name {
        "test-and-set" => user.with::<TestAndSet<Aware<W>, Locks>>(),
        "ticket" => user.with::<Ticket<Aware<W>, Locks>>(),
        "queued" => user.with::<Queued<Aware<W>, Locks>>(),
        "hybrid" => user.with::<Hybrid<Aware<W>, Locks>>(),
        "native-test-and-set" => user.with::<TestAndSet<Native<W>, Locks>>(),
        "native-ticket" => user.with::<Ticket<Native<W>, Locks>>(),
        "native-queued" => user.with::<Queued<Native<W>, Locks>>(),
        "native-hybrid" => user.with::<Hybrid<Native<W>, Locks>>(),
        _ => return None,
    })
}

/// What the locks have counted so far.
#[derive(Clone, Debug)]
pub(super) struct Counted(Vec<(Event, u64)>);

impl Counted {
    pub(super) fn now() -> Self {
        Self(Locks::counters().iter().collect())
    }

    /// What has been counted since `before`, by name, without the zeroes.
    pub(super) fn since(&self, before: &Self) -> Vec<(&'static str, u64)> {
        let pairs = self.0.iter().zip(&before.0);
        pairs
            .map(|(&(event, after), &(_, before))| (event.name(), after - before))
            .filter(|&(_, count)| count > 0)
            .collect()
    }
}
