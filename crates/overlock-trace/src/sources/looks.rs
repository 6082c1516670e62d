//! The source without root: looks at all threads, many times a second.
//!
//! The kernel's records of switches, which every user may have of own programs, say at any time
//! which threads run and which could. For each thread that sleeps, `/proc` says in which system
//! call. Of a mutex of the GNU C library, the program's memory names the holder. So each look is
//! true, and stands for the time since the one before it. What lies between two looks is not seen.

use crate::analysis::{Holder, Look, SHARED, Site, Snapshot, State, What};
use crate::sources::calls::{self, Call};
use crate::sources::coarse::Coarse;
use crate::sources::platform;
use crate::sources::rings::Rings;
use crate::sources::tracer::Tracer;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;

/// How the threads of programs are looked at.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    pub(crate) rings: Rings,
    /// Used instead where the kernel allows no records.
    coarse: Option<Coarse>,
    /// Where each thread slept at the last look.
    asleep: HashMap<u32, Sleep>,
    first: u64,
    last: u64,
    /// How often all threads were looked at; how often one that slept was, and how often that was
    /// not allowed.
    count: u64,
    allowed: u64,
    refused: u64,
}

/// A thread's wait, as of the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sleep {
    call: Call,
    site: Site,
    /// How often the thread had got a processor.
    turns: u64,
}

/// The time between two looks, if they cost little.
const SHORTEST_NS: u64 = 1_000_000;
/// The same where the kernel's account of a thread grows only with its own timer.
const COARSE_NS: u64 = 10_000_000;
/// A record is in its ring so soon after its time stamp that what is older is complete.
const SETTLED_NS: u64 = 20_000;
/// Looks that come later than this are worth a warning.
const TOO_RARE_NS: u64 = 4_000_000;
const COARSE_TOO_RARE_NS: u64 = 20_000_000;
/// How many threads are looked at that no record has told of.
const MOST_LOOKED: usize = 16;
/// Looks may take this part of one processor: one of so many.
const SHARE: u64 = 10;
impl Looks {
    pub(crate) fn new() -> Self {
        let now = platform::now_ns();
        Looks { first: now, last: now, ..Looks::default() }
    }

    /// Does without the kernel's records from now on.
    pub(crate) fn be_coarse(&mut self) {
        self.rings = Rings::default();
        self.coarse = Some(Coarse::default());
    }

    pub(crate) fn is_coarse(&self) -> bool {
        self.coarse.is_some()
    }

    /// Looks at all threads once, and then sleeps.
    pub(crate) fn turn(&mut self, tracer: &mut Tracer) {
        match &mut self.coarse {
            Some(coarse) => {
                let found = coarse.turn(tracer, &HashSet::new());
                tracer.finds(found);
                tracer.tell_found(u64::MAX);
            }
            None => {
                self.rings.turn(tracer.switches, true);
                self.rings.read_now(tracer, SETTLED_NS);
            }
        }
        tracer.python.tell(u64::MAX, &tracer.analysis);
        let start = platform::now_ns();
        // What threads did before the first look is not known.
        self.last = if self.count == 0 { start } else { self.last };
        let mut processes: Vec<u32> = tracer.threads.values().copied().collect();
        processes.sort_unstable();
        processes.dedup();
        for process in processes {
            let threads = self.look(tracer, process);
            let is_ordered = !self.is_coarse();
            tracer.analysis.snapshot(process, &threads, (self.last, start), is_ordered);
        }
        self.last = start;
        self.count += 1;
        let took = platform::now_ns() - start;
        let shortest = if self.is_coarse() { COARSE_NS } else { SHORTEST_NS };
        let pause = shortest.max(took * (SHARE - 1));
        std::thread::sleep(std::time::Duration::from_nanos(pause));
    }

    /// Says what makes the result doubtful, if anything does.
    pub(crate) fn doubts(&self) -> Option<String> {
        let pause = (self.last - self.first) / self.count.max(1);
        if self.are_secret() {
            return Some("the system does not let this user see in which calls threads sleep (another user's \
                         program, or a privileged one): their waits are missing; run this as root".into());
        }
        let most = if self.is_coarse() { COARSE_TOO_RARE_NS } else { TOO_RARE_NS };
        (pause > most).then(|| {
            format!(
                "there was a look at the threads only every {} ms, because the machine was busy or the threads \
                 many: all shares are rough",
                pause / 1_000_000
            )
        })
    }

    /// Returns whether the system hides in which calls threads sleep.
    pub(crate) fn are_secret(&self) -> bool {
        self.refused > self.allowed
    }

    pub(crate) fn end(&mut self, tracer: &mut Tracer) {
        self.rings.read(tracer, u64::MAX);
        tracer.analysis.stretch_samples(self.rings.stretch());
    }

    fn look(&mut self, tracer: &mut Tracer, process: u32) -> Snapshot {
        let threads: Vec<_> = tracer.analysis.threads_of(process).collect();
        let mut looked = Snapshot::new();
        for (thread, seen, turns) in threads {
            let doing = match seen {
                State::Running | State::Preempted | State::Throttled => {
                    // A waiter that runs, or has run, waits no more.
                    self.asleep.remove(&thread);
                    Some(seen.into())
                }
                _ => self.asleep_in(tracer, process, (thread, turns), seen.sleeps()),
            };
            looked.extend(doing.map(|doing| (thread, doing)));
        }
        looked
    }

    /// Returns what a thread does that has given up its processor.
    fn asleep_in(
        &mut self,
        tracer: &mut Tracer,
        process: u32,
        (thread, turns): (u32, u64),
        is_known: bool,
    ) -> Option<Look> {
        let call = match calls::read(process, thread) {
            Ok(call) => call,
            Err(error) => {
                // It may also have ended.
                self.refused += u64::from(error.kind() == ErrorKind::PermissionDenied);
                return None;
            }
        };
        self.allowed += 1;
        let before = self.asleep.get(&thread).copied();
        let Some(call) = call else {
            // It has been woken, but has no processor yet: what it waited for is free.
            return match before {
                Some(Sleep { call, site, .. }) if call.is_futex_wait() => Some(Look {
                    state: State::Waiting(call.arguments[0], site),
                    holder: Holder::Nobody,
                    is_old: true,
                }),
                _ => is_known.then_some(State::Preempted.into()),
            };
        };
        let old = before.filter(|old| old.call == call);
        let site = old.map_or_else(|| call.site(tracer, (process, thread)), |old| old.site);
        let is_old = old.is_some_and(|old| old.turns == turns);
        self.asleep.insert(thread, Sleep { call, site, turns });
        if is_old {
            tracer.python.was_at(thread, Some(site), (self.last, u64::MAX));
        }
        let lock = call.arguments[0];
        if !call.is_futex_wait() {
            let state = State::Asleep(call.reason(tracer, process), site);
            return Some(Look { state, holder: Holder::Unknown, is_old });
        }
        if !is_old {
            tracer.expects(site, lock, call.arguments[2]);
        }
        let holder = match call.is_mutex() {
            true => tracer.holder(thread, lock),
            false => Holder::Unknown,
        };
        Some(Look { state: State::Waiting(lock, site), holder, is_old })
    }
}

impl Tracer {
    /// Looks where threads are that have slept since before a time, if no record has told.
    pub(crate) fn look_at_sleeps(&mut self, before: u64) {
        let nameless = self.analysis.nameless_since(before).take(MOST_LOOKED);
        for (thread, process) in nameless.collect::<Vec<_>>() {
            let at = platform::now_ns();
            if let Ok(Some(call)) = calls::read(process, thread) {
                let site = call.site(self, (process, thread));
                let reason = call.reason(self, process);
                self.finds([(at, thread, What::Sleeps(reason, site, 0))]);
            }
        }
    }
}

/// Tells what a thread that was there before does, if it sleeps: it may be in a wait that began
/// long ago, and that never ends. Records of the time before may not have had their turn yet.
pub(crate) fn begin(tracer: &mut Tracer, process: u32, thread: u32) {
    let at = platform::now_ns();
    let Ok(Some(call)) = calls::read(process, thread) else { return };
    let site = call.site(tracer, (process, thread));
    let reason = call.reason(tracer, process);
    if call.is_futex_wait() {
        if call.is_mutex() {
            tracer.mutexes.insert(thread);
        }
        let lock = call.arguments[0] | if call.is_shared() { SHARED } else { 0 };
        tracer.finds([(at, thread, What::Wait { lock, site, is_lock: call.is_mutex() })]);
    }
    tracer.finds([(at, thread, What::Out(State::Asleep(reason, site)))]);
}
