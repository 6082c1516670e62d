//! The one place where the name of a lock becomes a type for vCPUs.

use overlock::counters::Event;
use overlock::{ConstLock, Hybrid, Queued, TestAndSet, Ticket};

use crate::Verbs;

pub(crate) mod class;

pub use class::Locks;

/// The most vCPUs that [`PUBLISHED`](overlock_results::locks::PUBLISHED) locks serve.
pub const PUBLISHED_CPUS: u32 = 128;

/// Something to do with a lock whose type is known only by its name.
pub trait UseLock {
    type Output;
    fn with<L: ConstLock + 'static>(self) -> Self::Output;
}

/// Locks that another program brings, of those that
/// [`PUBLISHED`](overlock_results::locks::PUBLISHED) names.
pub trait MoreLocks {
    /// Lets `user` use the lock called `name` on vCPUs of world `W`; `None` if there is no such
    /// lock.
    fn with<W: Verbs, U: UseLock>(name: &str, user: U) -> Option<U::Output>;
}

#[derive(Clone, Copy, Debug)]
pub struct NoMore;

impl MoreLocks for NoMore {
    fn with<W: Verbs, U: UseLock>(_name: &str, _user: U) -> Option<U::Output> {
        None
    }
}

/// Lets `user` use the lock called `name` on vCPUs of world `W`; `None` if there is no such lock.
pub(crate) fn with_lock<W: Verbs, U: UseLock>(name: &str, user: U) -> Option<U::Output> {
    Some(match name {
        "test-and-set" => user.with::<TestAndSet<W::Aware, Locks>>(),
        "ticket" => user.with::<Ticket<W::Aware, Locks>>(),
        "queued" => user.with::<Queued<W::Aware, Locks>>(),
        "hybrid" => user.with::<Hybrid<W::Aware, Locks>>(),
        "native-test-and-set" => user.with::<TestAndSet<W::Native, Locks>>(),
        "native-ticket" => user.with::<Ticket<W::Native, Locks>>(),
        "native-queued" => user.with::<Queued<W::Native, Locks>>(),
        "native-hybrid" => user.with::<Hybrid<W::Native, Locks>>(),
        _ => return None,
    })
}

#[derive(Clone, Debug)]
pub(crate) struct Counted(Vec<(Event, u64)>);

impl Counted {
    pub(crate) fn now() -> Self {
        Self(Locks::counters().iter().collect())
    }

    /// What has been counted since `before`, by name, without the zeroes.
    pub(crate) fn since(&self, before: &Self) -> Vec<(&'static str, u64)> {
        let pairs = self.0.iter().zip(&before.0);
        pairs
            .map(|(&(event, after), &(_, before))| (event.name(), after - before))
            .filter(|&(_, count)| count > 0)
            .collect()
    }
}
