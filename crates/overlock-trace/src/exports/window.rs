//! A window of time around the longest wait for a lock: which thread ran on which processor, and
//! which one held which lock.

use crate::analysis::{Event, State, What};
use crate::names::Class;
use crate::sources::tracer::Tracer;
use crate::verdicts::Names;
use overlock_results::row::{Hold, Stint, TimelineRow};
use std::collections::{BTreeMap, HashMap};

/// What threads did in a short time.
#[derive(Default)]
struct Window {
    from_ns: u64,
    to_ns: u64,
    /// The ids of the threads, by which the lists below number them.
    threads: Vec<u32>,
    /// Where threads waited for each lock, by the number that the list of holds has of it.
    locks: Vec<String>,
    stints: Vec<Stint>,
    holds: Vec<Hold>,
}

/// The most threads and locks of a window: a picture with more can't be read.
const MOST_THREADS: usize = 32;
const MOST_LOCKS: usize = 8;
/// The shortest window, and the longest.
const SHORTEST_NS: u64 = 2_000_000;
const LONGEST_NS: u64 = 2_000_000_000;

/// Returns the record of the window, if a thread waited for a lock while events were kept.
pub(crate) fn window(tracer: &Tracer, names: &mut Names<'_>, source: &str) -> Option<TimelineRow> {
    let Longest { ns, to, thread } = longest(tracer, names)?;
    let length = ns.saturating_mul(2).clamp(SHORTEST_NS, LONGEST_NS);
    // The end of a wait tells more than its beginning.
    let to_ns = to + length / 8;
    let mut drawn = Drawn {
        window: Window { from_ns: to_ns.saturating_sub(length), to_ns, ..Window::default() },
        ..Drawn::default()
    };
    drawn.number(thread);
    for (event, cpu) in &tracer.kept {
        if event.at_ns > to_ns {
            break;
        }
        drawn.event(*event, *cpu, names);
    }
    Some(drawn.end(source))
}

/// The longest wait for a lock: how long, until when, and which thread.
struct Longest {
    ns: u64,
    to: u64,
    thread: u32,
}

/// Finds the longest wait for a lock. Events can be out of turn, so one may end before it begins.
fn longest(tracer: &Tracer, names: &mut Names<'_>) -> Option<Longest> {
    let mut open = HashMap::new();
    let mut longest: Option<Longest> = None;
    for (Event { at_ns: at, thread, what }, _) in &tracer.kept {
        match what {
            What::Wait { site, lock, .. } => {
                open.insert(*thread, (*at, *site, *lock));
            }
            What::WaitEnd | What::Got => {
                let Some((from, site, lock)) = open.remove(thread) else { continue };
                let ns = at.saturating_sub(from);
                let is_longer = ns > longest.as_ref().map_or(0, |longest| longest.ns);
                if is_longer && names.class(site, lock) == Class::Lock {
                    longest = Some(Longest { ns, to: *at, thread: *thread });
                }
            }
            _ => {}
        }
    }
    longest
}

/// A window while it is drawn.
#[derive(Default)]
struct Drawn {
    window: Window,
    processors: Vec<u32>,
    /// What each thread does, since when.
    states: BTreeMap<u32, (&'static str, Option<u32>, u64)>,
    /// The lock that each thread waits for, and since when.
    waits: HashMap<u32, (u64, u64)>,
    /// When a thread has asked for a lock, and when it got it.
    held: HashMap<(u32, u64), (u64, u64)>,
    /// Since when the holder of a lock is known that releases it next.
    since: HashMap<u64, u64>,
    locks: HashMap<u64, u32>,
}

impl Drawn {
    fn event(&mut self, event: Event, cpu: u32, names: &mut Names<'_>) {
        let Event { at_ns: at, thread, what } = event;
        match what {
            What::In => self.turn(at, thread, "running", Some(cpu)),
            What::Out(State::Asleep(..)) => self.turn(at, thread, "halted", None),
            What::Out(_) => self.turn(at, thread, "ready", None),
            What::Woken { .. } if self.states.get(&thread).is_some_and(|one| one.0 == "halted") => {
                self.turn(at, thread, "ready", None);
            }
            What::Exit => self.turn(at, thread, "halted", None),
            What::Wait { lock, site, .. } if names.class(site, lock) == Class::Lock => {
                if self.locks.len() < MOST_LOCKS && !self.locks.contains_key(&lock) {
                    self.locks.insert(lock, u32::try_from(self.locks.len()).unwrap_or(0));
                    self.window.locks.push(names.place(site));
                }
                if !self.waits.values().any(|(of, _)| *of == lock) {
                    self.since.insert(lock, at);
                }
                // Nothing tells of a release for which no thread waited.
                if let Some((asked, taken)) = self.held.remove(&(thread, lock)) {
                    self.hold(thread, lock, asked, Some(taken), Some(taken + 1));
                }
                self.waits.insert(thread, (lock, at));
            }
            What::WaitEnd | What::Got => {
                if let Some((lock, asked)) = self.waits.remove(&thread) {
                    self.held.insert((thread, lock), (asked, at));
                }
            }
            What::Takes { lock } => {
                self.held.insert((thread, lock), (at, at));
            }
            What::Wake { lock, .. } => {
                let since = self.since.insert(lock, at);
                let held = self.held.remove(&(thread, lock));
                if let Some((asked, taken)) = held.or(since.map(|since| (since, since))) {
                    self.hold(thread, lock, asked, Some(taken), Some(at));
                }
            }
            _ => {}
        }
    }

    fn number(&mut self, thread: u32) -> Option<u32> {
        let threads = &mut self.window.threads;
        let known = threads.iter().position(|one| *one == thread);
        let number = known.or_else(|| {
            (threads.len() < MOST_THREADS).then(|| {
                threads.push(thread);
                threads.len() - 1
            })
        })?;
        u32::try_from(number).ok()
    }

    fn turn(&mut self, at: u64, thread: u32, state: &'static str, cpu: Option<u32>) {
        // Two records can tell of one switch.
        if self.states.get(&thread).is_some_and(|one| (one.0, one.1) == (state, cpu)) {
            return;
        }
        let before = self.states.insert(thread, (state, cpu, at));
        if let Some((state, cpu, from)) = before {
            self.stint(thread, state, cpu, from, at);
        }
    }

    fn stint(&mut self, thread: u32, state: &'static str, cpu: Option<u32>, from: u64, to: u64) {
        let (from, to) = (from.max(self.window.from_ns), to.min(self.window.to_ns));
        if from >= to {
            return;
        }
        let processor = cpu.map(|cpu| {
            let known = self.processors.iter().position(|one| *one == cpu);
            let place = known.unwrap_or_else(|| {
                self.processors.push(cpu);
                self.processors.len() - 1
            });
            u32::try_from(place).unwrap_or(0)
        });
        // A thread that sleeps all the while needs no lane.
        let is_seen = state != "halted" || self.window.threads.contains(&thread);
        if let Some(number) = is_seen.then(|| self.number(thread)).flatten() {
            self.window.stints.push((number, state.to_owned(), processor, from, to));
        }
    }

    fn hold(&mut self, thread: u32, lock: u64, asked: u64, taken: Option<u64>, end: Option<u64>) {
        let window = &self.window;
        if asked >= window.to_ns || end.is_some_and(|end| end <= window.from_ns) {
            return;
        }
        let Some(lock) = self.locks.get(&lock).copied() else { return };
        // Each time is at least the one before it, also where events were out of turn.
        let asked = asked.max(window.from_ns);
        let taken = taken.map(|taken| taken.max(asked));
        let end = end.map(|end| end.max(taken.unwrap_or(asked)));
        if let Some(number) = self.number(thread) {
            self.window.holds.push((number, lock, asked, taken, end));
        }
    }

    fn end(mut self, source: &str) -> TimelineRow {
        let to = self.window.to_ns;
        for (thread, (state, cpu, from)) in std::mem::take(&mut self.states) {
            self.stint(thread, state, cpu, from, to);
        }
        for (thread, (lock, asked)) in std::mem::take(&mut self.waits) {
            self.hold(thread, lock, asked, None, None);
        }
        for ((thread, lock), (asked, taken)) in std::mem::take(&mut self.held) {
            self.hold(thread, lock, asked, Some(taken), Some(taken + 1));
        }
        let Window { from_ns, to_ns, threads, locks, stints, holds } = self.window;
        TimelineRow {
            world: "trace".into(),
            workload: source.into(),
            lock: locks.join(", "),
            policy: "none".into(),
            cpus: u32::try_from(threads.len()).unwrap_or(0),
            pcpus: u32::try_from(self.processors.len()).unwrap_or(0),
            cs_ns: 0,
            ncs_ns: 0,
            speed: None,
            from_ns,
            to_ns,
            stints,
            holds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Analysis, Limits, Site};

    /// What the kernel tells late, or a look at a wait that has just ended, comes out of turn.
    #[test]
    fn a_wait_that_ends_before_it_begins_is_no_wait() {
        let mut tracer = Tracer::new(Analysis::new(Limits::default()), None);
        let waits = |lock| What::Wait { lock, site: Site(0), is_lock: false };
        (0..8).for_each(|_| tracer.words.entry((Site(0), 16)).or_default().waits(2));
        for (at, what) in [
            (5_000_000, waits(16)),
            (1_000_000, What::Got),
            (900_000, What::Wake { lock: 16, how: Default::default() }),
            (6_000_000, waits(16)),
            (9_000_000, What::Got),
            (8_000_000, What::Wake { lock: 16, how: Default::default() }),
            (9_500_000, waits(16)),
            (9_500_000, What::WaitEnd),
        ] {
            tracer.event(at, 7, what);
        }
        let window = window(&tracer, &mut Names::new(&tracer), "").unwrap();
        assert!((window.from_ns..window.to_ns).contains(&9_000_000), "{window:?}");
        let is_in_order = |(_, _, asked, taken, end): &Hold| {
            taken.is_none_or(|taken| *asked <= taken && end.is_none_or(|end| taken <= end))
        };
        assert!(!window.holds.is_empty() && window.holds.iter().all(is_in_order), "{window:?}");
    }
}
