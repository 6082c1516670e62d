//! A wait while it lasts, and the parts into which its time is split.

use super::chain::{Part, first};
use super::report::WaitStats;
use super::state::{Reason, Site, Times};
use super::timeline::Mark;
use std::collections::BTreeMap;

/// A thread that has run for less than this since its last wait has done next to nothing.
pub(super) const NEXT_TO_NOTHING_NS: u64 = 50_000;
/// How many readers a wait remembers, to know them again.
const READERS: usize = 4;

/// A wait that has not ended, or whose thread may yet find that it has to wait on.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    pub(crate) lock: u64,
    pub(crate) site: Site,
    pub(crate) is_lock: bool,
    pub(crate) began: u64,
    /// Until then its time has been split.
    pub(crate) from: u64,
    /// A release meant this waiter.
    pub(crate) is_woken: bool,
    pub(crate) slept: bool,
    /// How often it was woken and the lock was gone.
    pub(crate) lost: u64,
    /// How often the lock's memory was looked at meanwhile, and how often it was free.
    pub(crate) looks: u64,
    pub(crate) found_free: u64,
    pub(crate) in_crowd: bool,
    /// Its thread had done next to nothing since it last waited here.
    pub(crate) is_for_nothing: bool,
    /// Its thread has kept its mutex since then, if that was told.
    pub(crate) keeps: Option<bool>,
    /// It was ended by a thread that had itself been woken at this place.
    pub(crate) is_handed_on: bool,
    /// The rest of its time is between a release and its end.
    pub(crate) is_late: bool,
    pub(crate) ender: Option<(u32, Site)>,
    /// For how long it was known to wait until each of these threads released the lock.
    pub(crate) releasers: BTreeMap<(u32, Site), u64>,
    pub(crate) holder: Times,
    pub(crate) chains: Vec<Part>,
    /// The first readers that have released the lock meanwhile, and when.
    readers: [Option<(u32, u64)>; READERS],
    /// When a reader released the lock that has taken it again since.
    passed: Option<u64>,
}

impl WaitStats {
    /// Adds what a wait has found out that ended at a time, with at most some number of things that
    /// holders did.
    pub(crate) fn take(&mut self, wait: &Wait, ended: u64, most: usize) {
        self.holder.add_all(&wait.holder);
        self.lost += wait.lost;
        self.looks += wait.looks;
        self.found_free += wait.found_free;
        self.in_crowd += u64::from(wait.in_crowd);
        self.for_nothing += u64::from(wait.is_for_nothing);
        if let Some(is_so) = wait.keeps {
            *self.kept.get_or_insert_default() += u64::from(is_so && wait.is_for_nothing);
        }
        self.passed_ns += wait.passed.map_or(0, |since| ended.saturating_sub(since));
        for (chain, ns) in &wait.chains {
            let has_room = self.chains.len() < most;
            match self.chains.get_mut(chain) {
                Some(sum) => *sum += ns,
                None if has_room => drop(self.chains.insert(chain.clone(), *ns)),
                None => *self.chains.entry(Vec::new()).or_default() += ns,
            }
        }
    }
}

impl Wait {
    pub(crate) fn new(lock: u64, site: Site, is_lock: bool, began: u64) -> Self {
        Wait { lock, site, is_lock, began, from: began, ..Wait::default() }
    }

    /// It is known what holders, or who ended it, did until a time.
    pub(crate) fn is_known_to(&mut self, at: u64, parts: Vec<Part>) {
        self.from = at.max(self.from);
        for (chain, ns) in parts {
            self.holder.add(first(&chain), ns);
            match self.chains.iter_mut().find(|(known, _)| *known == chain) {
                Some((_, sum)) => *sum += ns,
                None => self.chains.push((chain, ns)),
            }
        }
    }

    /// A thread has released the lock at a place: what was not counted yet, it waited for that.
    pub(crate) fn released_by(&mut self, ender: (u32, Site), at: u64) {
        let counted: u64 = self.releasers.values().sum();
        let rest = at.saturating_sub(self.began + counted);
        *self.releasers.entry(ender).or_default() += rest;
        self.ender = Some(ender);
    }

    /// A thread has woken it at a place, which may be known of that thread's release only now.
    pub(crate) fn woken_by(&mut self, ender: (u32, Site)) {
        self.ender = Some(ender);
        if let Some(ns) = self.releasers.remove(&(ender.0, Site(0))) {
            *self.releasers.entry(ender).or_default() += ns;
        }
    }

    /// A reader has released the lock. If it did so before in this wait, it has taken the lock past
    /// this waiter.
    pub(crate) fn sees_reader(&mut self, reader: u32, at: u64) {
        if self.passed.is_some() {
            return;
        }
        for place in &mut self.readers {
            match place {
                Some((known, since)) if *known == reader => self.passed = Some(*since),
                Some(_) => continue,
                None => *place = Some((reader, at)),
            }
            return;
        }
    }
}

/// A sleep in no wait on a word, and who ended it, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    pub(super) reason: Reason,
    pub(super) site: Site,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) ender: Option<Mark>,
    /// A look has found it, and stands for so long.
    pub(super) look_ns: u64,
}

/// Waits of a thread at one place that each ended by themselves. Who ends the last one had what it
/// waited for in all of them, as where a thread asks for an interpreter's lock every 5 ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedOut {
    pub(super) lock: u64,
    pub(super) site: Site,
    pub(super) row: usize,
    pub(super) from: u64,
    pub(super) to: u64,
    /// How long they were in all.
    pub(super) ns: u64,
    /// For how long the thread had run when the last one ended.
    pub(super) ran: u64,
}

impl TimedOut {
    /// Returns whether a thread that has run for so long waits on.
    pub(super) fn goes_on(&self, place: (u64, Site), ran: u64) -> bool {
        (self.lock, self.site) == place && ran.saturating_sub(self.ran) < NEXT_TO_NOTHING_NS
    }
}
