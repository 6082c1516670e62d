//! A thread that empties the rings, whatever else this process and the machine do.
//!
//! The kernel drops records that find no room in their ring. What is done with records can take
//! long: names have to be read, and on a busy machine its turn comes late. So the rings are emptied
//! into memory by a thread that does nothing else, and, where that is allowed, has real-time
//! priority: a nice value counts only among the processes of one session where the kernel groups
//! them by sessions.

use crate::sources::platform::{self, Filled, Poll, Ring};
use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The thread, and what it has taken out of the rings.
#[derive(Debug)]
pub(crate) struct Drain {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub(crate) struct Round {
    /// When the rings were last emptied: what was in them before is in this round or in one before
    /// it.
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug)]
struct Shared {
    taken: Mutex<Taken>,
    has_much: Condvar,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Taken {
    rings: Vec<Ring>,
    rounds: VecDeque<Round>,
    bytes: usize,
}

/// How long records lie in a ring at most, if there are few.
const EVERY_MS: i32 = 10;
/// Rounds are joined up to this length.
const ROUND_BYTES: usize = 1 << 20;
/// More than this is not taken in advance; records then stay in the rings.
const MOST_BYTES: usize = 48 << 20;

impl Drain {
    /// Starts to empty rings; each comes with the event that owns it.
    pub(crate) fn new(rings: Vec<(Ring, OwnedFd)>) -> Result<Self> {
        let (rings, events): (Vec<_>, Vec<_>) = rings.into_iter().unzip();
        let taken = Taken { rings, rounds: VecDeque::new(), bytes: 0 };
        let shared = Arc::new(Shared {
            taken: Mutex::new(taken),
            has_much: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        let of = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("rings".into()).spawn(move || {
            platform::come_first();
            let mut poll = Poll::new(&events);
            while !of.is_over.load(Relaxed) {
                let mut taken = of.taken();
                let has_room = taken.bytes < MOST_BYTES;
                if has_room {
                    taken.collect();
                }
                let is_much = taken.bytes >= ROUND_BYTES;
                drop(taken);
                if is_much {
                    of.has_much.notify_one();
                }
                match has_room {
                    true => poll.wait(EVERY_MS),
                    // The rings are full, so there is no need to wait for that.
                    false => {
                        std::thread::sleep(Duration::from_millis(EVERY_MS.unsigned_abs().into()))
                    }
                }
            }
        });
        let thread = thread.context("can't start a thread that reads the kernel's records")?;
        Ok(Drain { shared, thread: Some(thread) })
    }

    /// Waits until there is much to do, at most for a millisecond; returns whether there is.
    pub(crate) fn wait(&self) -> bool {
        let taken = self.shared.taken();
        let is_little = |taken: &mut Taken| taken.bytes < ROUND_BYTES;
        let time = Duration::from_millis(1);
        let waited = self.shared.has_much.wait_timeout_while(taken, time, is_little);
        waited.is_ok_and(|(_, waited)| !waited.timed_out())
    }

    /// Returns whether the thread has not had its turn for long.
    #[cfg(test)]
    pub(crate) fn is_behind(&self) -> bool {
        self.shared.taken().rings.iter().any(Ring::is_half_full)
    }

    pub(crate) fn collect(&self) {
        self.shared.taken().collect();
    }

    pub(crate) fn take(&self) -> Option<Round> {
        let mut taken = self.shared.taken();
        let round = taken.rounds.pop_front()?;
        taken.bytes -= round.bytes.len();
        Some(round)
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        // If it has panicked, its message was printed.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Shared {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn collect(&mut self) {
        let at = platform::now_ns();
        let parts: Vec<Filled> = self.rings.iter().map(Ring::filled).collect();
        let more: usize = parts.iter().map(Filled::length).sum();
        // There may be many rounds, so none grows, which would take more memory than its records.
        let has_room = |round: &mut Round| round.bytes.len() + more <= ROUND_BYTES;
        let mut round = self
            .rounds
            .pop_back_if(has_room)
            .unwrap_or_else(|| Round { at, bytes: Vec::with_capacity(more.max(ROUND_BYTES)) });
        for (ring, part) in self.rings.iter_mut().zip(parts) {
            ring.drain(part, &mut round.bytes);
        }
        round.at = at;
        self.bytes += more;
        self.rounds.push_back(round);
    }
}
