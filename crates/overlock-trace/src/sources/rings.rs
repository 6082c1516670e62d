//! The rings of all processors, and their records in the order of time.
//!
//! All events of one processor write into one ring. A record may come later than its time says, so
//! the last moments are kept for the next turn.

use crate::analysis::hash::HashMap;
use crate::sources::account::numbers;
use crate::sources::bursts::Bursts;
use crate::sources::drain::Drain;
use crate::sources::platform::{self, Ring};
use crate::sources::points::{Point, Spec};
use crate::sources::records::{self, Record};
use crate::sources::tracer::Tracer;
use anyhow::{Context, Result};
use std::os::fd::OwnedFd;

#[derive(Debug, Default)]
pub(crate) struct Rings {
    /// What the number of an event stands for, and what its samples contain.
    points: HashMap<u64, (Point, u64)>,
    /// The ring of each processor, and the event that owns it, until they are read.
    rings: Vec<(i32, Ring, OwnedFd)>,
    /// Those that own no ring, and a second descriptor of those that do.
    events: Vec<OwnedFd>,
    bursts: Bursts,
    /// Records of switches where tracepoints tell of most.
    switches: Bursts,
    /// How many switches there were, and how many that no tracepoint has told of.
    known: (u64, u64),
    drain: Option<Drain>,
    /// Since when all events record.
    pub(crate) since: u64,
    /// What is older has been read.
    known_to: u64,
    bytes: Vec<u8>,
    /// Records that wait for their turn: time, and where their bytes are.
    pending: Vec<(u64, std::ops::Range<usize>)>,
}

/// Memory for the rings of all processors, as far as an ordinary user may have it, and a ring's
/// size.
const USERS_RINGS: usize = 8 << 20;
const USERS_LARGEST: usize = 4 << 20;
const USERS_SMALLEST: usize = 256 << 10;
const SMALLEST: usize = 32 << 10;
/// A record is in its ring at most this long after its time stamp.
pub(crate) const LATEST_NS: u64 = 2_000_000;
/// One of so many is few.
const FEW: u64 = 1000;
/// How many bytes of records are handled at once.
const MOST_AT_ONCE: usize = 4 << 20;

impl Rings {
    /// Opens an event of one processor, of all threads or of one and those that it will start. It
    /// records at once.
    pub(crate) fn add(
        &mut self,
        cpu: i32,
        thread: Option<i32>,
        spec: &Spec,
        size: usize,
    ) -> Result<()> {
        let mut attr = spec.attr(size, thread.is_none());
        attr.set_inherit(u64::from(thread.is_some()));
        let what = || format!("the kernel does not allow the event {:?}", spec.point);
        let event = platform::open(&mut attr, thread.unwrap_or(-1), cpu).with_context(what)?;
        if !spec.filter.is_empty() {
            platform::filter(&event, &spec.filter).context("can't filter a tracepoint")?;
        }
        let id = platform::id(&event).context("an event has no number")?;
        self.points.insert(id, (spec.point, spec.parts));
        match self.rings.iter().find(|(of, ..)| *of == cpu) {
            None => {
                let ring = ring(&event, size).context("can't map the ring of an event")?;
                platform::enable(&event).context("can't start an event")?;
                self.rings.push((cpu, ring, event));
            }
            Some((.., owner)) => {
                platform::share_ring(&event, owner).context("events can't share a ring")?;
                if !matches!(spec.point, Point::Switch | Point::SwitchIn | Point::Waking) {
                    platform::enable(&event).context("can't start an event")?;
                }
                match (spec.point, thread) {
                    (Point::Clock, Some(_))
                    | (Point::SwitchWhy | Point::SwitchAsleep | Point::WakingWhy, _) => {
                        self.bursts.add(event);
                    }
                    (Point::Switch | Point::Waking, _) => self.bursts.add_instead(event),
                    (Point::Switches, _) => self.switches.add(event),
                    (Point::SwitchIn, _) => self.switches.add_instead(event),
                    _ => self.events.push(event),
                }
            }
        }
        Ok(())
    }

    /// Opens the records of switches of threads, and of all threads that they will start, and
    /// samples of their processors' clocks.
    pub(crate) fn follow(&mut self, threads: &[u32]) -> Result<()> {
        platform::allow_more_files();
        let share = (USERS_RINGS / online()?.len().max(1)).next_power_of_two();
        self.follow_by(threads, share.clamp(USERS_SMALLEST, USERS_LARGEST))
    }

    fn follow_by(&mut self, threads: &[u32], size: usize) -> Result<()> {
        let tasks = Spec::new(Point::Tasks, None, 0, String::new());
        let clock = Spec::new(Point::Clock, None, records::STACK, String::new());
        for cpu in online()? {
            for thread in threads {
                let thread = i32::try_from(*thread).context("a thread's id is out of range")?;
                for spec in [&tasks, &clock] {
                    match self.add(cpu, Some(thread), spec, size) {
                        Err(error) if has_ended(&error) => {}
                        done => done?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins to empty the rings. All events have been added.
    pub(crate) fn start(&mut self) -> Result<()> {
        for (.., owner) in &self.rings {
            self.events.push(owner.try_clone().context("can't use more descriptors")?);
        }
        let rings = self.rings.drain(..).map(|(_, ring, event)| (ring, event)).collect();
        self.since = platform::now_ns();
        self.drain = Some(Drain::new(rings)?);
        Ok(())
    }

    /// Empties the rings no more, and records nothing more.
    pub(crate) fn stop(&mut self) {
        self.drain = None;
        self.all().for_each(|event| platform::turn(event, false));
    }

    fn all(&self) -> impl Iterator<Item = &OwnedFd> {
        self.events.iter().chain(self.bursts.events()).chain(self.switches.events())
    }

    /// Returns how many records found no room, as far as the kernel counts them. It tells of such
    /// in a record only when there is room again.
    fn lost(&self) -> u64 {
        self.all().filter_map(platform::lost).sum()
    }

    /// Turns what is dear on or off if it is time to; `switches` is how often threads have
    /// switched.
    pub(crate) fn turn(&mut self, switches: u64, may_be_off: bool) {
        self.bursts.turn(switches, may_be_off);
    }

    /// The same with the records of switches, if tracepoints tell of almost all; `news` is of how
    /// many they did not.
    pub(crate) fn turn_records(&mut self, switches: u64, news: u64) {
        let (switches_before, news_before) = std::mem::replace(&mut self.known, (switches, news));
        let are_few = (news - news_before) * FEW < switches - switches_before;
        self.switches.turn(switches, are_few);
    }

    /// Waits until there may be much to read, at most for some milliseconds, and looks at mutexes
    /// meanwhile.
    pub(crate) fn wait(&self, tracer: &mut Tracer, milliseconds: u64) {
        for _ in 0..milliseconds {
            tracer.look_at_mutexes();
            if self.drain.as_ref().is_none_or(Drain::wait) {
                return;
            }
        }
    }

    /// Returns how many times longer the program ran than its clocks were sampled.
    pub(crate) fn stretch(&mut self) -> f64 {
        self.bursts.stretch()
    }

    /// Hands the records of all processors to `tracer` in the order of time, if they are older than
    /// `until` and were read long enough after that time; all of them if that is the end of time.
    /// Returns the time before which all has been handed on.
    pub(crate) fn read(&mut self, tracer: &mut Tracer, until: u64) -> u64 {
        let Some(drain) = self.drain.take() else { return until };
        let is_end = until == u64::MAX;
        if is_end {
            // Or the records of a busy machine would never end.
            self.all().for_each(|event| platform::turn(event, false));
            drain.collect();
        }
        loop {
            let mut is_last = true;
            while let Some(round) = drain.take() {
                self.known_to = round.at.saturating_sub(LATEST_NS);
                self.split(&round.bytes);
                is_last = self.bytes.len() < MOST_AT_ONCE;
                if !is_last {
                    break;
                }
            }
            let all = is_end && is_last;
            let until = if all { until } else { until.min(self.known_to) };
            self.hand_on(tracer, until);
            if all && tracer.lost == 0 && self.lost() > 0 {
                tracer.lose(tracer.last);
            }
            if !is_end || is_last {
                self.drain = Some(drain);
                return until;
            }
        }
    }

    /// The same with all that was written until a short time ago.
    pub(crate) fn read_now(&mut self, tracer: &mut Tracer, age_ns: u64) {
        let now = platform::now_ns();
        if let Some(drain) = &self.drain {
            drain.collect();
        }
        self.known_to = u64::MAX;
        while let Some(round) = self.drain.as_ref().and_then(Drain::take) {
            self.split(&round.bytes);
        }
        self.hand_on(tracer, now.saturating_sub(age_ns));
    }

    fn split(&mut self, bytes: &[u8]) {
        let (mut at, pending) = (self.bytes.len(), &mut self.pending);
        self.bytes.extend_from_slice(bytes);
        records::split(bytes, |record| {
            if let Some(parsed) = Record::new(record) {
                pending.push((parsed.time, at..at + record.len()));
            }
            at += record.len();
        });
    }

    fn hand_on(&mut self, tracer: &mut Tracer, until: u64) {
        // A record of the end of a stop is judged by what the account says after it.
        let running = tracer.threads.keys().copied();
        let running = running.filter(|thread| tracer.analysis.runs(*thread));
        tracer.stops.turn(platform::now_ns(), &tracer.threads, running);
        self.pending.sort_by_key(|(time, _)| *time);
        let count = self.pending.partition_point(|(time, _)| *time < until);
        tracer.records += count as u64;
        for (_, range) in &self.pending[..count] {
            if let Some(record) = Record::new(&self.bytes[range.clone()]) {
                tracer.record(&record, self.points.get(&record.event).copied());
            }
        }
        // What is left moves to the front.
        let mut kept = Vec::new();
        let mut rest = self.pending.split_off(count);
        for (_, range) in &mut rest {
            let start = kept.len();
            kept.extend_from_slice(&self.bytes[range.clone()]);
            *range = start..kept.len();
        }
        (self.bytes, self.pending) = (kept, rest);
    }
}

/// Maps the ring of an event, of this size or of a smaller one: how much memory an ordinary user
/// may have for rings depends on what else uses it.
fn ring(event: &OwnedFd, size: usize) -> std::io::Result<Ring> {
    match Ring::new(event, size) {
        Err(error) if size > SMALLEST && error.raw_os_error() == Some(libc::EPERM) => {
            ring(event, size / 2)
        }
        mapped => mapped,
    }
}

/// Returns whether a thread had ended before its events could be opened.
fn has_ended(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.and_then(std::io::Error::raw_os_error) == Some(libc::ESRCH)
}

pub(crate) fn online() -> Result<Vec<i32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")
        .context("can't read which processors are online (/sys is missing?)")?;
    Ok(numbers(&text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Analysis, Limits};
    use std::sync::mpsc::sync_channel;
    use std::time::{Duration, Instant};

    /// The thread has ended, so the kernel has never had room to say that its records were lost.
    #[test]
    fn a_loss_is_known_without_a_record_of_it() {
        const ROUNDS: u64 = 30_000;
        let mut tracer = Tracer::new(Analysis::new(Limits::default()), None);
        let mut rings = Rings::default();
        let (ask, asked) = sync_channel(0);
        let (answer, answered) = sync_channel(0);
        let other = std::thread::spawn(move || {
            // SAFETY: takes nothing and touches no memory.
            answer.send(u64::from(unsafe { libc::gettid() }.unsigned_abs())).unwrap();
            asked.iter().for_each(|round: u64| answer.send(round).unwrap());
        });
        let thread = u32::try_from(answered.recv().unwrap()).unwrap();
        let opened = rings.follow_by(&[thread], SMALLEST);
        for round in 0..ROUNDS {
            ask.send(round).unwrap();
            assert_eq!(answered.recv(), Ok(round));
        }
        drop(ask);
        other.join().unwrap();
        let is_counted =
            rings.rings.first().and_then(|(.., event)| platform::lost(event)).is_some();
        match opened {
            Ok(()) if is_counted => {
                rings.start().unwrap();
                rings.read(&mut tracer, u64::MAX);
                assert!(tracer.lost > 0);
            }
            opened => {
                let skipped = format!("skipped: {opened:?}, losses are counted: {is_counted}\n");
                std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes()).unwrap();
            }
        }
    }

    /// Whoever handles records may be late: the kernel's rings are emptied all the same.
    #[test]
    fn a_late_reader_loses_nothing() {
        const ROUNDS: u64 = 30_000;
        let mut tracer = Tracer::new(Analysis::new(Limits::default()), None);
        let mut rings = Rings::default();
        // SAFETY: takes nothing and touches no memory.
        let thread = unsafe { libc::gettid() }.unsigned_abs();
        tracer.adopt(platform::now_ns(), std::process::id(), thread);
        let opened = rings.follow_by(&[thread], USERS_SMALLEST).and_then(|()| rings.start());
        if let Err(error) = opened {
            let skipped = format!("skipped: {error:#}\n");
            std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes()).unwrap();
            return;
        }
        // Each round is told by four records of 40 bytes.
        let (ask, asked) = sync_channel(0);
        let (answer, answered) = sync_channel(0);
        let other = std::thread::spawn(move || {
            asked.iter().for_each(|round: u64| answer.send(round).unwrap());
        });
        for round in 0..ROUNDS {
            ask.send(round).unwrap();
            assert_eq!(answered.recv(), Ok(round));
            // The thread that empties them may have no processor for a while.
            let patience = Instant::now() + Duration::from_secs(60);
            while round.is_multiple_of(50) && rings.drain.as_ref().is_some_and(Drain::is_behind) {
                assert!(Instant::now() < patience, "the rings are not emptied");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(ask);
        other.join().unwrap();
        rings.read(&mut tracer, u64::MAX);
        assert_eq!(tracer.lost, 0);
        assert!(tracer.switches >= ROUNDS, "{} of {ROUNDS}", tracer.switches);
        // Nothing is recorded after the end.
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let drain = rings.drain.expect("it is kept");
        assert!(std::iter::from_fn(|| drain.take()).all(|round| round.bytes.is_empty()));
    }
}
