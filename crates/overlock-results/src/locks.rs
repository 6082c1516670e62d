// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of all locks, and what each is.

use crate::stats::unique;
use crate::{Error, Task};

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

/// The locks of S1, S3 and S4 as they were published, for comparison, and S3's before S3: those of
/// the program `overlock-papers`. They serve a limited number of vCPUs.
pub const PUBLISHED: [&str; 5] = [
    "published-ticket",
    "published-queued",
    "published-queued-full",
    "published-hybrid",
    "published-unfair",
];

/// Takes the place of a lock's name to show the best that a lock of strict order could do: vCPUs
/// pass a token round, and each hand-over takes one critical section, one kick and one halt.
///
/// The rest of a profile is left out: the work between critical sections would hide the limit.
pub const HAND_OVER: &str = "hand-over";

/// Our read-write locks: with readers that share no cache line, and with a count of readers. They
/// exist where threads are, and on simulated hosts.
pub const READ_WRITE: [&str; 1] = ["rwlock"];

/// Read-write locks as others have described them: with a queue, as Linux's, and a count without
/// one. They exist on simulated hosts.
pub const READ_WRITE_PEERS: [&str; 2] = ["queue-rwlock", "counting-rwlock"];

/// Locks that others have written, as users would take them instead of ours. They exist where
/// threads are.
pub const PEERS: [&str; 11] = [
    "std",
    "parking-lot",
    "parking-lot-fair",
    "pthread",
    "pthread-adaptive",
    "pthread-spin",
    "spin-ticket",
    "yield",
    "std-rwlock",
    "parking-lot-rwlock",
    "pthread-rwlock",
];

/// The spin lock of Linux's kernel, as it finds itself under its host, and told not to wait. It
/// exists where Linux is a guest, and is used only when asked for by name.
pub const LINUX: [&str; 2] = ["linux", "linux-nopvspin"];

/// What the group `main` means: ours that halt, and the peers that are best somewhere.
const MAIN: [&str; 11] = [
    "hybrid",
    "queued",
    "ticket",
    "std",
    "parking-lot",
    "pthread",
    "yield",
    "rwlock",
    "std-rwlock",
    "parking-lot-rwlock",
    "pthread-rwlock",
];

/// Those that come with a condition variable.
const CONDITIONS: [&str; 7] =
    ["hybrid", "queued", "ticket", "test-and-set", "std", "parking-lot", "pthread"];

/// Deliberately broken ones: they prove that what measures also notices. Used only when asked for
/// by name.
pub const BROKEN: [&str; 4] = ["broken-noop", "broken-favourite", "broken-reads", "broken-notify"];

const NATIVE: &str = "native-";
const AS_PUBLISHED: &str = "published-";
const SEQUENTIAL: &str = "sequential-";
const OFF: &str = "-off";
const OF_READERS: &str = "rwlock";

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
    Published,
    Peer,
    Broken,
}

/// A lock as the guest is built and booted: native, paravirtual, or paravirtual but switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The name as typed, and as it appears in the records.
    pub name: String,
    /// As in [`LOCKS`], [`COMPARATORS`], [`PUBLISHED`], [`PEERS`], [`LINUX`], [`BROKEN`], or
    /// [`HAND_OVER`].
    pub built: &'static str,
    /// Whether it can wait instead of spinning.
    pub paravirtual: bool,
}

impl Lock {
    /// The lock with this name: one of [`LOCKS`] or [`PUBLISHED`], a paravirtual one of them
    /// followed by `-off`, one of [`COMPARATORS`], [`HAND_OVER`], one of [`PEERS`], of [`LINUX`] or
    /// of [`BROKEN`].
    pub fn named(name: &str) -> Option<Self> {
        let find = |among: &[&'static str], name: &str| {
            among.iter().find(|&&known| known == name).copied()
        };
        if name == "none" {
            return Some(Self::none());
        }
        if let Some(built) = find(&LINUX, name) {
            return Some(Self { name: name.to_owned(), built, paravirtual: built == LINUX[0] });
        }
        if let Some(built) = find(&READ_WRITE, name) {
            return Some(Self { name: name.to_owned(), built, paravirtual: true });
        }
        let peer = find(&PEERS, name).or_else(|| find(&READ_WRITE_PEERS, name));
        if let Some(built) = peer.or_else(|| find(&BROKEN, name)) {
            return Some(Self { name: name.to_owned(), built, paravirtual: false });
        }
        let lock = |name| find(&LOCKS, name).or_else(|| find(&PUBLISHED, name));
        let (built, paravirtual) = match name.strip_suffix(OFF) {
            Some(base) if !base.starts_with(NATIVE) => (lock(base)?, false),
            Some(_) => return None,
            None => {
                let other = || find(&COMPARATORS, name).or_else(|| find(&[HAND_OVER], name));
                (lock(name).or_else(other)?, !name.starts_with(NATIVE))
            }
        };
        Some(Self { name: name.to_owned(), built, paravirtual })
    }

    /// Stands for the lock of a workload that takes none.
    pub fn none() -> Self {
        Self { name: "none".into(), built: LOCKS[0], paravirtual: false }
    }

    /// Whether it bounds how many others, or how much time, can go before a waiter, so that no
    /// thread waits for ever, whatever the others do. Only this list says so.
    pub fn cannot_starve(&self) -> bool {
        const BOUNDED: [&str; 10] = [
            "ticket",
            "queued",
            "queued-full",
            "hybrid",
            HAND_OVER,
            "rwlock",
            "parking-lot",
            "parking-lot-fair",
            "parking-lot-rwlock",
            "spin-ticket",
        ];
        BOUNDED.contains(&self.family()) && self.name != "none"
    }

    /// Whether many can read under it at a time.
    pub fn is_read_write(&self) -> bool {
        self.built.contains(OF_READERS)
    }

    /// Whether the groups of [`choose`](Self::choose) mean it, where threads do `task`.
    pub fn suits(&self, task: Task) -> bool {
        match task {
            Task::Exclude => !self.is_read_write(),
            Task::Read(_) => self.is_read_write(),
            _ => CONDITIONS.contains(&self.built),
        }
    }

    /// Those of `known` that `names` ask for, each once: locks, and the groups `all`, `ours`,
    /// `peers`, `main`, `native`, `paravirtual`, `off`. Any lock that exists can be asked for by
    /// name if `known` has its algorithm.
    pub fn choose(names: &[String], known: &[Self]) -> Result<Vec<Self>, Error> {
        let mut chosen: Vec<Self> = Vec::new();
        for name in names {
            let of = |is: &dyn Fn(&Self) -> bool| -> Vec<Self> {
                known.iter().filter(|lock| is(lock)).cloned().collect()
            };
            let found = match name.as_str() {
                "all" => of(&|_| true),
                "ours" => of(&|lock| lock.build() != Build::Peer),
                "peers" => of(&|lock| lock.build() == Build::Peer),
                "main" => of(&|lock| MAIN.contains(&lock.name.as_str())),
                "native" => of(&|lock| lock.build() == Build::Native),
                "paravirtual" => of(&|lock| lock.build() == Build::Paravirtual),
                "off" => of(&|lock| lock.build() == Build::Off),
                name => Self::named(name).into_iter().collect(),
            };
            if found.is_empty() {
                let known: Vec<&str> = known.iter().map(|lock| lock.name.as_str()).collect();
                let known = known.join(", ");
                return Err(Error(format!(
                    "there is no lock '{name}'; choose from {known} (or main, all, ours, peers, \
                     native, paravirtual, off)"
                )));
            }
            chosen.extend(found);
        }
        Ok(unique(chosen))
    }

    /// Every lock of ours, in every build.
    pub fn all() -> impl Iterator<Item = Self> {
        let off = LOCKS.into_iter().map(|name| format!("{name}{OFF}"));
        LOCKS.into_iter().map(str::to_owned).chain(off).filter_map(|name| Self::named(&name))
    }

    /// The read-write locks that exist on simulated hosts.
    pub fn read_write() -> impl Iterator<Item = Self> {
        READ_WRITE.into_iter().chain(READ_WRITE_PEERS).filter_map(Self::named)
    }

    pub fn build(&self) -> Build {
        match (self.built.starts_with(NATIVE), self.paravirtual) {
            _ if PEERS.contains(&self.built)
                || LINUX.contains(&self.built)
                || READ_WRITE_PEERS.contains(&self.built) =>
            {
                Build::Peer
            }
            _ if BROKEN.contains(&self.built) => Build::Broken,
            _ if PUBLISHED.contains(&self.built) => Build::Published,
            _ if self.built.starts_with(SEQUENTIAL) => Build::Sequential,
            (true, _) => Build::Native,
            (false, false) => Build::Off,
            (false, true) => Build::Paravirtual,
        }
    }

    /// The algorithm, however it is built.
    pub fn family(&self) -> &'static str {
        plain(self.built)
    }
}

/// Whether the lock called `name` serves its waiters in order.
pub fn in_order(name: &str) -> bool {
    matches!(plain(name), "ticket" | "queued" | "queued-full")
}

/// The name of the algorithm of a lock with this name.
fn plain(name: &str) -> &str {
    let built = [NATIVE, SEQUENTIAL, AS_PUBLISHED];
    built.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
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
        let cannot_starve = |name| Lock::named(name).unwrap().cannot_starve();
        for name in ["native-ticket", "hybrid-off", "parking-lot", "spin-ticket", "rwlock"] {
            assert!(cannot_starve(name), "{name}");
        }
        for name in ["none", "std", "pthread", "test-and-set", "published-unfair", "yield"] {
            assert!(!cannot_starve(name), "{name}");
        }
        assert_eq!(Lock::all().count(), 12);
    }
}
