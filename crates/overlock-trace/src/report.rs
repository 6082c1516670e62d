// SPDX-License-Identifier: MIT OR Apache-2.0
//! What came out: each lock and call site with its waits, split by what the holder did.

use crate::event::{Reason, Site};
use crate::lengths::Lengths;
use crate::spin::SpinReport;
use std::collections::BTreeMap;

/// A wait's lock and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The process.
    pub process: u32,
    /// The word's address; 0 stands for the words that were too many to keep apart.
    pub lock: u64,
    /// Where the thread waited.
    pub site: Site,
}

/// Time that threads waited, by what the lock's holder did meanwhile, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HolderNs {
    /// It ran.
    pub running: u64,
    /// It could run, but had no processor.
    pub preempted: u64,
    /// It could run, but its group's quota of processor time was spent.
    pub throttled: u64,
    /// It slept: in another lock, for a file, for a time.
    pub blocked: u64,
    /// There was none: the lock was free, and the thread that had been woken for it not yet there.
    pub free: u64,
    /// It is not known which thread held the lock, or what that thread did.
    pub unknown: u64,
}

impl HolderNs {
    /// Returns the shares with their names, in a fixed order.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("running", self.running),
            ("preempted", self.preempted),
            ("throttled", self.throttled),
            ("blocked", self.blocked),
            ("free", self.free),
            ("unknown", self.unknown),
        ]
    }

    /// Returns the sum of all shares.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, ns)| ns).sum()
    }

    /// Adds another split.
    pub fn add(&mut self, other: &HolderNs) {
        self.running += other.running;
        self.preempted += other.preempted;
        self.throttled += other.throttled;
        self.blocked += other.blocked;
        self.free += other.free;
        self.unknown += other.unknown;
    }
}

/// What a sleeping holder slept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockedIn {
    /// Something that the source can explain.
    Reason(Reason),
    /// Another lock.
    Lock {
        /// Where the holder waited for it.
        site: Site,
        /// What the last holder of the chain did.
        end: End,
    },
    /// One of more things than are kept apart.
    Other,
}

/// What the last holder of a chain of locks did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// It ran.
    Running,
    /// It had no processor.
    Preempted,
    /// Its group's quota was spent.
    Throttled,
    /// It slept.
    Blocked(Reason),
    /// The last lock of the chain was free, and its next holder on its way.
    Free,
    /// It is not known.
    Unknown,
}

/// The waits of one lock at one place.
#[derive(Clone, Debug)]
pub struct SiteReport {
    /// Which lock, and where.
    pub key: Key,
    /// How often a thread slept.
    pub waits: u64,
    /// How long, in total.
    pub waited_ns: u64,
    /// How long each time.
    pub wait_ns: Lengths,
    /// How long threads that had slept for the lock held it, where that was seen.
    pub hold_ns: Lengths,
    /// The longest wait.
    pub longest_ns: u64,
    /// The thread that waited for so long.
    pub longest_thread: u32,
    /// What the holder did meanwhile.
    pub holder: HolderNs,
    /// What sleeping holders slept in.
    pub blocked_in: BTreeMap<BlockedIn, u64>,
    /// For how long threads still waited after a reader had released the lock, where that reader
    /// took it again before the wait was over: readers passed the waiter.
    pub passed_ns: u64,
    /// How many of the waits ended in a thread that later woke another at the same word: almost all
    /// of them where the word is a lock, few where threads wait for work.
    pub relays: u64,
}

impl SiteReport {
    pub(crate) fn new(key: Key) -> Self {
        SiteReport {
            key,
            waits: 0,
            waited_ns: 0,
            wait_ns: Lengths::default(),
            hold_ns: Lengths::default(),
            longest_ns: 0,
            longest_thread: 0,
            holder: HolderNs::default(),
            blocked_in: BTreeMap::new(),
            passed_ns: 0,
            relays: 0,
        }
    }

    /// Adds the waits of another lock or place.
    pub fn merge(&mut self, other: &SiteReport) {
        self.waits += other.waits;
        self.waited_ns += other.waited_ns;
        self.wait_ns.merge(&other.wait_ns);
        self.hold_ns.merge(&other.hold_ns);
        if other.longest_ns > self.longest_ns {
            (self.longest_ns, self.longest_thread) = (other.longest_ns, other.longest_thread);
        }
        self.holder.add(&other.holder);
        for (blocked, ns) in &other.blocked_in {
            *self.blocked_in.entry(*blocked).or_default() += ns;
        }
        self.passed_ns += other.passed_ns;
        self.relays += other.relays;
    }

    /// Returns whether those who wait become those who wake, as with a lock.
    #[must_use]
    pub fn relays_like_a_lock(&self) -> bool {
        self.relays * 2 > self.waits
    }
}

/// Time of all threads of the program, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// On a processor.
    pub running: u64,
    /// Able to run, but without a processor.
    pub preempted: u64,
    /// Able to run, but without quota.
    pub throttled: u64,
    /// Asleep, but not in a futex.
    pub blocked: u64,
    /// Asleep in a futex.
    pub waiting: u64,
    /// Not observed.
    pub unknown: u64,
}

impl ThreadTime {
    /// Returns the time of all threads.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.running + self.preempted + self.throttled + self.blocked + self.waiting + self.unknown
    }
}

/// What an analysis found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Each lock and place, the one with the most waiting first.
    pub sites: Vec<SiteReport>,
    /// Loops that wait on a processor, the one with the most samples first.
    pub spins: Vec<SpinReport>,
    /// All threads' time.
    pub time: ThreadTime,
    /// How many threads there were.
    pub threads: u64,
    /// From the first event to the last.
    pub elapsed_ns: u64,
    /// Samples of running threads.
    pub samples: u64,
    /// The processor time for which one of them stands, in nanoseconds.
    pub sample_ns: u64,
    /// How often events were lost.
    pub losses: u64,
    /// Waits whose lock and place did not fit into the limits.
    pub unkept: u64,
}
