//! The names of all locks, and what each is.

use crate::stats::unique;
use crate::{Error, Task};

/// Where a lock exists, and why.
#[derive(Clone, Copy)]
enum Kind {
    /// Ours, on vCPUs and, as far as threads have an entry for it, there. Those that begin with
    /// `native` never wait: they know nothing of being virtual.
    Ours,
    /// The locks of S1, S3 and S4 as they were published, and S3's before S3: those of the program
    /// `overlock-papers`. They serve a limited number of vCPUs.
    Published,
    /// Our read-write locks: where threads are, and on simulated hosts.
    ReadWrite,
    /// Locks that others have written, as users would take them instead of ours, where threads are.
    Peer,
    /// No lock, but the most that one could do: see [`HAND_OVER`].
    Limit,
    /// Deliberately broken ones: they prove that what measures also notices. Used only when asked
    /// for by name.
    Broken,
}

/// What a lock can do or promises, beyond mutual exclusion.
#[derive(Clone, Copy, PartialEq)]
enum Promise {
    /// The group `main` has it: ours that halt, and the peers that are best somewhere.
    Main,
    Conditions,
    /// It bounds how many others, or how much time, can go before a waiter, so that no thread waits
    /// for ever, whatever the others do.
    Bounded,
    InOrder,
}

use Kind::{Broken, Limit, Ours, Peer, Published, ReadWrite};
use Promise::{Bounded, Conditions, InOrder, Main};

/// Every lock, and what it promises: nothing else says so. What an algorithm promises holds for all
/// its builds.
const REGISTRY: [(&str, Kind, &[Promise]); 30] = [
    ("test-and-set", Ours, &[Conditions]),
    ("ticket", Ours, &[Main, Conditions, Bounded, InOrder]),
    ("queued", Ours, &[Main, Conditions, Bounded, InOrder]),
    ("hybrid", Ours, &[Main, Conditions, Bounded]),
    ("native-test-and-set", Ours, &[]),
    ("native-ticket", Ours, &[]),
    ("native-queued", Ours, &[]),
    ("native-hybrid", Ours, &[]),
    ("published-ticket", Published, &[]),
    ("published-queued", Published, &[]),
    ("published-queued-full", Published, &[Bounded, InOrder]),
    ("published-hybrid", Published, &[]),
    ("published-unfair", Published, &[]),
    ("rwlock", ReadWrite, &[Main, Bounded]),
    ("std", Peer, &[Main, Conditions]),
    ("parking-lot", Peer, &[Main, Conditions, Bounded]),
    ("parking-lot-fair", Peer, &[Bounded]),
    ("pthread", Peer, &[Main, Conditions]),
    ("pthread-adaptive", Peer, &[]),
    ("pthread-spin", Peer, &[]),
    ("spin-ticket", Peer, &[Bounded]),
    ("yield", Peer, &[Main]),
    ("std-rwlock", Peer, &[Main]),
    ("parking-lot-rwlock", Peer, &[Main, Bounded]),
    ("pthread-rwlock", Peer, &[Main]),
    (HAND_OVER, Limit, &[Bounded]),
    ("broken-noop", Broken, &[]),
    ("broken-favourite", Broken, &[]),
    ("broken-reads", Broken, &[]),
    ("broken-notify", Broken, &[]),
];

const fn count(kind: Kind) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < REGISTRY.len() {
        count += (REGISTRY[at].1 as u8 == kind as u8) as usize;
        at += 1;
    }
    count
}

const fn names<const N: usize>(kind: Kind) -> [&'static str; N] {
    let (mut names, mut count, mut at) = ([""; N], 0, 0);
    while at < REGISTRY.len() {
        if REGISTRY[at].1 as u8 == kind as u8 {
            names[count] = REGISTRY[at].0;
            count += 1;
        }
        at += 1;
    }
    names
}

pub const LOCKS: [&str; count(Ours)] = names(Ours);
pub const PUBLISHED: [&str; count(Published)] = names(Published);
pub const PEERS: [&str; count(Peer)] = names(Peer);
pub const BROKEN: [&str; count(Broken)] = names(Broken);

/// Takes the place of a lock's name to show the best that a lock of strict order could do: vCPUs
/// pass a token round, and each hand-over takes one critical section, one kick and one halt.
///
/// The rest of a profile is left out: the work between critical sections would hide the limit.
pub const HAND_OVER: &str = "hand-over";

fn find(name: &str) -> Option<(&'static str, Kind, &'static [Promise])> {
    REGISTRY.into_iter().find(|(known, ..)| *known == name)
}

fn promises(name: &str, promise: Promise) -> bool {
    find(name).is_some_and(|(.., all)| all.contains(&promise))
}

const NATIVE: &str = "native-";
const AS_PUBLISHED: &str = "published-";
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
    Published,
    Peer,
    Broken,
}

/// A lock as the guest is built and booted: native, paravirtual, or paravirtual but switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The name as typed, and as it appears in the records.
    pub name: String,
    /// As in the registry.
    pub built: &'static str,
    pub paravirtual: bool,
}

impl Lock {
    /// The lock with this name; one that may halt can be followed by `-off`.
    pub fn named(name: &str) -> Option<Self> {
        if name == "none" {
            return Some(Self::none());
        }
        let base = name.strip_suffix(OFF);
        let (built, kind, _) = find(base.unwrap_or(name))?;
        let is_native = built.starts_with(NATIVE);
        if base.is_some() && (is_native || !matches!(kind, Ours | Published)) {
            return None;
        }
        let can_halt = match kind {
            Ours | Published => !is_native,
            ReadWrite | Limit => true,
            Peer | Broken => false,
        };
        Some(Self { name: name.to_owned(), built, paravirtual: base.is_none() && can_halt })
    }

    /// Stands for the lock of a workload that takes none.
    pub fn none() -> Self {
        Self { name: "none".into(), built: LOCKS[0], paravirtual: false }
    }

    pub fn cannot_starve(&self) -> bool {
        let names = [self.built, self.family()];
        self.name != "none" && names.iter().any(|name| promises(name, Bounded))
    }

    pub fn is_read_write(&self) -> bool {
        self.built.contains(OF_READERS)
    }

    /// Whether the groups of [`choose`](Self::choose) mean it, where threads do `task`.
    pub fn suits(&self, task: Task) -> bool {
        match task {
            Task::Exclude => !self.is_read_write(),
            Task::Read(_) => self.is_read_write(),
            _ => promises(self.built, Conditions),
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
                "main" => of(&|lock| promises(&lock.name, Main)),
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

    pub fn build(&self) -> Build {
        match find(self.built).map(|(_, kind, _)| kind) {
            Some(Peer) => Build::Peer,
            Some(Broken) => Build::Broken,
            Some(Published) => Build::Published,
            _ if self.built.starts_with(NATIVE) => Build::Native,
            _ if self.paravirtual => Build::Paravirtual,
            _ => Build::Off,
        }
    }

    pub fn family(&self) -> &'static str {
        plain(self.built)
    }
}

pub fn in_order(name: &str) -> bool {
    [name, plain(name)].iter().any(|name| promises(name, InOrder))
}

fn plain(name: &str) -> &str {
    let built = [NATIVE, AS_PUBLISHED];
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
            (HAND_OVER, Build::Paravirtual, HAND_OVER),
        ] {
            let lock = Lock::named(name).unwrap();
            assert_eq!((lock.build(), lock.family()), (build, family), "{name}");
        }
        assert_eq!(Lock::named("native-ticket-off"), None);
        assert_eq!(Lock::named("hand-over-off"), None);
        assert!(in_order("native-queued") && !in_order("native-hybrid"));
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
