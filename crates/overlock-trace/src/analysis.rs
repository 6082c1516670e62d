// SPDX-License-Identifier: MIT OR Apache-2.0
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
//! another lock, that lock's past says what its holder did, and so on to the end of the chain. From
//! the release until it runs, a woken waiter is late for a free lock. A wait that ends without a
//! release (a timeout, a signal, lost events) is unknown since the last release.
//!
//! A source that sees calls of locks knows more: which thread takes a lock that others wait for, so
//! that it was free until then, and which wait ends with the lock. It may tell of a release later
//! than of what came after it, but not later than that another thread has the lock.

use crate::event::{Event, Off, SHARED, Site, What};
use crate::lock::{Had, Lock};
use crate::report::{BlockedIn, Key, Report, SiteReport, ThreadTime};
use crate::spin::Spins;
use crate::timeline::{State, Sums, Timeline};
use crate::wait::{Part, Wait};
use std::collections::HashMap;

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

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) process: u32,
    pub(crate) line: Timeline,
    pub(crate) wait: Option<Wait>,
    /// The word whose waiters it wakes at this moment.
    wakes: Option<u64>,
    /// The lock that it has got after a wait, the place, and when.
    got: Option<(u64, usize, u64)>,
    /// For how long snapshots have seen it in its present wait.
    pub(crate) looked_ns: u64,
    /// How often it has got a processor.
    pub(crate) turns: u64,
    pub(crate) has_ended: bool,
}

/// The analysis of one program.
#[derive(Debug)]
pub struct Analysis {
    pub(crate) limits: Limits,
    pub(crate) threads: HashMap<u32, Thread>,
    locks: HashMap<(u32, u64), Lock>,
    /// How many threads of a process could run and have no processor.
    starved: HashMap<u32, u32>,
    keys: HashMap<Key, usize>,
    pub(crate) sites: Vec<SiteReport>,
    spins: Spins,
    ended: Sums,
    born: u64,
    first: Option<u64>,
    last: u64,
    events: u64,
    losses: u64,
    unkept: u64,
    /// All time of waits that snapshots have seen.
    pub(crate) looked_ns: u64,
    /// Since when the next snapshot needs the past.
    pub(crate) needed_from: u64,
}

/// The release of a lock.
#[derive(Clone, Copy, Debug)]
struct Release {
    by_reader: bool,
}

/// Returns by what a word is known: one that processes share, by its address in all of them.
fn word(process: u32, lock: u64) -> (u32, u64) {
    if lock & SHARED == 0 { (process, lock) } else { (0, lock) }
}

/// Chains of locks are followed this far; beyond that, and in circles, the end is unknown.
const LONGEST_CHAIN: usize = 16;
/// Old states are forgotten each time that so many events have come.
const EVENTS_BETWEEN_CLEARINGS: u64 = 1 << 14;

impl Analysis {
    /// Makes an analysis that has seen nothing.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Analysis {
            limits,
            threads: HashMap::new(),
            locks: HashMap::new(),
            starved: HashMap::new(),
            keys: HashMap::new(),
            sites: Vec::new(),
            spins: Spins::default(),
            ended: Sums::default(),
            born: 0,
            first: None,
            last: 0,
            events: 0,
            losses: 0,
            unkept: 0,
            looked_ns: 0,
            needed_from: u64::MAX,
        }
    }

    /// Takes the next event. Events of threads that were not born are ignored.
    pub fn event(&mut self, event: Event) {
        let Event { at_ns: at, thread, what } = event;
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
        for thread in self.threads.values_mut().filter(|thread| !thread.has_ended) {
            thread.line.turn(at, State::Unknown, false);
            thread.got = None;
            thread.wakes = None;
            if let Some(wait) = &mut thread.wait {
                wait.holder.unknown += at.saturating_sub(wait.from);
                wait.from = at.max(wait.from);
                wait.is_woken = false;
            }
        }
        self.locks.values_mut().for_each(|lock| lock.lose(at));
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
        let time = ThreadTime {
            running: self.ended.running,
            preempted: self.ended.preempted,
            throttled: self.ended.throttled,
            // Where snapshots tell of waits, no event does, and they are among the other sleeps.
            blocked: self.ended.blocked.saturating_sub(self.looked_ns),
            waiting: self.ended.waiting + self.looked_ns.min(self.ended.blocked),
            unknown: self.ended.unknown,
        };
        let mut sites = self.sites;
        sites.retain(|site| site.waits > 0);
        sites.sort_by_key(|site| (std::cmp::Reverse(site.waited_ns), site.key));
        Report {
            sites,
            spins: self.spins.report(),
            time,
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
        let thread = Thread {
            process,
            line,
            wait: None,
            wakes: None,
            got: None,
            looked_ns: 0,
            turns: 0,
            has_ended: false,
        };
        self.threads.insert(id, thread);
    }

    fn change(&mut self, at: u64, id: u32, what: What) {
        match what {
            What::Born { .. } => {}
            What::Exit => self.exit(at, id),
            What::In => {
                self.turn(at, id, State::Running);
                if let Some(thread) = self.threads.get_mut(&id) {
                    thread.turns += 1;
                }
            }
            What::Out(Off::Preempted) => self.turn(at, id, State::Preempted),
            What::Out(Off::Throttled) => self.turn(at, id, State::Throttled),
            What::Out(Off::Blocked(reason)) => {
                let wait = self.threads.get_mut(&id).and_then(|thread| thread.wait.as_mut());
                let state = match wait {
                    Some(wait) => {
                        wait.slept = true;
                        State::Waiting { lock: wait.lock, site: wait.site }
                    }
                    None => State::Blocked(reason),
                };
                self.turn(at, id, state);
            }
            What::Woken { by } => self.woken(at, id, by),
            What::Wait { lock, site } => self.wait(at, id, lock, site),
            What::WaitEnd => self.wait_end(at, id, false),
            What::Got => self.wait_end(at, id, true),
            What::Takes { lock } => self.takes(at, id, lock),
            What::Wake { lock, by_reader } => self.wake(at, id, lock, by_reader),
            What::WakeEnd => {
                if let Some(thread) = self.threads.get_mut(&id) {
                    thread.wakes = None;
                }
            }
            What::Owns { lock } => self.held(at, id, lock, None),
            What::Sleeps(reason) => {
                if let Some(thread) = self.threads.get_mut(&id) {
                    thread.line.sleeps(reason);
                }
            }
            What::Slept(reason) => {
                if let Some(thread) = self.threads.get_mut(&id) {
                    thread.line.slept(reason);
                }
            }
            What::Sample { site, spins } => {
                let Some(process) = self.threads.get(&id).map(|thread| thread.process) else {
                    return;
                };
                let starved = self.starved.get(&process).is_some_and(|count| *count > 0);
                self.spins.sample(process, site, spins, starved, self.limits.sites);
            }
        }
    }

    fn turn(&mut self, at: u64, id: u32, state: State) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        if state != State::Running && state != State::Preempted {
            thread.wakes = None;
        }
        let starved = self.starved.entry(thread.process).or_default();
        if thread.line.state() == State::Preempted {
            *starved = starved.saturating_sub(1);
        }
        *starved += u32::from(state == State::Preempted);
        thread.line.turn(at, state, thread.wait.is_some());
    }

    fn woken(&mut self, at: u64, id: u32, by: u32) {
        let wakes = self.threads.get(&by).and_then(|waker| waker.wakes);
        let Some(thread) = self.threads.get_mut(&id) else { return };
        if let Some(wait) = &mut thread.wait {
            wait.is_woken |= wakes == Some(wait.lock);
        }
        // A thread that is woken before it has given up its processor goes on running.
        if matches!(thread.line.state(), State::Blocked(_) | State::Waiting { .. } | State::Unknown)
        {
            self.turn(at, id, State::Preempted);
        }
    }

    fn wait(&mut self, at: u64, id: u32, lock: u64, site: Site) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        (thread.got, thread.wakes) = (None, None);
        thread.wait = Some(Wait::new(lock, site, at));
        // A source that does not know when threads sleep may have taken it to sleep already.
        if let State::Blocked(_) = thread.line.state() {
            thread.line.turn(at, State::Waiting { lock, site }, true);
        }
        self.locks.entry(word(thread.process, lock)).or_default().joins(id, at);
    }

    fn takes(&mut self, at: u64, id: u32, address: u64) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.got = thread.got.filter(|(got, ..)| *got != address);
        if let Some(lock) = self.locks.get_mut(&word(thread.process, address)) {
            lock.takes(id, at);
        }
    }

    fn wait_end(&mut self, at: u64, id: u32, has_it: bool) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let (process, Some(mut wait)) = (thread.process, thread.wait.take()) else { return };
        // It tells that itself, so it runs.
        if let State::Waiting { .. } = thread.line.state() {
            thread.line.turn(at, State::Running, true);
        }
        if let Some(lock) = self.locks.get_mut(&word(process, wait.lock)) {
            lock.leaves(id, at, has_it || wait.is_woken || !wait.slept);
        }
        // The word had another value, so the call returned at once.
        if !wait.slept && !has_it {
            return;
        }
        let rest = at.saturating_sub(wait.from);
        match wait.is_woken || (has_it && wait.from > wait.began) {
            true => wait.holder.free += rest,
            false => wait.holder.unknown += rest,
        }
        wait.is_woken |= has_it;
        let site = self.site(Key { process, lock: wait.lock & !SHARED, site: wait.site });
        let waited = at.saturating_sub(wait.began);
        let report = &mut self.sites[site];
        report.waits += 1;
        report.waited_ns += waited;
        report.wait_ns.record(waited);
        if waited > report.longest_ns {
            (report.longest_ns, report.longest_thread) = (waited, id);
        }
        report.take(&wait, at, self.limits.reasons);
        if let Some(thread) = self.threads.get_mut(&id).filter(|_| wait.is_woken) {
            thread.got = Some((wait.lock, site, at));
        }
    }

    fn wake(&mut self, at: u64, id: u32, lock: u64, by_reader: bool) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.wakes = Some(lock);
        if let Some((_, site, since)) = thread.got.filter(|(got, ..)| *got == lock) {
            thread.got = None;
            self.sites[site].relays += 1;
            self.sites[site].hold_ns.record(at.saturating_sub(since));
        }
        self.held(at, id, lock, Some(Release { by_reader }));
    }

    /// A thread is known to have had a lock until now: splits the time of all its waiters.
    fn held(&mut self, at: u64, holder: u32, address: u64, release: Option<Release>) {
        let Some(process) = self.threads.get(&holder).map(|thread| thread.process) else { return };
        let Some(lock) = self.locks.get_mut(&word(process, address)) else { return };
        if lock.waiters.is_empty() || lock.is_known_to(at) {
            return;
        }
        lock.held_until(holder, at, release.is_some());
        let lock = &self.locks[&word(process, address)];
        for waiter in &lock.waiters {
            let Some(from) = self.threads.get(waiter).and_then(|thread| {
                let wait = thread.wait.as_ref().filter(|wait| !wait.is_woken)?;
                Some(wait.from)
            }) else {
                continue;
            };
            let mut parts = Vec::new();
            self.split(process, address, from, at, &mut Vec::new(), &mut parts);
            let wait = self.threads.get_mut(waiter).and_then(|thread| thread.wait.as_mut());
            if let Some(wait) = wait {
                wait.is_known_to(at, parts);
                if release.is_some_and(|release| release.by_reader) {
                    wait.sees_reader(holder, at);
                }
            }
        }
    }

    /// Splits the time between two points by what the holders of a lock did.
    fn split(
        &self,
        process: u32,
        address: u64,
        from: u64,
        to: u64,
        chain: &mut Vec<(u32, u64)>,
        parts: &mut Vec<(Part, u64)>,
    ) {
        let link = word(process, address);
        let lock = self.locks.get(&link);
        let Some(lock) = lock.filter(|_| chain.len() < LONGEST_CHAIN && !chain.contains(&link))
        else {
            parts.push((Part::Unknown, to.saturating_sub(from)));
            return;
        };
        chain.push(link);
        lock.during(from, to, |from, to, had| {
            let holder = match had {
                None => return parts.push((Part::Unknown, to - from)),
                Some(Had::Free) => return parts.push((Part::Free, to - from)),
                Some(Had::By(holder)) => self.threads.get(&holder),
            };
            let Some(holder) = holder else { return parts.push((Part::Unknown, to - from)) };
            let process = holder.process;
            holder.line.during(from, to, |from, to, state| {
                let part = match state {
                    State::Running => Part::Running,
                    State::Preempted => Part::Preempted,
                    State::Throttled => Part::Throttled,
                    State::Unknown => Part::Unknown,
                    State::Blocked(reason) => Part::Blocked(BlockedIn::Reason(reason)),
                    State::Waiting { lock, site } => {
                        let mut inner = Vec::new();
                        self.split(process, lock, from, to, chain, &mut inner);
                        let behind = |(part, ns): (Part, u64)| {
                            (Part::Blocked(BlockedIn::Lock { site, end: part.end() }), ns)
                        };
                        parts.extend(inner.into_iter().map(behind));
                        return;
                    }
                };
                parts.push((part, to - from));
            });
        });
        chain.pop();
    }

    pub(crate) fn site(&mut self, key: Key) -> usize {
        if let Some(site) = self.keys.get(&key) {
            return *site;
        }
        let key = if self.sites.len() < self.limits.sites { key } else { Key { lock: 0, ..key } };
        if let Some(site) = self.keys.get(&key) {
            return *site;
        }
        // Places themselves are few, because the source numbers only so many.
        self.unkept += u64::from(key.lock == 0);
        self.sites.push(SiteReport::new(key));
        self.keys.insert(key, self.sites.len() - 1);
        self.sites.len() - 1
    }

    fn exit(&mut self, at: u64, id: u32) {
        let Some(thread) = self.threads.get(&id).filter(|thread| !thread.has_ended) else { return };
        if let Some(wait) = &thread.wait
            && let Some(lock) = self.locks.get(&word(thread.process, wait.lock))
            && lock.waiters.contains(&id)
        {
            self.wait_end(at, id, false);
        }
        self.turn(at, id, State::Unknown);
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.has_ended = true;
        let sums = thread.line.sums;
        self.ended.running += sums.running;
        self.ended.preempted += sums.preempted;
        self.ended.throttled += sums.throttled;
        self.ended.blocked += sums.blocked;
        self.ended.waiting += sums.waiting;
        self.ended.unknown += sums.unknown;
    }

    /// Forgets what no open wait can need any more.
    fn clear(&mut self) {
        let waits = self.threads.values().filter_map(|thread| thread.wait.as_ref());
        let horizon = waits.map(|wait| wait.from).min().unwrap_or(self.last).min(self.needed_from);
        self.threads.retain(|_, thread| !thread.has_ended);
        self.threads.values_mut().for_each(|thread| thread.line.forget(horizon));
        self.locks.retain(|_, lock| !lock.forget(horizon));
    }
}
