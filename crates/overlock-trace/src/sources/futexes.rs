//! Waits by futexes, the end of which has no record of its own.
//!
//! Each record takes time of the program. A wait is over when its thread gets a processor after a
//! sleep. If the thread sleeps again in the same call, it waits again: it had been woken for
//! nothing. If it makes another call, or leaves its processor elsewhere, and has not slept, its
//! call had returned at once, because the word had another value or the release came just before
//! the sleep. A call is known by its instruction and its word: all calls by the C library's
//! `syscall` share one instruction.

use crate::analysis::{SHARED, Site, Wakes, What};
use crate::names::Kind;
use crate::names::stacks;
use crate::names::word::Op;
use crate::sources::owner;
use crate::sources::platform;
use crate::sources::points::{FUTEX_COMMAND, FUTEX_PRIVATE, Layout};
use crate::sources::records::{Record, Sample};
use crate::sources::tracer::{MOST_PLACES, Tracer, Waiting};

/// What the kernel's `struct futex_waitv` has of a word, and how many words are looked at.
const WORD_BYTES: u64 = 24;
const MOST_WORDS: u64 = 8;
/// The number of the idle task, which holds no lock.
const NO_THREAD: u32 = 0;

impl Tracer {
    /// A thread enters a call that waits.
    pub(crate) fn futex_wait(&mut self, record: &Record<'_>, sample: &Sample<'_>) {
        let (at, thread) = (record.time, record.thread);
        self.ends_wait(at, thread);
        let value = sample.field(self.layout.futex_value);
        let op = Op::new(sample.field(self.layout.futex_op) & FUTEX_COMMAND, value);
        let lock = word(sample, &self.layout);
        let site = self.site_in(record.process, sample.stack, op);
        let site = self.site_of_word((record.process, lock), site, op, value);
        self.waits_at((record, sample), (lock, value), site, op.is_mutex(value));
    }

    /// A thread enters the call that waits for one of several words: the first that has a value as
    /// of a lock that is taken, or else the first. The kernel copies them while the thread runs.
    pub(crate) fn futex_waitv(&mut self, record: &Record<'_>, sample: &Sample<'_>) {
        self.ends_wait(record.time, record.thread);
        let first = sample.field(self.layout.several);
        let count = sample.field(self.layout.several_count).min(MOST_WORDS);
        let field = |at: u64| {
            let mut bytes = [0; 8];
            let on_stack = sample.stack.and_then(|stack| stack.word(at));
            on_stack.or_else(|| {
                let read = platform::read_memory(record.thread, at, &mut bytes);
                (read == bytes.len()).then(|| u64::from_ne_bytes(bytes))
            })
        };
        let words = (0..count).filter_map(|number| {
            let at = first.wrapping_add(number * WORD_BYTES);
            Some([field(at)?, field(at + 8)?, field(at + 16)?])
        });
        let words: Vec<[u64; 3]> = words.collect();
        let taken = words.iter().find(|[value, ..]| *value != 0);
        let Some([value, address, flags]) = taken.or(words.first()).copied() else { return };
        let shared = if flags & FUTEX_PRIVATE != 0 { 0 } else { SHARED };
        let site = self.site_in(record.process, sample.stack, Op::Other);
        self.waits_at((record, sample), (address | shared, value), site, false);
    }

    fn waits_at(
        &mut self,
        (record, sample): (&Record<'_>, &Sample<'_>),
        (lock, value): (u64, u64),
        site: Site,
        is_mutex: bool,
    ) {
        let (at, thread) = (record.time, record.thread);
        let is_lock = self.is_lock((record.process, thread), (lock, value), site, is_mutex);
        let place = (sample.stack.map_or(0, |stack| stack.instruction), sample.argument);
        self.calls.insert(thread, Waiting { began: at, place, lock, site, is_lock });
        self.event(at, thread, What::Wait { lock, site, is_lock });
    }

    /// Returns whether a word that a thread waits for seems to be a lock.
    pub(crate) fn is_lock(
        &mut self,
        (process, thread): (u32, u32),
        (lock, value): (u64, u64),
        site: Site,
        is_mutex: bool,
    ) -> bool {
        if is_mutex {
            self.mutexes.insert(thread);
            // A lock that is handed over expects no value, and is never free.
            if value != 0 {
                self.waits_for_mutex(process, lock, thread);
            }
        }
        self.expects(site, lock, value) || is_mutex
    }

    /// What a wait is for may be told by its word: one that has a thread's number is for its end,
    /// and a stream of the C library knows its lock.
    pub(crate) fn site_of_word(
        &mut self,
        (process, lock): (u32, u64),
        site: Site,
        op: Op,
        value: u64,
    ) -> Site {
        if u32::try_from(value).is_ok_and(|id| self.threads.contains_key(&id)) {
            return self.images.site_of(site, Kind::Join);
        }
        let lock = (process, lock & !SHARED);
        if op != Op::Plain || !op.is_mutex(value) {
            return site;
        }
        let is_new = self.streams.len() < MOST_PLACES && !self.streams.contains_key(&lock);
        if is_new {
            self.streams.insert(lock, owner::stream(process, lock.1).map(stacks::of_stream));
        }
        match self.streams.get(&lock) {
            Some(Some(kind)) => self.images.site_of(site, *kind),
            _ => site,
        }
    }

    /// A thread enters another call.
    pub(crate) fn futex_wake(&mut self, record: &Record<'_>, sample: &Sample<'_>) {
        let (at, thread) = (record.time, record.thread);
        self.ends_wait(at, thread);
        self.calls.remove(&thread);
        let lock = word(sample, &self.layout);
        let all = sample.field(self.layout.futex_value) > 1;
        self.event(at, thread, What::Wake { lock, how: Wakes { all, ..Wakes::default() } });
    }

    /// A thread is made able to run, by another or in an interrupt.
    pub(crate) fn woken(&mut self, at: u64, woken: u32, by: Option<(u32, Site)>) {
        let (by, site) = by.unwrap_or((NO_THREAD, Site(0)));
        self.event(at, woken, What::Woken { by, site });
        // One that has not slept yet returns at once.
        if !self.analysis.has_slept(woken) {
            self.ends_wait(at, woken);
        }
    }

    /// A thread has got a processor.
    pub(crate) fn continues(&mut self, at: u64, thread: u32) {
        if self.analysis.has_slept(thread) {
            self.ends_wait(at, thread);
        }
    }

    /// A thread leaves its processor in a system call that was made at a place with a first
    /// argument, or in none. Returns whether it does so in a wait.
    pub(crate) fn leaves(&mut self, at: u64, thread: u32, place: (u64, u64), sleeps: bool) -> bool {
        let waits = self.analysis.waits(thread);
        match self.calls.get(&thread).copied() {
            Some(call) if call.place == place => {
                if !waits && sleeps {
                    let Waiting { lock, site, is_lock, .. } = call;
                    self.event(at, thread, What::Wait { lock, site, is_lock });
                    return true;
                }
                waits
            }
            Some(_) if place.0 != 0 => {
                self.ends_wait(at, thread);
                self.calls.remove(&thread);
                false
            }
            _ => waits,
        }
    }

    fn ends_wait(&mut self, at: u64, thread: u32) {
        if self.analysis.waits(thread) {
            self.mutexes.remove(&thread);
            let began = self.calls.get(&thread).map(|call| call.began);
            let at = began.filter(|_| !self.analysis.has_slept(thread)).unwrap_or(at);
            self.event(at, thread, What::WaitEnd);
        }
    }
}

/// Returns the word of a futex call, marked if other processes may wait by it, too.
fn word(sample: &Sample<'_>, layout: &Layout) -> u64 {
    let is_private = sample.field(layout.futex_op) & FUTEX_PRIVATE != 0;
    let shared = if is_private { 0 } else { SHARED };
    sample.field(layout.futex_address) | shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Analysis, Limits, State};

    const LOCK: u64 = 16;
    const HERE: (u64, u64) = (0x1000, LOCK);
    const ELSEWHERE: (u64, u64) = (0x2000, LOCK);
    /// The same instruction makes another call.
    const OTHER_CALL: (u64, u64) = (0x1000, 3);
    const THREAD: u32 = 8;

    fn waiting() -> Tracer {
        let mut tracer = Tracer::new(Analysis::new(Limits::default()), None);
        tracer.adopt(0, 7, THREAD);
        let (lock, site) = (LOCK | SHARED, Site(0));
        tracer.calls.insert(THREAD, Waiting { began: 10, place: HERE, lock, site, is_lock: false });
        tracer.event(10, THREAD, What::Wait { lock, site, is_lock: false });
        tracer
    }

    fn sleeps(tracer: &mut Tracer, at: u64, call: (u64, u64)) -> bool {
        let is_wait = tracer.leaves(at, THREAD, call, true);
        tracer.event(at, THREAD, What::Out(State::asleep()));
        is_wait
    }

    fn continues(tracer: &mut Tracer, at: u64) {
        tracer.event(at, THREAD, What::In);
        tracer.continues(at, THREAD);
    }

    #[test]
    fn a_wait_ends_with_its_sleep() {
        let mut tracer = waiting();
        // Without a processor before it sleeps, it has not waited yet.
        assert!(tracer.leaves(20, THREAD, HERE, false));
        tracer.event(20, THREAD, What::Out(State::Preempted));
        continues(&mut tracer, 30);
        assert!(tracer.analysis.waits(THREAD));
        assert!(sleeps(&mut tracer, 40, HERE));
        tracer.woken(50, THREAD, None);
        assert!(tracer.analysis.waits(THREAD));
        continues(&mut tracer, 60);
        assert!(!tracer.analysis.waits(THREAD));
        assert!(!tracer.leaves(70, THREAD, HERE, false), "no wait is left");
    }

    #[test]
    fn a_wait_that_never_slept_has_ended_before_what_comes_next() {
        let mut tracer = waiting();
        tracer.woken(20, THREAD, None);
        assert!(!tracer.analysis.waits(THREAD));
        for call in [ELSEWHERE, OTHER_CALL] {
            let mut tracer = waiting();
            assert!(!sleeps(&mut tracer, 20, call));
            assert!(!tracer.analysis.waits(THREAD));
            let ended = tracer.kept.iter().find(|(event, _)| event.what == What::WaitEnd);
            assert_eq!(ended.map(|(event, _)| event.at_ns), Some(10), "it was over at once");
        }
    }

    #[test]
    fn a_thread_can_sleep_again_in_one_call() {
        let mut tracer = waiting();
        sleeps(&mut tracer, 20, HERE);
        continues(&mut tracer, 30);
        assert!(!tracer.analysis.waits(THREAD));
        assert!(sleeps(&mut tracer, 40, HERE));
        assert!(tracer.analysis.waits(THREAD));
        continues(&mut tracer, 50);
        assert!(!sleeps(&mut tracer, 60, ELSEWHERE));
    }
}
