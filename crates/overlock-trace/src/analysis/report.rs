//! What came out: each thing that threads slept for at a place, split by what a lock's holder did.

use super::chain::Link;
use super::spin::SpinReport;
use super::state::{Reason, Site, State, Times};
use overlock_results::stats::Sum;
use std::collections::{BTreeMap, BTreeSet};

/// What a thread slept for, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub process: u32,
    /// The address of the word that it waited on; 0 of other sleeps, and of the words that were
    /// too many to keep apart.
    pub lock: u64,
    pub site: Site,
    /// Why, if it was no wait on a word.
    pub reason: Option<Reason>,
}

/// All sleeps of one kind at one place.
#[derive(Clone, Debug, Default)]
pub struct WaitStats {
    pub key: Key,
    /// How many stalls: consecutive sleeps of a thread for the same lock are one.
    pub waits: u64,
    pub waited_ns: u64,
    pub wait_ns: Sum,
    /// How long threads that had slept for the lock held it, where that was seen.
    pub hold_ns: Sum,
    pub longest_ns: u64,
    /// The thread that waited for so long.
    pub longest_thread: u32,
    /// What the holder, or who ended the sleep, did meanwhile.
    pub holder: Times,
    /// The same with those for whom they waited themselves.
    pub chains: BTreeMap<Vec<Link>, u64>,
    /// Which threads ended the stalls, where, how many of them, and for how long others waited for
    /// each: of the holders that a thread has waited for, the last one ends its stall.
    pub enders: BTreeMap<(u32, Site), (u64, u64)>,
    /// For how long threads still waited after a reader had released the lock, where that reader
    /// took it again before the wait was over: readers passed the waiter.
    pub passed_ns: u64,
    /// How many of the waits ended in a thread that later woke another at the same word: almost all
    /// of them where the word is a lock, few where threads wait for work.
    pub relays: u64,
    /// How many were ended by a thread that had itself been woken at the same place, by whatever
    /// word: threads of some runtimes have a word each.
    pub handed_on: u64,
    /// How often a thread was woken and found that another had taken the lock.
    pub lost: u64,
    /// How many waits have ended by themselves, as when their time was over, and how long these
    /// were.
    pub timed_out: u64,
    pub timed_out_ns: u64,
    /// The threads that were here, up to a few.
    pub threads: BTreeSet<u32>,
    /// How often the lock's memory was looked at during a wait, and how often it was free.
    pub looks: u64,
    pub found_free: u64,
    /// How many waits were ended together with others, by one call, or at one moment.
    pub in_crowd: u64,
    /// At how many moments sleeps that are no waits on words were ended, and when the last was.
    pub bursts: u64,
    pub last_ended: u64,
    /// How many began when the thread had done next to nothing since its last wait here, and in how
    /// many of these cases it has also kept its mutex, if that was told.
    pub for_nothing: u64,
    pub kept: Option<u64>,
    /// If looks have found these sleeps: the time, and the number, for which they stand.
    pub looked: Option<(u64, u64)>,
}

/// How many threads and places that end waits are kept apart for a row.
const MOST_ENDERS: usize = 64;

impl WaitStats {
    pub(crate) fn new(key: Key) -> Self {
        WaitStats { key, ..WaitStats::default() }
    }

    /// A thread was here.
    pub(crate) fn was_here(&mut self, thread: u32) {
        if self.threads.len() < MOST_ENDERS {
            self.threads.insert(thread);
        }
    }

    /// Returns how many threads were here nearly all of some time, if at least two were, and no
    /// other one.
    #[must_use]
    pub fn always_here(&self, elapsed_ns: u64) -> Option<usize> {
        let count = self.threads.len();
        let all = elapsed_ns.saturating_mul(count as u64);
        ((2..MOST_ENDERS).contains(&count) && self.waited_ns > all / 10 * 9).then_some(count)
    }

    /// Adds a stall of a thread.
    pub(crate) fn stall(&mut self, thread: u32, ns: u64) {
        self.was_here(thread);
        self.waits += 1;
        self.waited_ns += ns;
        self.wait_ns.record(ns);
        if ns > self.longest_ns {
            (self.longest_ns, self.longest_thread) = (ns, thread);
        }
    }

    pub(crate) fn ended_by(&mut self, ender: (u32, Site), (waits, ns): (u64, u64)) {
        let fits = self.enders.len() < MOST_ENDERS || self.enders.contains_key(&ender);
        let sum = self.enders.entry(if fits { ender } else { (ender.0, Site(0)) }).or_default();
        *sum = (sum.0 + waits, sum.1 + ns);
    }

    /// Adds the sleeps of another word, process or place.
    pub fn merge(&mut self, other: &WaitStats) {
        self.waits += other.waits;
        self.waited_ns += other.waited_ns;
        self.wait_ns.merge(&other.wait_ns);
        self.hold_ns.merge(&other.hold_ns);
        if other.longest_ns > self.longest_ns {
            (self.longest_ns, self.longest_thread) = (other.longest_ns, other.longest_thread);
        }
        self.holder.add_all(&other.holder);
        for (chain, ns) in &other.chains {
            *self.chains.entry(chain.clone()).or_default() += ns;
        }
        other.enders.iter().for_each(|(ender, sum)| self.ended_by(*ender, *sum));
        self.passed_ns += other.passed_ns;
        self.relays += other.relays;
        self.handed_on += other.handed_on;
        self.lost += other.lost;
        self.timed_out += other.timed_out;
        self.timed_out_ns += other.timed_out_ns;
        other.threads.iter().for_each(|thread| self.was_here(*thread));
        self.looks += other.looks;
        self.found_free += other.found_free;
        self.in_crowd += other.in_crowd;
        self.bursts += other.bursts;
        self.for_nothing += other.for_nothing;
        self.kept = self.kept.into_iter().chain(other.kept).reduce(|one, two| one + two);
        let looked = self.looked.into_iter().chain(other.looked);
        self.looked = looked.reduce(|one, two| (one.0 + two.0, one.1 + two.1));
    }

    /// Returns whether those who wait become those who wake, as with a lock. One that loses the
    /// lock to another thread waits on without a turn, and is no evidence.
    #[must_use]
    pub fn relays_like_a_lock(&self) -> bool {
        self.relays.max(self.handed_on) * 2 > self.waits
    }

    /// Returns whether the lock's memory has said often enough whether it was free.
    #[must_use]
    pub fn knows_free(&self) -> bool {
        self.looks >= ENOUGH_LOOKS
    }

    /// While the lock was late, other threads may have had it, and its holder may have let go of it
    /// for a moment. Its memory says for which part of the time it was free; where that was not
    /// looked at, a waiter that comes finds another thread there as often as that was so.
    fn share_late(&mut self) {
        let late = self.holder.of(State::Late);
        let part = |of: u64, some: u64, all: u64| {
            u64::try_from(u128::from(of) * u128::from(some) / u128::from(all.max(1))).unwrap_or(of)
        };
        let taken = part(late, self.lost, self.lost + self.waits);
        let free = match self.knows_free() {
            false => late - taken,
            true => part(self.holder.total(), self.found_free, self.looks),
        };
        self.holder.shift(State::Late, State::Running, late.saturating_sub(free));
        self.holder.shift(State::Running, State::Late, free.saturating_sub(late));
    }
}

#[derive(Clone, Debug)]
pub struct Report {
    /// Each thing slept for and place, the one with the most time first.
    pub rows: Vec<WaitStats>,
    /// Loops that wait on a processor, the one with the most samples first.
    pub spins: Vec<SpinReport>,
    pub time: Times,
    /// How many threads there were.
    pub threads: u64,
    /// From the first event to the last.
    pub elapsed_ns: u64,
    pub samples: u64,
    /// The processor time for which one of them stands, in nanoseconds.
    pub sample_ns: u64,
    /// How often events were lost.
    pub losses: u64,
    /// Waits whose lock and place did not fit into the limits.
    pub unkept: u64,
}

/// A look at a lock tells of all places where threads wait for it.
fn share_looks(rows: &mut [WaitStats]) {
    let mut looks: BTreeMap<(u32, u64), (u64, u64)> = BTreeMap::new();
    for row in rows.iter() {
        let sum = looks.entry((row.key.process, row.key.lock)).or_default();
        *sum = (sum.0 + row.looks, sum.1 + row.found_free);
    }
    for row in rows.iter_mut().filter(|row| row.key.lock != 0) {
        (row.looks, row.found_free) = looks[&(row.key.process, row.key.lock)];
    }
}

/// Fewer looks than these say little.
const ENOUGH_LOOKS: u64 = 20;

/// Makes rows whole: sleeps that only looks have told apart stand for those in between, and what
/// nothing has told apart is a row of its own, so that rows add up to the `asleep` time.
pub(crate) fn complete(mut rows: Vec<WaitStats>, asleep_ns: u64) -> Vec<WaitStats> {
    let is_sleep = |row: &WaitStats| row.key.reason.is_some();
    let told: u64 = rows
        .iter()
        .filter(|row| is_sleep(row) && row.looked.is_none())
        .map(|row| row.waited_ns)
        .sum();
    let looked: Vec<(u64, u64)> = rows.iter().filter_map(|row| row.looked).collect();
    let hits: u64 = rows.iter().filter(|row| row.looked.is_some()).map(|row| row.waits).sum();
    let stand_for: u64 = looked.iter().map(|(ns, _)| ns).sum();
    let rest = asleep_ns.saturating_sub(told);
    if hits >= ENOUGH_LOOKS && stand_for > 0 {
        let scale = (rest as f64 / stand_for as f64).min(1.0);
        for row in &mut rows {
            if let Some((ns, waits)) = row.looked {
                row.waited_ns = (ns as f64 * scale) as u64;
                row.waits = ((waits as f64 * scale) as u64).max(1);
            }
        }
    }
    let known: u64 = rows.iter().filter(|row| is_sleep(row)).map(|row| row.waited_ns).sum();
    let unknown = asleep_ns.saturating_sub(known);
    if unknown > 0 {
        let key = Key { reason: Some(Reason(0)), ..Key::default() };
        rows.push(WaitStats { key, waits: 1, waited_ns: unknown, ..WaitStats::default() });
    }
    rows.retain(|row| row.waits > 0);
    share_looks(&mut rows);
    rows.iter_mut().for_each(WaitStats::share_late);
    rows.sort_by_key(|row| (std::cmp::Reverse(row.waited_ns), row.key));
    rows
}
