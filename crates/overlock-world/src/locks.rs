// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registry of locks: the one place where a name becomes a type.

use overlock::counters::Event;
use overlock::{ConstLock, Hybrid, Queued, TestAndSet, Ticket};

use crate::World;

#[cfg(feature = "threads")]
pub mod verbs;

overlock::lock_class!(
    /// All locks of the workloads.
    pub Locks
);

/// The names of all locks, as they are built. Those that begin with `native` never wait: they know
/// nothing of being virtual.
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

/// S3's subject as it was before S3, for comparison: the paravirtual queue locks with all their
/// read-modify-writes sequentially consistent. They are used only when asked for by name.
pub const COMPARATORS: [&str; 2] = ["sequential-queued", "sequential-hybrid"];

/// Takes the place of a lock's name to show the best that a lock of strict order could do: vCPUs
/// pass a token round, and each hand-over takes one critical section, one kick and one halt.
///
/// The rest of a profile is left out: the work between critical sections would hide the limit.
pub const HAND_OVER: &str = "hand-over";

const NATIVE: &str = "native-";
const SEQUENTIAL: &str = "sequential-";
const OFF: &str = "-off";

/// How a lock is built, among builds that differ in nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// It knows nothing of being virtual.
    Native,
    /// The paravirtual code, switched off at run time.
    Off,
    /// It may halt, and is kicked.
    Paravirtual,
    /// The same, with sequentially consistent read-modify-writes.
    Sequential,
}

/// A lock as the guest is built and booted: native, paravirtual, or paravirtual but switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The name as typed, and as it appears in the records.
    pub name: String,
    /// As in [`LOCKS`], [`COMPARATORS`], or [`HAND_OVER`].
    pub built: &'static str,
    /// Whether it can wait instead of spinning.
    pub paravirtual: bool,
}

impl Lock {
    /// The lock with this name: one of [`LOCKS`], a paravirtual one of them followed by `-off`, one
    /// of [`COMPARATORS`], or [`HAND_OVER`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let find = |among: &[&'static str], name: &str| {
            among.iter().find(|&&known| known == name).copied()
        };
        let (built, paravirtual) = match name.strip_suffix(OFF) {
            Some(base) if !base.starts_with(NATIVE) => (find(&LOCKS, base)?, false),
            Some(_) => return None,
            None => {
                let other = || find(&COMPARATORS, name).or_else(|| find(&[HAND_OVER], name));
                (find(&LOCKS, name).or_else(other)?, !name.starts_with(NATIVE))
            }
        };
        Some(Self { name: name.to_owned(), built, paravirtual })
    }

    /// Stands for the lock of a workload that takes none.
    #[must_use]
    pub fn none() -> Self {
        Self { name: "none".into(), built: LOCKS[0], paravirtual: false }
    }

    /// Every lock, in every build.
    pub fn all() -> impl Iterator<Item = Self> {
        let off = LOCKS.into_iter().map(|name| format!("{name}{OFF}"));
        LOCKS.into_iter().map(str::to_owned).chain(off).filter_map(|name| Self::named(&name))
    }

    /// How it is built.
    #[must_use]
    pub fn build(&self) -> Build {
        match (self.built.starts_with(NATIVE), self.paravirtual) {
            _ if self.built.starts_with(SEQUENTIAL) => Build::Sequential,
            (true, _) => Build::Native,
            (false, false) => Build::Off,
            (false, true) => Build::Paravirtual,
        }
    }

    /// The algorithm, however it is built.
    #[must_use]
    pub fn family(&self) -> &'static str {
        plain(self.built)
    }
}

/// Whether the lock called `name` serves its waiters in order.
pub(crate) fn in_order(name: &str) -> bool {
    matches!(plain(name), "ticket" | "queued")
}

/// The name of the algorithm of a lock with this name.
fn plain(name: &str) -> &str {
    name.strip_prefix(NATIVE).or_else(|| name.strip_prefix(SEQUENTIAL)).unwrap_or(name)
}

/// Something to do with a lock whose type is known only by its name.
pub(crate) trait UseLock {
    /// The result.
    type Output;
    /// Does it with locks of type `L`.
    fn with<L: ConstLock + 'static>(self) -> Self::Output;
}

/// Lets `user` use the lock called `name` on vCPUs of world `W`; `None` if there is no such lock.
pub(crate) fn with_lock<W: World, U: UseLock>(name: &str, user: U) -> Option<U::Output> {
    Some(match name {
        "test-and-set" => user.with::<TestAndSet<W::Aware, Locks>>(),
        "ticket" => user.with::<Ticket<W::Aware, Locks>>(),
        "queued" => user.with::<Queued<W::Aware, Locks>>(),
        "hybrid" => user.with::<Hybrid<W::Aware, Locks>>(),
        "sequential-queued" => user.with::<Queued<W::Ordered, Locks>>(),
        "sequential-hybrid" => user.with::<Hybrid<W::Ordered, Locks>>(),
        "native-test-and-set" => user.with::<TestAndSet<W::Native, Locks>>(),
        "native-ticket" => user.with::<Ticket<W::Native, Locks>>(),
        "native-queued" => user.with::<Queued<W::Native, Locks>>(),
        "native-hybrid" => user.with::<Hybrid<W::Native, Locks>>(),
        _ => return None,
    })
}

/// What the locks have counted so far.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_know_how_they_are_built() {
        for (name, build, family) in [
            ("native-ticket", Build::Native, "ticket"),
            ("ticket", Build::Paravirtual, "ticket"),
            ("ticket-off", Build::Off, "ticket"),
            ("test-and-set-off", Build::Off, "test-and-set"),
            ("sequential-hybrid", Build::Sequential, "hybrid"),
            (HAND_OVER, Build::Paravirtual, HAND_OVER),
        ] {
            let lock = Lock::named(name).unwrap();
            assert_eq!((lock.build(), lock.family()), (build, family), "{name}");
        }
        assert_eq!(Lock::named("native-ticket-off"), None);
        assert_eq!(Lock::named("hand-over-off"), None);
        assert_eq!(Lock::named("sequential-hybrid-off"), None);
        assert!(in_order("sequential-queued") && !in_order("sequential-hybrid"));
        assert_eq!(Lock::named("nonsense"), None);
        assert_eq!(Lock::all().count(), 12);
    }
}
