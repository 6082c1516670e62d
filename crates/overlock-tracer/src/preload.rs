// SPDX-License-Identifier: MIT OR Apache-2.0
//! The source without root for dynamically linked programs: a preloaded library tells of each wait.
//!
//! The library (`preload/`) stands in front of the C library's calls that wait. It tells when a
//! thread begins to wait for a lock, when it has the lock, and which thread had released it, in
//! memory that outlives the processes. The kernel's records of switches tell what the threads did
//! meanwhile, as for looks.

mod memory;
mod told;
mod unseen;

use crate::kind::Kind;
use crate::platform;
use crate::records::Stack;
use crate::rings::{LATEST_NS, Rings};
use crate::tracer::Tracer;
use anyhow::Result;
use memory::Memory;
use overlock_trace::{NOTICEABLE, Off, Site, What};
use std::os::fd::RawFd;
pub(crate) use told::Told;
use told::{Condition, OwnStack, Saying};

/// The library that a program has to preload.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/liboverlock_trace.so"));
/// The variable that tells it of the memory.
const VARIABLE: &str = "OVERLOCK_TRACE";
/// How long the reader sleeps at most.
const TURN_MS: i32 = 10;
/// Above this number of places, those of threads that are gone are forgotten.
const MANY_PLACES: usize = 1 << 16;

/// The memory, and the records of switches.
#[derive(Debug)]
pub(crate) struct Preload {
    memory: Memory,
    rings: Rings,
    dropped: u64,
}

impl Preload {
    pub(crate) fn new() -> Result<Self> {
        Ok(Preload { memory: Memory::new()?, rings: Rings::default(), dropped: 0 })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.memory.descriptor()
    }

    pub(crate) fn variable(&self) -> (&'static str, String) {
        (VARIABLE, self.memory.variable())
    }

    /// Opens the records of switches of threads, and of all that they will start.
    ///
    /// # Errors
    /// Says why the kernel does not allow it.
    pub(crate) fn add(&mut self, threads: &[u32]) -> Result<()> {
        self.rings.follow(threads)
    }

    /// Lets the program go.
    pub(crate) fn watched(&self) {
        self.memory.watched();
    }

    pub(crate) fn turn(&mut self, tracer: &mut Tracer) {
        self.rings.wait(TURN_MS);
        tracer.told.unseen.look(&tracer.threads);
        self.read(tracer, LATEST_NS);
    }

    /// Hands on what is older than `age_ns`; all of it if that is 0.
    pub(crate) fn read(&mut self, tracer: &mut Tracer, age_ns: u64) {
        let now = platform::now_ns();
        for batch in self.memory.drain() {
            tracer.told.take(batch);
        }
        tracer.told.events.make_contiguous().sort_by_key(|one| one.at);
        let dropped = self.memory.dropped();
        if dropped > self.dropped {
            tracer.lost += dropped - self.dropped;
            tracer.analysis.lost(now);
            self.dropped = dropped;
        }
        self.rings.read(tracer, age_ns);
        let until = if age_ns == 0 { u64::MAX } else { now.saturating_sub(age_ns) };
        tracer.tell(until);
    }

    /// Says what makes the result doubtful, if anything does.
    pub(crate) fn doubts(&self, unseen: f64) -> Option<String> {
        if self.memory.joined() == 0 {
            return Some(
                "no process has loaded the library that tells of waits; look for what the dynamic loader \
                 says about LD_PRELOAD, or use --source looks"
                    .into(),
            );
        }
        (unseen >= NOTICEABLE).then(|| {
            format!(
                "for {:.0} % of their time threads slept in futexes that they did not wait for by the C \
                 library's calls (the locks of Rust's standard library, for example), so nothing is known of \
                 these waits; use --source looks",
                unseen * 100.0
            )
        })
    }
}

impl Tracer {
    /// Hands on what threads have told of the time before `until`.
    pub(crate) fn tell(&mut self, until: u64) {
        while let Some(saying) = self.told.events.pop_front_if(|one| one.at < until) {
            self.told.unseen.judge(saying.at);
            self.said(saying);
        }
        self.told.unseen.judge(until);
    }

    fn said(&mut self, saying: Saying) {
        let Saying { at, process, thread, event, stack } = saying;
        self.last = self.last.max(at);
        self.adopt(at, process, thread);
        match event.what {
            memory::WAITS => {
                self.told.unseen.told(at, thread, true);
                let site = self.place(process, thread, &event, stack);
                if Kind::numbered(event.kind) == Kind::Condvar {
                    let condition = Condition {
                        process,
                        condition: event.lock,
                        mutex: event.other,
                        site,
                        is_signalled: false,
                        woke: None,
                    };
                    self.told.conditions.insert(thread, condition);
                } else if Kind::numbered(event.kind) == Kind::Mutex {
                    self.mutexes.insert(thread);
                }
                self.event(at, thread, What::Wait { lock: event.lock, site });
            }
            memory::GOT | memory::TAKES => {
                if event.thread != 0 {
                    self.event(event.other, event.thread, What::Wake { lock: event.lock });
                    self.event(event.other, event.thread, What::WakeEnd);
                }
                self.told.unseen.told(at, thread, false);
                self.told.conditions.remove(&thread);
                self.mutexes.remove(&thread);
                let takes = What::Takes { lock: event.lock };
                self.event(at, thread, if event.what == memory::GOT { What::Got } else { takes });
            }
            memory::WAKES => {
                self.event(at, thread, What::Wake { lock: event.lock });
                self.event(at, thread, What::WakeEnd);
                let waits = self.told.conditions.values_mut();
                waits
                    .filter(|one| (one.process, one.condition) == (process, event.lock))
                    .for_each(|one| one.is_signalled = true);
            }
            memory::LEAVES => {
                self.told.unseen.told(at, thread, false);
                self.told.conditions.remove(&thread);
                self.mutexes.remove(&thread);
                self.event(at, thread, What::WaitEnd);
            }
            _ => {}
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
            let site = self.images.site(process, &stack, false);
            if self.told.places.len() > MANY_PLACES {
                self.told.places.retain(|(thread, _), _| self.threads.contains_key(thread));
            }
            self.told.places.insert(number, site);
        }
        match self.told.places.get(&number).copied() {
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
            What::Out(Off::Blocked(_)) => {
                let Some(woke) = condition.woke else { return };
                let (lock, site) = (condition.mutex, condition.site);
                self.told.conditions.remove(&thread);
                self.mutexes.insert(thread);
                let site = self.images.site_of(site, Kind::Mutex);
                self.event(woke, thread, What::Got);
                self.event(at, thread, What::Wait { lock, site });
            }
            _ => {}
        }
    }
}
