//! A window of time around the longest wait for a lock: which thread ran on which processor, and
//! which one held which lock.

use super::slices::{Slice, Slices};
use crate::analysis::{TraceEvent, What};
use crate::names::Class;
use crate::sources::tracer::Tracer;
use crate::verdicts::Names;
use overlock_results::row::{Hold, Stint, TimelineRow};
use std::collections::HashMap;

/// The most threads and locks of a window: a picture with more can't be read.
const MOST_THREADS: usize = 32;
const MOST_LOCKS: usize = 8;
/// The shortest window, and the longest.
const SHORTEST_NS: u64 = 2_000_000;
const LONGEST_NS: u64 = 2_000_000_000;

/// Returns the record of the window, if a thread waited for a lock while events were kept.
pub(crate) fn window(
    tracer: &Tracer,
    slices: &Slices,
    names: &mut Names<'_>,
    source: &str,
) -> Option<TimelineRow> {
    let is_lock = |one: &&Slice| {
        one.sleeps.is_some_and(|(site, lock)| lock != 0 && names.class(site, lock) == Class::Lock)
    };
    // Events can be out of turn, so that a wait may end before it begins.
    let longest = slices.all.iter().filter(is_lock).max_by_key(|one| one.to - one.from);
    let longest = longest.filter(|one| one.to > one.from)?;
    let length = (longest.to - longest.from).saturating_mul(2).clamp(SHORTEST_NS, LONGEST_NS);
    // The end of a wait tells more than its beginning.
    let to_ns = slices.first + longest.to + length / 8;
    let mut drawn = Drawn { from_ns: to_ns.saturating_sub(length), to_ns, ..Drawn::default() };
    drawn.threads.push(longest.thread);
    for (event, _) in tracer.kept.iter().take_while(|(event, _)| event.at_ns <= to_ns) {
        drawn.event(*event, names);
    }
    for one in slices.all.iter().chain(&slices.open) {
        drawn.stint(one, slices.first);
    }
    Some(drawn.end(source))
}

#[derive(Default)]
struct Drawn {
    from_ns: u64,
    to_ns: u64,
    /// The ids of the threads, and of the processors, by which the lists below number them.
    threads: Vec<u32>,
    processors: Vec<u32>,
    stints: Vec<Stint>,
    holds: Vec<Hold>,
    /// The lock that each thread waits for, and since when.
    waits: HashMap<u32, (u64, u64)>,
    /// When a thread has asked for a lock, and when it got it.
    held: HashMap<(u32, u64), (u64, u64)>,
    /// Since when the holder of a lock is known that releases it next.
    since: HashMap<u64, u64>,
    /// The number of each lock, and where threads waited for each.
    locks: HashMap<u64, u32>,
    places: Vec<String>,
}

/// Returns the place of a number in a list, to which it is added if there is room.
fn place_in(list: &mut Vec<u32>, number: u32, most: usize) -> Option<u32> {
    let known = list.iter().position(|one| *one == number);
    if known.is_none() {
        list.push(number);
        list.truncate(most);
    }
    let place = known.or((list.last() == Some(&number)).then(|| list.len() - 1))?;
    u32::try_from(place).ok()
}

impl Drawn {
    fn event(&mut self, event: TraceEvent, names: &mut Names<'_>) {
        let TraceEvent { at_ns: at, thread, what } = event;
        match what {
            What::Wait { lock, site, .. } if names.class(site, lock) == Class::Lock => {
                if self.locks.len() < MOST_LOCKS && !self.locks.contains_key(&lock) {
                    self.locks.insert(lock, u32::try_from(self.locks.len()).unwrap_or(0));
                    self.places.push(names.place(site));
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

    fn stint(&mut self, one: &Slice, first: u64) {
        let from = (first + one.from).max(self.from_ns);
        let to = first.saturating_add(one.to).min(self.to_ns);
        // A wait is a part of a sleep.
        if from >= to || one.sleeps.is_some_and(|(_, lock)| lock != 0) {
            return;
        }
        let state = match &*one.name {
            "running" => "running",
            name if name.starts_with("asleep") => "halted",
            _ => "ready",
        };
        // A thread that sleeps all the while needs no lane.
        if state == "halted" && !self.threads.contains(&one.thread) {
            return;
        }
        let processor = (state == "running").then_some(one.cpu);
        let processor = processor.and_then(|cpu| place_in(&mut self.processors, cpu, usize::MAX));
        if let Some(number) = place_in(&mut self.threads, one.thread, MOST_THREADS) {
            self.stints.push((number, state.to_owned(), processor, from, to));
        }
    }

    fn hold(&mut self, thread: u32, lock: u64, asked: u64, taken: Option<u64>, end: Option<u64>) {
        if asked >= self.to_ns || end.is_some_and(|end| end <= self.from_ns) {
            return;
        }
        let Some(lock) = self.locks.get(&lock).copied() else { return };
        // Each time is at least the one before it, also where events were out of turn.
        let asked = asked.max(self.from_ns);
        let taken = taken.map(|taken| taken.max(asked));
        let end = end.map(|end| end.max(taken.unwrap_or(asked)));
        if let Some(number) = place_in(&mut self.threads, thread, MOST_THREADS) {
            self.holds.push((number, lock, asked, taken, end));
        }
    }

    fn end(mut self, source: &str) -> TimelineRow {
        for (thread, (lock, asked)) in std::mem::take(&mut self.waits) {
            self.hold(thread, lock, asked, None, None);
        }
        for ((thread, lock), (asked, taken)) in std::mem::take(&mut self.held) {
            self.hold(thread, lock, asked, Some(taken), Some(taken + 1));
        }
        TimelineRow {
            world: "trace".into(),
            workload: source.into(),
            lock: self.places.join(", "),
            policy: "none".into(),
            cpus: u32::try_from(self.threads.len()).unwrap_or(0),
            pcpus: u32::try_from(self.processors.len()).unwrap_or(0),
            cs_ns: 0,
            ncs_ns: 0,
            speed: None,
            from_ns: self.from_ns,
            to_ns: self.to_ns,
            stints: self.stints,
            holds: self.holds,
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
        let mut names = Names::new(&tracer);
        let slices = Slices::new(&tracer, &mut names);
        let window = window(&tracer, &slices, &mut names, "").unwrap();
        assert!((window.from_ns..window.to_ns).contains(&9_000_000), "{window:?}");
        let is_in_order = |(_, _, asked, taken, end): &Hold| {
            taken.is_none_or(|taken| *asked <= taken && end.is_none_or(|end| taken <= end))
        };
        assert!(!window.holds.is_empty() && window.holds.iter().all(is_in_order), "{window:?}");
    }
}
