// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wait while it lasts, and the parts into which its time is split.

use crate::event::Site;
use crate::report::{BlockedIn, End, HolderNs, SiteReport};

/// How many readers a wait remembers, to know them again.
const READERS: usize = 4;

/// A wait that has not ended.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) lock: u64,
    pub(crate) site: Site,
    pub(crate) began: u64,
    /// Until then its time has been split.
    pub(crate) from: u64,
    /// A release meant this waiter.
    pub(crate) is_woken: bool,
    pub(crate) slept: bool,
    pub(crate) holder: HolderNs,
    pub(crate) blocked_in: Vec<(BlockedIn, u64)>,
    /// The first readers that have released the lock meanwhile, and when.
    readers: [Option<(u32, u64)>; READERS],
    /// When a reader released the lock that has taken it again since.
    passed: Option<u64>,
}

/// What a holder did for some time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Running,
    Preempted,
    Throttled,
    Blocked(BlockedIn),
    Free,
    Unknown,
}

impl Part {
    /// Returns what the last holder of a chain did, of which this is the first link or the last.
    pub(crate) fn end(self) -> End {
        match self {
            Part::Running => End::Running,
            Part::Preempted => End::Preempted,
            Part::Throttled => End::Throttled,
            Part::Blocked(BlockedIn::Reason(reason)) => End::Blocked(reason),
            Part::Blocked(BlockedIn::Lock { end, .. }) => end,
            Part::Free => End::Free,
            Part::Blocked(BlockedIn::Other) | Part::Unknown => End::Unknown,
        }
    }
}

impl SiteReport {
    /// Adds what a wait has found out that ended at a time, with at most some number of things that
    /// holders slept in.
    pub(crate) fn take(&mut self, wait: &Wait, ended: u64, most: usize) {
        self.holder.add(&wait.holder);
        self.passed_ns += wait.passed.map_or(0, |since| ended.saturating_sub(since));
        for (blocked, ns) in &wait.blocked_in {
            let fits = self.blocked_in.len() < most || self.blocked_in.contains_key(blocked);
            let blocked = if fits { *blocked } else { BlockedIn::Other };
            *self.blocked_in.entry(blocked).or_default() += ns;
        }
    }
}

impl Wait {
    pub(crate) fn new(lock: u64, site: Site, began: u64) -> Self {
        Wait {
            lock,
            site,
            began,
            from: began,
            is_woken: false,
            slept: false,
            holder: HolderNs::default(),
            blocked_in: Vec::new(),
            readers: [None; READERS],
            passed: None,
        }
    }

    /// It is known what holders did until a time.
    pub(crate) fn is_known_to(&mut self, at: u64, parts: Vec<(Part, u64)>) {
        self.from = at.max(self.from);
        parts.into_iter().for_each(|(part, ns)| self.credit(part, ns));
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

    pub(crate) fn credit(&mut self, part: Part, ns: u64) {
        let sum = match part {
            Part::Running => &mut self.holder.running,
            Part::Preempted => &mut self.holder.preempted,
            Part::Throttled => &mut self.holder.throttled,
            Part::Blocked(_) => &mut self.holder.blocked,
            Part::Free => &mut self.holder.free,
            Part::Unknown => &mut self.holder.unknown,
        };
        *sum += ns;
        let Part::Blocked(blocked) = part else { return };
        match self.blocked_in.iter_mut().find(|(known, _)| *known == blocked) {
            Some((_, sum)) => *sum += ns,
            None => self.blocked_in.push((blocked, ns)),
        }
    }
}
