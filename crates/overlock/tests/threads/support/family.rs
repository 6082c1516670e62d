//! What a read-write lock and a condition variable must do, as checks for any subject, sound or
//! broken.

use std::cell::UnsafeCell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use overlock::counters::Uncounted;
use overlock::platform::Platform;
use overlock::{RawCondvar, RawLock, RawRwLock};

use super::oracle::{New, Verdict, beside, joined, together, watched, watched_for};

pub(crate) trait Shared: Send + Sync + 'static {
    fn new() -> Self
    where
        Self: Sized;
    fn read(&self);
    fn end_read(&self);
    fn write(&self);
    fn end_write(&self);
}

type NewRw = New<dyn Shared>;
type NewCond = New<dyn Conditional>;

pub(crate) fn shared<S: Shared>() -> Box<dyn Shared> {
    Box::new(S::new())
}

/// The same of a condition variable.
pub(crate) fn conditional<S: Conditional>() -> Box<dyn Conditional> {
    Box::new(S::new())
}

impl<P: Platform> Shared for RawRwLock<P, Uncounted>
where
    P::Word: overlock::atomic::ConstAtomic<u32>,
{
    fn new() -> Self {
        Self::new()
    }
    fn read(&self) {
        self.lock_shared();
    }
    fn end_read(&self) {
        // SAFETY: the oracles release what they have taken.
        unsafe { self.unlock_shared() };
    }
    fn write(&self) {
        RawLock::lock(self);
    }
    fn end_write(&self) {
        // SAFETY: as above.
        unsafe { RawLock::unlock(self) };
    }
}

/// Two numbers that a writer keeps equal.
struct Pair {
    lock: Box<dyn Shared>,
    pair: UnsafeCell<[u64; 2]>,
}

// SAFETY: the lock under test protects the pair. A broken one tears it, which is what the test
// looks for; the accesses are volatile.
unsafe impl Sync for Pair {}

impl Pair {
    fn get(&self, i: usize) -> u64 {
        // SAFETY: the pointer is valid; see `Sync` for the race of a broken subject.
        unsafe { self.pair.get().cast::<u64>().add(i).read_volatile() }
    }

    fn bump(&self, i: usize) {
        let seen = self.get(i);
        std::hint::spin_loop();
        // SAFETY: as above.
        unsafe { self.pair.get().cast::<u64>().add(i).write_volatile(seen + 1) };
    }
}

/// Writers exclude each other and readers. Each `write_every`th section of a thread writes.
pub(crate) fn excludes(new: NewRw, threads: usize, rounds: u64, write_every: u64) -> Verdict {
    watched(move |pulse| {
        let shared = Pair { lock: new(), pair: UnsafeCell::new([0; 2]) };
        let torn = AtomicBool::new(false);
        together(threads, |_| {
            for round in 0..rounds {
                if round % 64 == 0 {
                    pulse.beat();
                }
                if round % write_every == 0 {
                    shared.lock.write();
                    shared.bump(0);
                    shared.bump(1);
                    shared.lock.end_write();
                } else {
                    shared.lock.read();
                    if shared.get(0) != shared.get(1) {
                        torn.store(true, SeqCst);
                    }
                    shared.lock.end_read();
                }
            }
        })?;
        let expected = threads as u64 * rounds.div_ceil(write_every);
        match (shared.get(0), torn.load(SeqCst)) {
            (_, true) => Err("a reader saw a half of a section".into()),
            (counted, _) if counted == expected => Ok(()),
            (counted, _) => Err(format!("lost {} of {expected} updates", expected - counted)),
        }
    })
}

/// Readers hold the lock at the same time: each waits in its section for all the others.
pub(crate) fn reads_together(new: NewRw, readers: usize, limit: Duration) -> Verdict {
    watched_for(limit, move |_| {
        let (lock, all) = (new(), Barrier::new(readers));
        let reads = |_| {
            lock.read();
            all.wait();
            lock.end_read();
        };
        // They come while a writer is there, so that they wait first.
        lock.write();
        beside(readers, &reads, || {
            thread::sleep(Duration::from_millis(5));
            lock.end_write();
        })
    })
}

/// A lock that two readers hold in turns, so that there is no moment without a reader.
struct Relay {
    lock: Box<dyn Shared>,
    reads: [AtomicU64; 2],
    asks: [AtomicBool; 2],
    done: AtomicBool,
}

impl Relay {
    fn all_reads(&self) -> u64 {
        self.reads.iter().map(|reads| reads.load(SeqCst)).sum()
    }

    /// Reads again and again. Each time it stays until the other reader has come once more, or
    /// seems to be kept out.
    fn run(&self, me: usize) {
        while !self.done.load(SeqCst) {
            let others = self.reads[1 - me].load(SeqCst);
            self.asks[me].store(true, SeqCst);
            self.lock.read();
            self.asks[me].store(false, SeqCst);
            self.reads[me].fetch_add(1, SeqCst);
            let mut kept_out = 0;
            while self.reads[1 - me].load(SeqCst) == others
                && !self.done.load(SeqCst)
                && kept_out < 1_000
            {
                kept_out += u32::from(self.asks[1 - me].load(SeqCst));
                thread::yield_now();
            }
            self.lock.end_read();
        }
    }
}

/// A writer gets the lock although there is no moment without a reader, and starves if `patience`
/// readers come meanwhile. That has to be some thousand times what a lock allows, because a writer
/// without a processor can't even join the queue.
pub(crate) fn does_not_starve_writers(new: NewRw, rounds: usize, patience: u64) -> Verdict {
    watched(move |pulse| {
        for _ in 0..rounds {
            pulse.beat();
            let relay = &Relay {
                lock: new(),
                reads: [const { AtomicU64::new(0) }; 2],
                asks: [const { AtomicBool::new(false) }; 2],
                done: AtomicBool::new(false),
            };
            let starved = thread::scope(|scope| {
                let readers = [0, 1].map(|me| scope.spawn(move || relay.run(me)));
                while relay.reads.iter().any(|reads| reads.load(SeqCst) < 2) {
                    thread::yield_now();
                }
                let writer = scope.spawn(|| {
                    relay.lock.write();
                    relay.lock.end_write();
                });
                let asked = relay.all_reads();
                while !writer.is_finished() && relay.all_reads() - asked < patience {
                    thread::yield_now();
                }
                let starved = !writer.is_finished();
                relay.done.store(true, SeqCst);
                readers.into_iter().chain([writer]).try_for_each(joined).map(|()| starved)
            })?;
            if starved {
                return Err(format!("{patience} readers passed a writer"));
            }
        }
        Ok(())
    })
}

/// Bursts of readers and writers that sleep through a long section, for reading or writing, all get
/// the lock.
pub(crate) fn loses_no_waiter(new: NewRw, threads: usize, bursts: u64, limit: Duration) -> Verdict {
    watched_for(limit, move |pulse| {
        let lock = new();
        let take = |writes| if writes { lock.write() } else { lock.read() };
        let release = |writes| if writes { lock.end_write() } else { lock.end_read() };
        let waits = |i| {
            take(i % 2 == 0);
            release(i % 2 == 0);
        };
        for burst in 0..bursts {
            pulse.beat();
            let writes = burst % 2 == 0;
            take(writes);
            beside(threads, &waits, || {
                thread::sleep(Duration::from_millis(2));
                release(writes);
            })?;
        }
        Ok(())
    })
}

/// A condition variable under test, with the mutex that it uses.
pub(crate) trait Conditional: Send + Sync + 'static {
    fn new() -> Self
    where
        Self: Sized;
    fn lock(&self);
    fn unlock(&self);
    /// Returns whether it was notified, or may have been.
    fn wait(&self, timeout: Option<Duration>) -> bool;
    fn notify_one(&self);
    fn notify_all(&self);
}

/// A condition variable with a mutex of another kind.
pub(crate) struct With<P: Platform, L> {
    condvar: RawCondvar<P>,
    mutex: L,
}

impl<P: Platform, L: overlock::ConstLock + 'static> Conditional for With<P, L>
where
    P::Word: overlock::atomic::ConstAtomic<u32>,
{
    fn new() -> Self {
        Self { condvar: RawCondvar::new(), mutex: L::NEW }
    }
    fn lock(&self) {
        self.mutex.lock();
    }
    fn unlock(&self) {
        // SAFETY: the oracles release what they have taken.
        unsafe { self.mutex.unlock() };
    }
    fn wait(&self, timeout: Option<Duration>) -> bool {
        match timeout {
            // SAFETY: the oracles wait with the mutex.
            None => unsafe {
                self.condvar.wait(&self.mutex);
                true
            },
            // SAFETY: as above.
            Some(timeout) => unsafe { self.condvar.wait_for(&self.mutex, timeout) },
        }
    }
    fn notify_one(&self) {
        self.condvar.notify_one();
    }
    fn notify_all(&self) {
        self.condvar.notify_all();
    }
}

/// Tokens under a mutex, and the condition that there is one.
struct Tokens {
    subject: Box<dyn Conditional>,
    left: AtomicU32,
    taken: AtomicU64,
}

impl Tokens {
    fn new(new: NewCond) -> Self {
        let (left, taken) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { subject: new(), left, taken }
    }

    /// Waits for a token and takes it, or gives up when `timeout` has passed. (The counts are
    /// atomic only to be shared: the mutex protects them.)
    fn take(&self, timeout: Option<Duration>) -> bool {
        self.subject.lock();
        while self.left.load(SeqCst) == 0 {
            if !self.subject.wait(timeout) {
                // A notification may have come meanwhile, but then it was for another.
                self.subject.unlock();
                return false;
            }
        }
        self.left.store(self.left.load(SeqCst) - 1, SeqCst);
        self.taken.fetch_add(1, SeqCst);
        self.subject.unlock();
        true
    }

    fn give(&self) {
        self.subject.lock();
        self.left.store(self.left.load(SeqCst) + 1, SeqCst);
        self.subject.unlock();
        self.subject.notify_one();
    }
}

/// Every token reaches a waiter: a notification is not lost, whether waiters are about to halt,
/// halt or are awake.
pub(crate) fn notifies(new: NewCond, takers: usize, rounds: u64, limit: Duration) -> Verdict {
    watched_for(limit, move |pulse| {
        let tokens = Tokens::new(new);
        let takes = |_| {
            for _ in 0..rounds {
                tokens.take(None);
                pulse.beat();
            }
        };
        beside(takers, &takes, || {
            for given in 1..=takers as u64 * rounds {
                tokens.give();
                // With a token to spare, no waiter would miss a notification.
                while tokens.taken.load(SeqCst) < given {
                    thread::yield_now();
                }
            }
        })
    })
}

/// Every broadcast reaches all waiters: in each round, all of them wait for its number.
pub(crate) fn broadcasts(new: NewCond, waiters: usize, rounds: u32, limit: Duration) -> Verdict {
    watched_for(limit, move |pulse| {
        let round = Tokens::new(new);
        let waits = |_| {
            for next in 1..=rounds {
                round.subject.lock();
                round.taken.fetch_add(1, SeqCst);
                while round.left.load(SeqCst) < next {
                    round.subject.wait(None);
                }
                round.subject.unlock();
                pulse.beat();
            }
        };
        beside(waiters, &waits, || {
            for next in 1..=rounds {
                while round.taken.load(SeqCst) < u64::from(next) * waiters as u64 {
                    thread::yield_now();
                }
                round.subject.lock();
                round.left.store(next, SeqCst);
                round.subject.unlock();
                round.subject.notify_all();
            }
        })
    })
}

/// A notification that races with a deadline is not lost: one of two waiters gives up after a
/// moment, and if it has not taken the token, the other one gets it.
pub(crate) fn passes_notifications_on(new: NewCond, rounds: u64, limit: Duration) -> Verdict {
    watched_for(limit, move |pulse| {
        for round in 0..rounds {
            pulse.beat();
            let tokens = &Tokens::new(new);
            thread::scope(|scope| {
                let start = |timeout| scope.spawn(move || tokens.take(timeout));
                let hasty = start(Some(Duration::from_micros(200 + round * 7 % 100)));
                let patient = start(None);
                thread::sleep(Duration::from_micros(round * 13 % 300));
                tokens.give();
                if joined(hasty)? {
                    tokens.give();
                }
                joined(patient).map(drop)
            })?;
        }
        Ok(())
    })
}
