//! The source without root for dynamically linked programs: a preloaded library tells of each wait.
//!
//! The library (`preload/`) stands in front of the C library's calls that wait. It tells when a
//! thread begins to wait for a lock, when it has the lock, and which thread had released it, in
//! memory that outlives the processes. The kernel's records of switches tell what the threads did
//! meanwhile, as for looks.

mod accounts;
mod memory;
mod told;
mod unseen;

use crate::analysis::{SHARED, Site, State, Wakes, What};
use crate::names::Kind;
use crate::names::word::Op;
use crate::sources::platform;
use crate::sources::points::CLOCK_HZ;
use crate::sources::records::Stack;
use crate::sources::rings::{LATEST_NS, Rings};
use crate::sources::tracer::Tracer;
use accounts::Accounts;
use anyhow::Result;
use memory::Memory;
use std::os::fd::RawFd;
pub(crate) use told::Told;
use told::{Condition, OwnStack, Saying};
use unseen::Unseen;

/// The library that a program has to preload.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/liboverlock_trace.so"));
/// The variable that tells it of the memory.
const VARIABLE: &str = "OVERLOCK_TRACE";
/// How long the reader sleeps at most.
const TURN_MS: u64 = 10;
/// Above this number of places, those of threads that are gone are forgotten.
const MANY_PLACES: usize = 1 << 16;

/// The memory, and the records of switches.
#[derive(Debug)]
pub(crate) struct Preload {
    memory: Memory,
    pub(crate) rings: Rings,
    /// Used instead where the kernel allows no records.
    accounts: Option<Accounts>,
    unseen: Unseen,
    dropped: u64,
}

impl Preload {
    pub(crate) fn new() -> Result<Self> {
        let (rings, unseen) = (Rings::default(), Unseen::default());
        Ok(Preload { memory: Memory::new()?, rings, accounts: None, unseen, dropped: 0 })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.memory.descriptor()
    }

    pub(crate) fn variable(&self) -> (&'static str, String) {
        (VARIABLE, self.memory.variable())
    }

    /// Does without the kernel's records from now on.
    pub(crate) fn be_coarse(&mut self) {
        self.rings = Rings::default();
        self.accounts = Some(Accounts::default());
        self.memory.wants_accounts();
    }

    pub(crate) fn is_coarse(&self) -> bool {
        self.accounts.is_some()
    }

    pub(crate) fn watched(&self) {
        self.memory.watched();
    }

    pub(crate) fn turn(&mut self, tracer: &mut Tracer) {
        self.rings.turn(tracer.switches, true);
        match self.is_coarse() {
            true => std::thread::sleep(std::time::Duration::from_millis(TURN_MS)),
            false => self.rings.wait(tracer, TURN_MS),
        }
        let found = self.unseen.look(tracer);
        tracer.finds(found);
        self.read(tracer, platform::now_ns().saturating_sub(LATEST_NS));
    }

    /// Hands on all that is left.
    pub(crate) fn end(&mut self, tracer: &mut Tracer) {
        self.read(tracer, u64::MAX);
        tracer.analysis.stretch_samples(self.rings.stretch());
    }

    /// Hands on what is older than a time, as far as it is known.
    fn read(&mut self, tracer: &mut Tracer, until: u64) {
        // A process may open another file by that number.
        tracer.told.reasons.clear();
        let batches = self.memory.drain();
        let now = platform::now_ns();
        for batch in batches {
            tracer.told.take(batch, now);
        }
        tracer.told.events.make_contiguous().sort_by_key(|one| one.at);
        let dropped = self.memory.dropped();
        if dropped > self.dropped {
            tracer.lost += dropped - self.dropped;
            tracer.analysis.lost(tracer.last);
            self.dropped = dropped;
        }
        let sample_ns = 1e9 / CLOCK_HZ as f64 * self.rings.stretch();
        tracer.told.sample_ns = sample_ns as u64;
        tracer.told.is_coarse = self.is_coarse();
        let until = match &mut self.accounts {
            None => self.rings.read(tracer, until),
            Some(accounts) => {
                let is_end = until == u64::MAX;
                let known = accounts.turn(tracer, platform::now_ns().min(until), is_end);
                if is_end { until } else { until.min(known) }
            }
        };
        tracer.tell(until);
    }

    /// Says what makes the result doubtful, if anything does.
    pub(crate) fn doubts(&self) -> Option<String> {
        (self.memory.joined() == 0).then(|| {
            "no process has loaded the library that tells of waits; look for what the dynamic loader says about \
             LD_PRELOAD, or use --source looks"
                .into()
        })
    }
}

impl Tracer {
    /// Hands on what threads have told of the time before `until`.
    pub(crate) fn tell(&mut self, until: u64) {
        while let Some(saying) = self.told.events.pop_front_if(|one| one.at < until) {
            self.tell_found(saying.at);
            self.said(saying);
        }
        self.tell_found(until);
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind")]
    fn said(&mut self, saying: Saying) {
        self.records += 1;
        let Saying { at, process, thread, event, stack } = saying;
        self.last = self.last.max(at);
        self.adopt(at, process, thread);
        match event.what {
            memory::WAITS => {
                self.told.holders.remove(&thread);
                let kind = Kind::numbered(event.kind);
                let is_condition = kind == Kind::Condvar;
                if event.thread != 0 && !is_condition {
                    self.told.holders.insert(thread, event.thread);
                }
                let mut site = self.place(process, thread, &event, stack);
                let mut is_lock = false;
                if kind == Kind::Futex {
                    (site, is_lock) = self.waits_for_word(process, thread, site, &event);
                } else if is_condition {
                    let condition = Condition {
                        process,
                        condition: event.lock,
                        mutex: event.other,
                        site,
                        is_signalled: false,
                        woke: None,
                    };
                    self.told.conditions.insert(thread, condition);
                } else if kind == Kind::Mutex {
                    self.mutexes.insert(thread);
                    // Of another library's lock, no holder is told.
                    if event.thread != 0 {
                        self.waits_for_mutex(process, event.lock, thread);
                    }
                }
                self.event(at, thread, What::Wait { lock: event.lock, site, is_lock });
                if is_condition {
                    self.event(at, thread, What::Keeps(event.thread != 0));
                }
                // No record will tell when it sleeps.
                if self.told.is_coarse && kind != Kind::Spin {
                    self.event(at, thread, What::Out(State::asleep()));
                }
            }
            memory::GOT | memory::TAKES => {
                // A thread that is woken may find that another has the lock.
                let is_word = Kind::numbered(event.kind) == Kind::Futex;
                if let Some((released, releaser)) = self.release_before(thread, &event) {
                    let site = self.told.released_at.get(&releaser).copied();
                    let how = Wakes { site: site.unwrap_or(Site(0)), ..Wakes::default() };
                    let wake = What::Wake { lock: event.lock, how };
                    self.event(released, releaser, wake);
                    if is_word {
                        let (by, site) = (releaser, site.unwrap_or(Site(0)));
                        self.event(released, thread, What::Woken { by, site });
                    }
                    self.event(released, releaser, What::WakeEnd);
                }
                self.told.conditions.remove(&thread);
                self.mutexes.remove(&thread);
                let what = match event.what {
                    memory::GOT if is_word => What::WaitEnd,
                    memory::GOT => What::Got,
                    _ => What::Takes { lock: event.lock },
                };
                self.event(at, thread, what);
            }
            memory::WAKES => {
                let by_reader = Kind::numbered(event.kind) == Kind::RwLock;
                let site = self.place(process, thread, &event, stack);
                self.told.released_at.insert(thread, site);
                let how = Wakes { by_reader, all: event.other != 0, site };
                self.event(at, thread, What::Wake { lock: event.lock, how });
                self.event(at, thread, What::WakeEnd);
                let waits = self.told.conditions.values_mut();
                let is_there = |of: u32| of == process || event.lock & SHARED != 0;
                waits
                    .filter(|one| one.condition == event.lock && is_there(one.process))
                    .for_each(|one| one.is_signalled = true);
            }
            memory::YIELDS => {
                let site = self.place(process, thread, &event, stack);
                for _ in 0..self.told.samples(thread, event.lock) {
                    self.event(at, thread, What::Sample { site, spins: true });
                }
            }
            memory::SLEPT => {
                let site = self.place(process, thread, &event, stack);
                let call = (process, event.thread, event.other, event.kind);
                let known = self.told.reasons.get(&call).copied();
                let reason = known.unwrap_or_else(|| {
                    let file = (event.other, event.kind.checked_sub(1).map(|kind| kind >> 1));
                    self.kernel.call(process, event.thread.into(), file)
                });
                self.told.reasons.insert(call, reason);
                self.python.was_at(thread, Some(site), (event.lock, at));
                let child = u32::try_from(event.other).ok().filter(|_| is_wait4(&event));
                let by = child.or_else(|| self.told.blockers.remove(&thread)).unwrap_or(0);
                self.event(at, thread, What::Slept { since: Some(event.lock), reason, site, by });
            }
            memory::LEAVES => {
                self.told.conditions.remove(&thread);
                let by = self.told.holders.remove(&thread);
                if let Some(by) = by.filter(|_| Kind::numbered(event.kind) == Kind::Join) {
                    self.event(at, thread, What::Woken { by, site: Site(0) });
                }
                self.mutexes.remove(&thread);
                self.event(at, thread, What::WaitEnd);
            }
            _ => {}
        }
    }

    /// A thread waits for a word of the program's own; returns where, and whether that is a lock.
    fn waits_for_word(
        &mut self,
        process: u32,
        thread: u32,
        site: Site,
        event: &memory::Event,
    ) -> (Site, bool) {
        let (value, lock) = (event.other & u64::from(u32::MAX), event.lock);
        let op = Op::new(event.other >> 32, value);
        let site = self.images.site_with(site, |frames| frames.op = op);
        let site = self.site_of_word((process, lock), site, op, value);
        (site, self.is_lock((process, thread), (lock, value), site, op.is_mutex(value)))
    }

    /// Returns when a lock was released that a thread has got, and by which thread. A thread that
    /// released it without a look at its waiters was about to do so when they came, and has lost
    /// its processor there, or else the wait would be too short to matter.
    fn release_before(&mut self, thread: u32, got: &memory::Event) -> Option<(u64, u32)> {
        let holder = self.told.holders.remove(&thread).filter(|_| got.what == memory::GOT);
        match got.thread {
            0 => Some((got.at, holder?)),
            releaser => Some((got.other, releaser)),
        }
    }

    /// Returns the place of a wait.
    fn place(
        &mut self,
        process: u32,
        thread: u32,
        event: &memory::Event,
        stack: Option<OwnStack>,
    ) -> Site {
        let number = (thread, event.site);
        if let Some(OwnStack { frame, pointer, code, bytes }) = stack {
            // A return address belongs to the instruction before it.
            let stack = Stack { frame, pointer, instruction: code.wrapping_sub(1), bytes: &bytes };
            let site = self.images.site(process, &stack, Op::Other);
            if self.told.places.len() > MANY_PLACES {
                self.told.places.retain(|(thread, _), _| self.threads.contains_key(thread));
            }
            self.told.places.insert(number, site);
        }
        match self.told.places.get(&number).copied() {
            Some(site) if Kind::numbered(event.kind) == Kind::Futex => site,
            Some(site) => self.images.site_of(site, Kind::numbered(event.kind)),
            None => Site(0),
        }
    }

    /// A thread gets or loses its processor: one that has been signalled, and then sleeps before
    /// its wait for a condition ends, sleeps for the mutex.
    pub(crate) fn notices_switch(&mut self, at: u64, thread: u32, what: What) {
        let Some(condition) = self.told.conditions.get_mut(&thread) else { return };
        match what {
            What::In if condition.is_signalled && condition.woke.is_none() => {
                condition.woke = Some(at);
            }
            What::Out(State::Asleep(..)) => {
                let Some(woke) = condition.woke else { return };
                let (lock, site) = (condition.mutex, condition.site);
                self.told.conditions.remove(&thread);
                self.mutexes.insert(thread);
                let site = self.images.site_of(site, Kind::Retake);
                self.event(woke, thread, What::Got);
                self.event(at, thread, What::Wait { lock, site, is_lock: false });
            }
            _ => {}
        }
    }
}

/// Returns whether an event is of a sleep for the end of a process.
fn is_wait4(event: &memory::Event) -> bool {
    i64::from(event.thread) == libc::SYS_wait4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Analysis, Limits};

    /// Threads come and go without end.
    #[test]
    fn nothing_is_left_of_a_wait_that_has_ended() {
        let (process, thread, holder) = (7, 8, 9);
        for end in [memory::LEAVES, memory::GOT, 0] {
            let mut tracer = Tracer::new(Analysis::new(Limits::default()), None);
            tracer.adopt(0, process, thread);
            for kind in [Kind::Condvar, Kind::Mutex] {
                let kind = (0..9).find(|number| Kind::numbered(*number) == kind).unwrap();
                for (at, what) in [(10, memory::WAITS), (20, end)] {
                    let event =
                        memory::Event { what, kind, thread: holder, at, ..Default::default() };
                    tracer.said(Saying { at, process, thread, event, stack: None });
                }
            }
            if end == 0 {
                tracer.exit(20, process, thread);
            }
            let told = &tracer.told;
            assert!(told.holders.is_empty() && told.conditions.is_empty(), "{end}: {told:?}");
            assert!(tracer.mutexes.is_empty(), "{end}");
        }
    }
}
