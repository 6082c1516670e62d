//! From records to events of the traced processes.

use crate::analysis::hash::{HashMap, HashSet};
use crate::analysis::{Analysis, Holder, SHARED, Site, State, TraceEvent, What};
use crate::names::Kind;
use crate::names::images::Images;
use crate::names::kernel::{FUTEX, Kernel};
use crate::names::loops::Spins;
use crate::names::word::{Op, Word};
use crate::sources::owner::{self, Readers};
use crate::sources::platform;
use crate::sources::points::{IN_INTERRUPT, Layout, Point};
use crate::sources::preload::Told;
use crate::sources::python::Python;
use crate::sources::quota::Stops;
use crate::sources::records::{self, Record, Sample, Stack};
use crate::sources::urgency::Urgency;
use crate::verdicts::share;
use std::collections::VecDeque;

/// How often mutexes are asked for their holders, and how long a thread must have waited.
const ASK_EVERY_NS: u64 = 50_000_000;
/// How many of them are asked at once.
const MOST_ASKED: usize = 64;
/// How many mutexes are looked at.
const MOST_SEEN: usize = 8;
/// How many events are kept for a picture of a short time, and for a timeline in a file.
const SOME_EVENTS: usize = 1 << 17;
pub(crate) const MOST_EVENTS: usize = 1 << 20;

/// How many places of threads' sleeps, and of words, are remembered.
pub(crate) const MOST_PLACES: usize = 1 << 14;

/// An event that looks tell of: when, of which thread, and what.
pub(crate) type Found = (u64, u32, What);

/// The last call of a thread that waits by a futex.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) began: u64,
    /// The instruction that made it, and its first argument.
    pub(crate) place: (u64, u64),
    pub(crate) lock: u64,
    pub(crate) site: Site,
    pub(crate) is_lock: bool,
}

/// Turns records into events of the traced processes.
#[derive(Default)]
pub(crate) struct Tracer {
    pub(crate) analysis: Analysis,
    pub(crate) images: Images,
    pub(crate) kernel: Kernel,
    pub(crate) spins: Spins,
    pub(crate) layout: Layout,
    /// The last call of each thread that waits by a futex, if it has made no other one since.
    pub(crate) calls: HashMap<u32, Waiting>,
    /// Threads that wait, as it seems, for a mutex of the C library.
    pub(crate) mutexes: HashSet<u32>,
    /// The mutexes of the C library that threads have waited for last, each with its process and a
    /// thread that did so.
    hot: VecDeque<(u32, u64, u32)>,
    /// What looks have found out. Its turn comes among the records.
    found: VecDeque<Found>,
    pub(crate) stops: Stops,
    pub(crate) urgency: Urgency,
    pub(crate) python: Python,
    /// Of words of plain waits, whether they are the lock of a stream.
    pub(crate) streams: HashMap<(u32, u64), Option<Kind>>,
    /// Locks whose memory says that a thread has them that is not there any more.
    pub(crate) orphans: HashSet<(u32, u64)>,
    pub(crate) readers: Readers,
    /// The values that words had where threads were seen to wait for them.
    pub(crate) words: HashMap<(Site, u64), Word>,
    asked: u64,
    /// Only the records of switches tell of them, and no tracepoint.
    pub(crate) is_looking: bool,
    pub(crate) told: Told,
    /// The process of each traced thread.
    pub(crate) threads: HashMap<u32, u32>,
    /// The names of threads, also of those that have ended.
    pub(crate) comms: HashMap<u32, String>,
    /// Where each thread slept last at an instruction, for when no stack is told.
    slept_at: HashMap<(u32, u64), Site>,
    /// A process that will appear as a child of this one.
    pub(crate) awaited: Option<u32>,
    pub(crate) lost: u64,
    /// The first events, for a timeline, and on which processors they were recorded.
    pub(crate) kept: Vec<(TraceEvent, u32)>,
    /// How many of them are kept.
    pub(crate) most_kept: usize,
    cpu: u32,
    pub(crate) last: u64,
    /// How often threads have got a processor.
    pub(crate) switches: u64,
    /// How many records there were, and events that threads have told.
    pub(crate) records: u64,
    /// How many were of each process that is not traced.
    others: HashMap<u32, u64>,
    /// How often no tracepoint had told of it.
    pub(crate) news: u64,
}

impl Tracer {
    pub(crate) fn new(analysis: Analysis, layout: Option<Layout>) -> Self {
        Tracer {
            analysis,
            is_looking: layout.is_none(),
            layout: layout.unwrap_or_default(),
            most_kept: SOME_EVENTS,
            ..Tracer::default()
        }
    }

    /// Adds a thread of a process that runs already; returns whether it is new.
    pub(crate) fn adopt(&mut self, at: u64, process: u32, thread: u32) -> bool {
        let is_new = self.threads.insert(thread, process).is_none();
        if is_new {
            let comm = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/comm"));
            if let Ok(comm) = comm {
                self.comms.insert(thread, comm.trim_end().to_owned());
            }
            self.event(at, thread, What::Born { process, runs: false });
        }
        is_new
    }

    pub(crate) fn record(&mut self, record: &Record<'_>, point: Option<(Point, u64)>) {
        self.last = self.last.max(record.time);
        self.cpu = record.cpu;
        self.tell(record.time);
        match record.kind {
            records::Kind::Sample => {
                if let Some((point, parts)) = point {
                    self.sample(record, point, parts);
                }
            }
            records::Kind::Lost => {
                self.lose(record.time);
            }
            records::Kind::Switch { is_out: false, .. }
                if self.threads.contains_key(&record.thread) =>
            {
                if self.is_looking {
                    self.switches += 1;
                    self.notices_switch(record.time, record.thread, What::In);
                    self.runs(record.time, record.thread);
                } else if !self.analysis.runs(record.thread) {
                    self.news += 1;
                    self.runs(record.time, record.thread);
                    self.continues(record.time, record.thread);
                }
            }
            records::Kind::Switch { is_out: true, is_preempted }
                if self.is_looking && self.threads.contains_key(&record.thread) =>
            {
                let off = if is_preempted { State::Preempted } else { State::asleep() };
                self.notices_switch(record.time, record.thread, What::Out(off));
                self.event(record.time, record.thread, What::Out(off));
            }
            records::Kind::Fork => self.fork(record),
            records::Kind::Exit => {
                if let Some([process, thread, ..]) = record.family() {
                    self.exit(record.time, process, thread);
                }
            }
            records::Kind::Comm { is_exec } if self.threads.contains_key(&record.thread) => {
                if let Some((thread, comm)) = record.comm() {
                    self.comms.insert(thread, comm);
                }
                if is_exec {
                    self.images.exec(record.process);
                    self.kernel.forget(record.process);
                }
            }
            records::Kind::Mapping if self.threads.contains_key(&record.thread) => {
                if let Some(mapping) = record.mapping() {
                    self.images.map(record.process, mapping);
                }
            }
            _ => {}
        }
    }

    /// Returns the part of the records that were of other programs, and the one of most of them.
    pub(crate) fn others(&self) -> (f64, String) {
        let most = self.others.iter().max_by_key(|(_, count)| **count).map(|(process, _)| *process);
        let name = most.map(|process| {
            let comm = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            format!("{} ({process})", comm.trim_end())
        });
        (share(self.others.values().sum(), self.records), name.unwrap_or_default())
    }

    /// Records were lost until now.
    pub(crate) fn lose(&mut self, at: u64) {
        self.lost += 1;
        self.analysis.lost(at);
    }

    /// Asks the kernel how urgent threads are, and the mutexes that threads have waited for long
    /// for their holders. A wait that does not end is known only in this way.
    pub(crate) fn ask_for_holders(&mut self) {
        let now = platform::now_ns();
        if now.saturating_sub(self.asked) < ASK_EVERY_NS {
            return;
        }
        self.asked = now;
        let lacks = |thread: u32| self.analysis.preempted_since(thread).is_some();
        let threads = self.threads.iter().map(|(one, of)| (*one, *of, lacks(*one)));
        self.urgency.ask(threads);
        let before = self.last.saturating_sub(ASK_EVERY_NS);
        let mut waits: Vec<_> = self.analysis.waiting_since(before).take(MOST_ASKED).collect();
        if !self.is_looking {
            waits.iter().for_each(|(_, process, lock)| self.readers.look(*process, *lock));
            self.look_at_sleeps(before);
        }
        waits.retain(|(thread, ..)| self.mutexes.contains(thread));
        let owners: Vec<(u32, u64)> = waits
            .into_iter()
            .filter_map(|(thread, _, lock)| match self.holder(thread, lock) {
                Holder::Thread(owner) => Some((owner, lock)),
                _ => None,
            })
            .collect();
        let found = [false, true].into_iter().flat_map(|is_all| {
            owners
                .iter()
                .map(move |(owner, lock)| (now, *owner, What::Owns { lock: *lock, is_all }))
        });
        self.finds(found);
    }

    /// Returns what the memory of a mutex says of its holder.
    pub(crate) fn holder(&mut self, waiter: u32, lock: u64) -> Holder {
        let (holder, owner) = owner::holder(&self.threads, waiter, lock);
        let process = self.threads.get(&waiter).copied().unwrap_or(0);
        // A process has only the thread that forked, and the locks of all.
        if holder == Holder::Unknown
            && lock & SHARED == 0
            && owner != 0
            && !std::path::Path::new(&format!("/proc/{process}/task/{owner}")).exists()
        {
            self.orphans.insert((process, lock));
        }
        holder
    }

    /// A thread waits at a site for a word that has a value; returns whether it seems to be a lock.
    pub(crate) fn expects(&mut self, site: Site, lock: u64, value: u64) -> bool {
        let key = (site, lock & !SHARED);
        if self.words.len() >= MOST_PLACES && !self.words.contains_key(&key) {
            return false;
        }
        let word = self.words.entry(key).or_default();
        word.waits(value);
        word.is_like_a_lock()
    }

    /// A thread waits for a mutex of the C library.
    pub(crate) fn waits_for_mutex(&mut self, process: u32, lock: u64, thread: u32) {
        let known = self.hot.iter().position(|(of, hot, _)| (*of, *hot) == (process, lock));
        match known {
            Some(at) => self.hot[at].2 = thread,
            None => self.hot.push_back((process, lock, thread)),
        }
        if self.hot.len() > MOST_SEEN {
            self.hot.pop_front();
        }
    }

    /// Looks whether the mutexes are free that threads have waited for last. What they were for at
    /// this moment, records will tell later.
    pub(crate) fn look_at_mutexes(&mut self) {
        let now = platform::now_ns();
        let looked = self.hot.iter().filter_map(|(process, lock, thread)| {
            let is_free = owner::is_free(*process, *lock)?;
            Some((now, *thread, What::Seen { lock: *lock, is_free }))
        });
        let looked: Vec<Found> = looked.collect();
        self.finds(looked);
    }

    /// Looks have found out what threads did or do.
    pub(crate) fn finds(&mut self, events: impl IntoIterator<Item = Found>) {
        self.found.extend(events);
        self.found.make_contiguous().sort_by_key(|(at, ..)| *at);
    }

    /// Hands on what looks have found out about the time until then.
    pub(crate) fn tell_found(&mut self, until: u64) {
        self.python.tell(until, &self.analysis);
        while let Some((at, thread, what)) = self.found.pop_front_if(|(at, ..)| *at <= until) {
            self.last = self.last.max(at);
            let is_known = match what {
                What::Owns { .. } => self.may_be_stopped(thread),
                What::Wait { .. } => self.analysis.waits(thread),
                _ => false,
            };
            if !is_known {
                self.event(at, thread, what);
            }
        }
    }

    /// Returns whether a thread has no processor, and only the end of that will tell why.
    fn may_be_stopped(&self, thread: u32) -> bool {
        let has_quota = |process: &u32| self.stops.has_quota(*process);
        self.is_looking
            && self.analysis.preempted_since(thread).is_some()
            && self.threads.get(&thread).is_some_and(has_quota)
    }

    /// A thread gets a processor. If it could run before, it is known only now whether a quota had
    /// stopped it, and for how long.
    fn runs(&mut self, at: u64, thread: u32) {
        if let Some(since) = self.analysis.preempted_since(thread)
            && let Some(process) = self.threads.get(&thread)
        {
            let stopped = self.stops.stopped(*process, thread, since, at);
            if stopped > 0 {
                self.event(since, thread, What::Out(State::Throttled));
                self.event(since + stopped, thread, What::Out(State::Preempted));
            }
        }
        self.event(at, thread, What::In);
    }

    fn fork(&mut self, record: &Record<'_>) {
        let Some([process, thread, parent, of]) = record.family() else { return };
        let is_ours = self.threads.contains_key(&of) || self.awaited == Some(process);
        if !is_ours || self.threads.insert(thread, process).is_some() {
            return;
        }
        if let Some(comm) = self.comms.get(&of).cloned() {
            self.comms.insert(thread, comm);
        }
        if process != parent {
            self.images.fork(parent, process);
        }
        self.event(record.time, thread, What::Born { process, runs: false });
        // It can run from the beginning.
        self.event(record.time, thread, What::Out(State::Preempted));
    }

    pub(crate) fn exit(&mut self, at: u64, process: u32, thread: u32) {
        if self.threads.remove(&thread).is_none() {
            return;
        }
        self.calls.remove(&thread);
        self.mutexes.remove(&thread);
        self.slept_at.retain(|(of, _), _| *of != thread);
        self.told.ends(thread);
        self.event(at, thread, What::Exit);
        // The first thread may end before the others.
        if !self.threads.values().any(|of| *of == process) {
            self.images.end(process);
            self.kernel.forget(process);
            self.readers.forget(process);
        }
    }

    fn sample(&mut self, record: &Record<'_>, point: Point, parts: u64) {
        let (at, thread) = (record.time, record.thread);
        let is_ours = self.threads.contains_key(&thread);
        if !is_ours && record.process != 0 && self.others.len() < MOST_PLACES {
            *self.others.entry(record.process).or_default() += 1;
        }
        // Switches and wake-ups concern other threads than the one that they interrupt.
        let is_own = matches!(
            point,
            Point::Clock | Point::Tasks | Point::FutexWait | Point::FutexWaitv | Point::FutexWake
        );
        if is_own && !is_ours {
            return;
        }
        let Some(sample) = record.sample(parts) else { return };
        let number = |field| u32::try_from(sample.field(field)).unwrap_or(0);
        match point {
            Point::Switch | Point::SwitchWhy | Point::SwitchAsleep | Point::SwitchIn => {
                self.switches += 1;
                let (prev, next) = (number(self.layout.prev_pid), number(self.layout.next_pid));
                if let Some(process) = self.threads.get(&prev).copied() {
                    let why = matches!(point, Point::SwitchWhy | Point::SwitchAsleep);
                    let off = self.off(at, (process, prev), &sample, why);
                    self.event(at, prev, What::Out(off));
                }
                if self.threads.contains_key(&next) {
                    self.runs(at, next);
                    self.continues(at, next);
                }
            }
            Point::Waking | Point::WakingWhy => {
                let woken = number(self.layout.woken_pid);
                if self.threads.contains_key(&woken) {
                    let is_interrupt = sample.field(self.layout.flags) & IN_INTERRUPT != 0;
                    let stack = sample.stack.filter(|_| is_ours && !is_interrupt);
                    let by = (thread, self.site_in(record.process, stack, Op::Other));
                    self.woken(at, woken, (!is_interrupt).then_some(by));
                }
            }
            Point::FutexWait => self.futex_wait(record, &sample),
            Point::FutexWaitv => self.futex_waitv(record, &sample),
            Point::FutexWake => self.futex_wake(record, &sample),
            Point::Clock => {
                if let Some(stack) = sample.stack {
                    let is_told = self.told.tells_of_yields(thread);
                    let place = (record.process, stack.instruction);
                    let spins = self.spins.is_loop(&self.images, place, !is_told);
                    let is_known = spins || self.images.has_room();
                    let site =
                        self.site_in(record.process, sample.stack.filter(|_| is_known), Op::Other);
                    self.event(at, thread, What::Sample { site, spins });
                }
            }
            Point::Switches => {}
            // Its own event counts faults that had to wait.
            Point::Tasks => {
                let reason = self.kernel.reason(Kind::Fault, "page fault, a disk");
                self.event(at, thread, What::Slept { since: None, reason, site: Site(0), by: 0 });
            }
        }
    }

    /// Returns the number of a stack that was told, if it was.
    pub(crate) fn site_in(&mut self, process: u32, stack: Option<Stack<'_>>, op: Op) -> Site {
        stack.map_or(Site(0), |stack| self.images.site(process, &stack, op))
    }

    /// Returns how a thread leaves its processor.
    fn off(
        &mut self,
        at: u64,
        (process, thread): (u32, u32),
        sample: &Sample<'_>,
        why: bool,
    ) -> State {
        let place = (process, sample.place);
        // The kernel's states: 0 is able to run, a number above the lowest byte stands for a
        // preemption, and the bits below for sleeps.
        let sleeps = sample.field(self.layout.prev_state) & 0xff != 0;
        let waits = self.leaves(at, thread, (sample.place, sample.argument), sleeps);
        match sleeps {
            true if waits => State::Asleep(FUTEX, Site(0)),
            true if why => {
                let reason = self.kernel.chain(sample.kernel_chain());
                self.kernel.learns(place, reason);
                let site = self.site_in(process, sample.stack, Op::Other);
                if self.slept_at.len() < MOST_PLACES {
                    self.slept_at.insert((thread, sample.place), site);
                }
                State::Asleep(reason, site)
            }
            true => {
                let site = self.slept_at.get(&(thread, sample.place)).copied();
                State::Asleep(self.kernel.reason_at(place), site.unwrap_or(Site(0)))
            }
            false
                if why
                    && self.stops.has_quota(process)
                    && self.kernel.is_at_work(sample.kernel_chain()) =>
            {
                State::Throttled
            }
            false => State::Preempted,
        }
    }

    pub(crate) fn event(&mut self, at_ns: u64, thread: u32, what: What) {
        let event = TraceEvent { at_ns, thread, what };
        if self.kept.len() < self.most_kept {
            self.kept.push((event, self.cpu));
        }
        self.analysis.event(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Limits;

    /// When a program that runs is looked at, its records of the time before have not been read.
    #[test]
    fn what_a_look_finds_has_its_turn_once() {
        let mut tracer = Tracer::new(Analysis::new(Limits::default()), None);
        tracer.adopt(0, 7, 8);
        let waits = What::Wait { lock: 16, site: Site(0), is_lock: false };
        tracer.finds([(100, 8, waits)]);
        tracer.tell(60);
        tracer.event(60, 8, What::WaitEnd);
        assert!(!tracer.analysis.waits(8));
        tracer.tell(100);
        assert!(tracer.analysis.waits(8));
        tracer.finds([(150, 8, waits)]);
        tracer.tell(200);
        let told = tracer.kept.iter().filter(|(event, _)| event.what == waits);
        assert_eq!(told.count(), 1, "a record may have told of the wait already");
    }
}
