//! From events to shares: the state of all threads and locks, and what each event changes in it.
//!
//! # Attribution
//! When a thread H wakes waiters of a lock, H had the lock until now, and since
//! - the end of the wait of H, if H was the waiter that the release before this one woke: between
//!   the two the lock was free;
//! - that earlier release (or the first wait) otherwise: H has taken the lock past the waiter. How
//!   long the lock was free before, no event says; it is at most a wake-up latency.
//!
//! That time of each waiter is then split by the states of H on its timeline. If H itself slept for
//! another lock, that lock's past says what its holder did, and if for anything else, what the
//! thread did that woke it, and so on to the end of the chain. A sleep that is no wait on a word,
//! or is ended without a call, as a join is, is split by what the thread did that ended it. From
//! the release until it runs, a woken waiter is late: the lock is free, or a thief has it that left
//! no trace. A waiter that finds the lock gone waits on, and the thief is who releases it next; the
//! sleeps are one stall. A wait that ends without a release (a timeout, a signal, lost events) is
//! unknown since the last release.
//!
//! Who takes a lock past its waiters, and for how long, leaves few events. So the memory of locks
//! is looked at, too, where it says whether they are free: where there were enough looks, the
//! lock was free for as large a part of its waits as they have found.
//!
//! A source that sees calls of locks knows more: which thread takes a lock that others wait for, so
//! that it was free until then, and which wait ends with the lock. It may tell of a release later
//! than of what came after it, but not later than that another thread has the lock.

use super::chain::Link;
use super::event::{SHARED, TraceEvent, What};
use super::hash::HashMap;
use super::lock::Lock;
use super::report::{self, Key, Report, WaitStats};
use super::spin::Spins;
use super::state::{Site, State, Times};
use super::timeline::Timeline;
use super::wait::{NEXT_TO_NOTHING_NS, Sleep, TimedOut, Wait};
use std::collections::{BTreeMap, VecDeque};

/// How much is kept, and what a sample stands for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Locks at places; further locks of a place are counted together.
    pub sites: usize,
    /// Changes of state of each thread, as far as open waits reach back.
    pub states: usize,
    /// Things that sleeping holders of one lock slept in.
    pub reasons: usize,
    /// The processor time for which one sample stands, in nanoseconds.
    pub sample_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { sites: 2048, states: 4096, reasons: 1024, sample_ns: 1_000_000 }
    }
}

#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) process: u32,
    pub(super) line: Timeline,
    pub(super) wait: Option<Wait>,
    /// A wait for a lock that has ended, and when: the thread may find that the lock is gone.
    pub(super) ended: Option<(Wait, u64)>,
    /// The word whose waiters it wakes at this moment.
    pub(super) wakes: Option<u64>,
    /// The words that it has got after a wait and not released, the row of each, and when.
    pub(super) got: VecDeque<(u64, usize, u64)>,
    /// The places of the last sleeps that it was woken from, and for how long it had run then.
    pub(super) last: VecDeque<(Site, u64)>,
    /// A look has found its present sleep, and stands for so long.
    pub(super) look_ns: u64,
    /// Its last waits, if their time was over and it has waited on since.
    pub(super) timed_out: Option<TimedOut>,
    /// What those did for whom looks have found it to sleep, until when, and the last of them.
    pub(super) slept_for: (BTreeMap<Vec<Link>, u64>, u64, u32),
    /// Its last sleeps whose reason may yet be told.
    pub(super) untold: VecDeque<Sleep>,
    /// For how long snapshots have seen it in its present sleep.
    pub(super) looked_ns: u64,
    /// How often it has got a processor.
    pub(super) turns: u64,
    pub(super) has_ended: bool,
}

/// How many words and places a thread remembers. In one section it may wait for some others.
const REMEMBERED: usize = 4;

impl Thread {
    /// It was woken at a place.
    pub(super) fn was_woken(&mut self, site: Site, at: u64) {
        self.last.retain(|(known, _)| *known != site);
        self.last.truncate(REMEMBERED - 1);
        self.last.push_front((site, self.line.ran(at)));
    }

    /// Returns whether it has done next to nothing since it was last woken at a place.
    pub(super) fn has_done_nothing(&self, site: Site, at: u64) -> bool {
        let ran = self.line.ran(at);
        let is_again = |(last, before): &(Site, u64)| {
            *last == site && ran.saturating_sub(*before) < NEXT_TO_NOTHING_NS
        };
        self.last.iter().any(is_again)
    }

    /// Returns whether it was woken at a place not long ago.
    pub(super) fn comes_from(&self, site: Site) -> bool {
        site != Site(0) && self.last.iter().any(|(known, _)| *known == site)
    }

    /// It has got a word that it waited for.
    pub(super) fn gets(&mut self, word: u64, row: usize, at: u64) {
        self.got.truncate(REMEMBERED - 1);
        self.got.push_front((word, row, at));
    }
}

/// The analysis of one program.
#[derive(Debug, Default)]
pub struct Analysis {
    pub(super) limits: Limits,
    pub(super) threads: HashMap<u32, Thread>,
    pub(super) locks: HashMap<(u32, u64), Lock>,
    /// How many threads of a process could run and have no processor.
    pub(super) starved: HashMap<u32, u32>,
    pub(super) keys: HashMap<Key, usize>,
    pub(super) rows: Vec<WaitStats>,
    pub(super) spins: Spins,
    pub(super) time: Times,
    pub(super) born: u64,
    pub(super) first: Option<u64>,
    pub(super) last: u64,
    pub(super) events: u64,
    pub(super) losses: u64,
    pub(super) unkept: u64,
    /// All time of waits that snapshots have seen.
    pub(super) looked_ns: u64,
    /// Snapshots tell of sleeps, and events do not.
    pub(super) is_by_looks: bool,
    /// Since when the next snapshot needs the past.
    pub(super) needed_from: Option<u64>,
}

/// Returns by what a word is known: one that processes share, by its address in all of them.
pub(super) fn word(process: u32, lock: u64) -> (u32, u64) {
    if lock & SHARED == 0 { (process, lock) } else { (0, lock) }
}

/// Chains of locks are followed this far; beyond that, and in circles, the end is unknown.
pub(super) const LONGEST_CHAIN: usize = 16;
/// Threads that have ended are remembered, for as long as others wait, while there are no more.
const MOST_ENDED: usize = 1 << 10;
/// The changes of holders that locks may remember in all for as long as threads sleep.
const MOST_KEPT: usize = 1 << 16;
/// Old states are forgotten each time that so many events have come.
const EVENTS_BETWEEN_CLEARINGS: u64 = 1 << 14;

impl Analysis {
    /// Makes an analysis that has seen nothing.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Analysis { limits, ..Analysis::default() }
    }

    /// Takes the next event. Events of threads that were not born are ignored.
    pub fn event(&mut self, event: TraceEvent) {
        let TraceEvent { at_ns: at, thread, what } = event;
        self.first.get_or_insert(at);
        self.last = self.last.max(at);
        self.events += 1;
        if let What::Born { process, runs } = what {
            self.born(at, thread, process, runs);
        } else if self.threads.contains_key(&thread) {
            self.change(at, thread, what);
        }
        if self.events.is_multiple_of(EVENTS_BETWEEN_CLEARINGS) {
            self.clear();
        }
    }

    /// Events were lost until now: what threads do is unknown until their next event, and so is
    /// what open waits have waited for.
    pub fn lost(&mut self, at: u64) {
        self.losses += 1;
        self.starved.clear();
        let living: Vec<u32> = self.threads.keys().copied().collect();
        for id in living {
            self.commit(id);
            self.gives_up(id);
            self.turn(at, id, State::Unknown, None);
            let Some(thread) = self.threads.get_mut(&id) else { continue };
            thread.got.clear();
            thread.wakes = None;
            if let Some(wait) = &mut thread.wait {
                wait.holder.add(State::Unknown, at.saturating_sub(wait.from));
                wait.from = at.max(wait.from);
                wait.is_woken = false;
            }
        }
        self.locks.values_mut().for_each(|lock| lock.lose(at));
    }

    /// Threads may go on from now on. What they did before was for the watching: it is not counted.
    pub fn begin(&mut self, at: u64) {
        for thread in self.threads.values_mut() {
            thread.line = Timeline::new(at, State::Preempted, self.limits.states);
        }
    }

    /// Clocks were sampled for a part of the time only: a sample stands for so many times more.
    pub fn stretch_samples(&mut self, times: f64) {
        self.limits.sample_ns = (self.limits.sample_ns as f64 * times) as u64;
    }

    /// Ends the analysis at a time.
    #[must_use]
    pub fn report(mut self, at: u64) -> Report {
        let at = at.max(self.last);
        let mut open: Vec<u32> = self.threads.keys().copied().collect();
        open.sort_unstable();
        for thread in open {
            self.exit(at, thread);
        }
        // Where snapshots tell of waits, no event does, and they are among the other sleeps.
        self.time.shift(State::asleep(), State::Waiting(0, Site(0)), self.looked_ns);
        Report {
            rows: report::complete(self.rows, self.time.of(State::asleep())),
            spins: self.spins.report(),
            time: self.time,
            threads: self.born,
            elapsed_ns: at.saturating_sub(self.first.unwrap_or(at)),
            samples: self.spins.samples,
            sample_ns: self.limits.sample_ns,
            losses: self.losses,
            unkept: self.unkept,
        }
    }

    fn born(&mut self, at: u64, id: u32, process: u32, runs: bool) {
        if self.threads.get(&id).is_some_and(|thread| !thread.has_ended) {
            return;
        }
        let state = if runs { State::Running } else { State::Unknown };
        self.born += 1;
        let line = Timeline::new(at, state, self.limits.states);
        self.threads.insert(id, Thread { process, line, ..Thread::default() });
    }

    fn change(&mut self, at: u64, id: u32, what: What) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        match what {
            What::Born { .. } => {}
            What::Exit => self.exit(at, id),
            What::In => {
                thread.turns += 1;
                self.turn(at, id, State::Running, None);
            }
            What::Out(mut state) => {
                if let (State::Asleep(..), Some(wait)) = (state, &mut thread.wait) {
                    wait.slept = true;
                    state = State::Waiting(wait.lock, wait.site);
                } else if state.sleeps() {
                    self.commit(id);
                }
                self.turn(at, id, state, None);
            }
            What::Woken { by, site } => self.woken(at, id, (by, site)),
            What::Wait { lock, site, is_lock } => self.wait(at, id, (lock, site, is_lock)),
            What::Keeps(is_so) => {
                thread.wait.iter_mut().for_each(|wait| wait.keeps = Some(is_so));
            }
            What::WaitEnd => self.wait_end(at, id, false),
            What::Got => self.wait_end(at, id, true),
            What::Takes { lock } => self.takes(at, id, lock),
            What::Wake { lock, how } => self.wake(at, id, lock, how),
            What::WakeEnd => thread.wakes = None,
            What::Owns { lock, is_all: true } => self.held(at, id, lock, None),
            What::Owns { lock, is_all: false } => {
                let lock = self.locks.get_mut(&word(thread.process, lock));
                lock.into_iter().for_each(|lock| lock.held_until(id, at, false));
            }
            What::Seen { lock, is_free } => self.seen(id, lock, is_free),
            What::Sleeps(reason, site, every_ns) => {
                thread.look_ns = every_ns;
                thread.line.sleeps(State::Asleep(reason, site));
            }
            What::SleepsFor(by) => self.sleeps_for(at, id, by),
            What::Slept { since, reason, site, by } => {
                self.slept_in(id, since, (reason, site), (by > 0).then_some((by, Site(0))));
            }
            What::Sample { site, spins } => {
                thread.line.ran_at(at, site);
                let process = thread.process;
                let starved = self.starved.get(&process).is_some_and(|count| *count > 0);
                self.spins.sample(process, site, spins, starved, self.limits.sites);
            }
        }
    }

    pub(super) fn row(&mut self, key: Key) -> usize {
        if let Some(row) = self.keys.get(&key) {
            return *row;
        }
        let key = if self.rows.len() < self.limits.sites { key } else { Key { lock: 0, ..key } };
        if let Some(row) = self.keys.get(&key) {
            return *row;
        }
        // Places themselves are few, because the source numbers only so many.
        self.unkept += u64::from(self.rows.len() >= self.limits.sites);
        self.rows.push(WaitStats::new(key));
        self.keys.insert(key, self.rows.len() - 1);
        self.rows.len() - 1
    }

    fn exit(&mut self, at: u64, id: u32) {
        let Some(thread) = self.threads.get(&id).filter(|thread| !thread.has_ended) else { return };
        if let Some(wait) = &thread.wait
            && let Some(lock) = self.locks.get(&word(thread.process, wait.lock))
            && lock.waiters.contains(&id)
        {
            self.wait_end(at, id, false);
        }
        self.commit(id);
        self.turn(at, id, State::Unknown, None);
        self.stays_untold(id, 0);
        self.gives_up(id);
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.has_ended = true;
        self.time.add_all(&thread.line.sums);
    }

    /// Forgets what no open wait can need any more.
    fn clear(&mut self) {
        let waits = self
            .threads
            .values()
            .flat_map(|thread| thread.wait.iter().chain(thread.ended.iter().map(|(wait, _)| wait)));
        // A sleep may go on for ever: it needs the past only as long as that is small.
        let is_small = self.locks.values().map(Lock::changes).sum::<usize>() < MOST_KEPT;
        let needs_past =
            |thread: &&Thread| is_small && matches!(thread.line.state(), State::Asleep(..));
        let sleeps = self.threads.values().filter(needs_past).map(|thread| thread.line.since());
        let horizon = waits.map(|wait| wait.from).chain(sleeps).min().unwrap_or(self.last);
        let horizon = self.needed_from.map_or(horizon, |from| from.min(horizon));
        let few = self.threads.len() < MOST_ENDED;
        let may_matter = |thread: &Thread| few && thread.line.since() > horizon;
        self.threads.retain(|_, thread| !thread.has_ended || may_matter(thread));
        self.threads.values_mut().for_each(|thread| thread.line.forget(horizon));
        self.locks.retain(|_, lock| !lock.forget(horizon));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Wakes;

    #[test]
    fn a_sleep_that_does_not_end_keeps_no_past_without_end() {
        let mut analysis = Analysis::new(Limits::default());
        let mut event = |at_ns, thread, what| {
            analysis.event(TraceEvent { at_ns, thread, what });
        };
        (1..=3).for_each(|thread| event(0, thread, What::Born { process: 1, runs: true }));
        event(1, 3, What::Out(State::asleep()));
        for round in 0..100_000 {
            let (at, lock) = (10 * round, 100 + round % 3000);
            event(at + 1, 1, What::Wait { lock, site: Site(1), is_lock: true });
            event(at + 2, 1, What::Out(State::asleep()));
            event(at + 3, 2, What::Wake { lock, how: Wakes::default() });
            event(at + 4, 1, What::In);
            event(at + 5, 1, What::Got);
        }
        let kept: usize = analysis.locks.values().map(Lock::changes).sum();
        assert!(kept < 2 * MOST_KEPT, "{kept} changes");
    }
}
