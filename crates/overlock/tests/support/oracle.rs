//! What a lock must do, as checks that can be run on any subject, sound or broken.
//!
//! An oracle returns what it found wrong. None of them is timed: a generous watchdog finds a
//! subject that hangs.

#![allow(dead_code, reason = "each test binary asks some of the questions")]

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use overlock::{ConstLock, RawLock};

/// What the oracles can check: anything with the verbs of a lock.
pub(crate) trait Subject: Send + Sync + 'static {
    fn new() -> Self;
    fn lock(&self);
    fn try_lock(&self) -> bool;
    fn unlock(&self);
}

impl<L: ConstLock + 'static> Subject for L {
    fn new() -> Self {
        L::NEW
    }
    fn lock(&self) {
        RawLock::lock(self);
    }
    fn try_lock(&self) -> bool {
        RawLock::try_lock(self)
    }
    fn unlock(&self) {
        // SAFETY: the oracles unlock only what they have locked.
        unsafe { RawLock::unlock(self) };
    }
}

pub(crate) type Verdict = Result<(), String>;

/// How long a subject may make no progress at all before it counts as hung.
const WATCHDOG: Duration = Duration::from_secs(60);

/// A check calls this to report that its subject still makes progress.
///
/// The watchdog counts from the last beat. So a slow or busy machine, or an emulator, fails no
/// subject: a check may take as long as it likes while it makes progress.
#[derive(Clone)]
pub(crate) struct Pulse(Arc<AtomicU64>);

impl Pulse {
    pub(crate) fn beat(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Runs a check in a thread of its own, and abandons it if it hangs.
pub(crate) fn watched(check: impl FnOnce(&Pulse) -> Verdict + Send + 'static) -> Verdict {
    watched_for(WATCHDOG, check)
}

pub(crate) fn watched_for(
    limit: Duration,
    check: impl FnOnce(&Pulse) -> Verdict + Send + 'static,
) -> Verdict {
    watched_boxed(limit, Box::new(check))
}

/// One type for all checks, so that this is compiled only once.
fn watched_boxed(limit: Duration, check: Box<dyn FnOnce(&Pulse) -> Verdict + Send>) -> Verdict {
    let (send, receive) = mpsc::channel();
    let pulse = Pulse(Arc::new(AtomicU64::new(0)));
    let ours = pulse.clone();
    spawn(move || drop(send.send(check(&ours))));
    let mut beats = 0;
    loop {
        match receive.recv_timeout(limit) {
            Ok(verdict) => return verdict,
            Err(RecvTimeoutError::Disconnected) => return Err("the check panicked".into()),
            Err(RecvTimeoutError::Timeout) => {
                let now = pulse.0.load(Relaxed);
                if now == beats {
                    return Err("no progress: a waiter was lost".into());
                }
                beats = now;
            }
        }
    }
}

/// Starts a thread. Closures become one type here, so that most of what starts one is compiled only
/// once.
fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let body: Box<dyn FnOnce() -> T + Send> = Box::new(body);
    thread::spawn(body)
}

struct Shared<S> {
    lock: S,
    counter: UnsafeCell<u64>,
}

// SAFETY: the lock under test protects the counter. A broken lock loses updates, which is what the
// test looks for. (A race on an aligned u64 of x86-64 or aarch64 tears nothing; the accesses are
// volatile.)
unsafe impl<S: Sync> Sync for Shared<S> {}

impl<S> Shared<S> {
    fn bump(&self) {
        let counter = self.counter.get();
        // SAFETY: the pointer is valid; see `Sync` for the race of a broken subject.
        let seen = unsafe { counter.read_volatile() };
        std::hint::spin_loop();
        // SAFETY: as above.
        unsafe { counter.write_volatile(seen + 1) };
    }
}

/// Mutual exclusion: threads that count together lose no update. On every `try_every`th round they
/// try first.
pub(crate) fn excludes<S: Subject>(threads: usize, rounds: u64, try_every: u64) -> Verdict {
    watched(move |pulse| {
        let shared = Arc::new(Shared { lock: S::new(), counter: UnsafeCell::new(0) });
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let (shared, pulse) = (Arc::clone(&shared), pulse.clone());
                spawn(move || {
                    for round in 0..rounds {
                        if round % 64 == 0 {
                            pulse.beat();
                        }
                        if round % try_every != 0 || !shared.lock.try_lock() {
                            shared.lock.lock();
                        }
                        shared.bump();
                        shared.lock.unlock();
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().map_err(|_| "a thread panicked")?;
        }
        let expected = threads as u64 * rounds;
        // SAFETY: all threads have ended.
        let counted = unsafe { *shared.counter.get() };
        if counted == expected {
            Ok(())
        } else {
            Err(format!("lost {} of {expected} updates", expected - counted))
        }
    })
}

/// `try_lock` tells the truth: it fails while another thread holds the lock, and not otherwise.
pub(crate) fn tries_truly<S: Subject>() -> Verdict {
    watched(|_| {
        let lock = Arc::new(S::new());
        let elsewhere = |lock: &Arc<S>| {
            let lock = Arc::clone(lock);
            spawn(move || {
                let taken = lock.try_lock();
                if taken {
                    lock.unlock();
                }
                taken
            })
            .join()
            .map_err(|_| "a thread panicked".to_owned())
        };
        for _ in 0..1000 {
            if !lock.try_lock() {
                return Err("a free lock could not be taken".into());
            }
            lock.unlock();
        }
        lock.lock();
        if elsewhere(&lock)? {
            return Err("a held lock could be taken".into());
        }
        lock.unlock();
        if elsewhere(&lock)? { Ok(()) } else { Err("a released lock could not be taken".into()) }
    })
}

/// How the verdict on a lock that served in another order begins.
const OTHER_ORDER: &str = "served in the order";

/// First come, first served: waiters that are known to be in the queue get the lock in their order.
/// A waiter is known to be there once it sleeps.
pub(crate) fn serves_in_order<S: Subject>(waiters: usize) -> Verdict {
    watched(move |pulse| {
        let lock = Arc::new(S::new());
        let order =
            Arc::new((0..waiters).map(|_| AtomicUsize::new(usize::MAX)).collect::<Vec<_>>());
        let served = Arc::new(AtomicUsize::new(0));
        lock.lock();
        let threads: Vec<_> = (0..waiters)
            .map(|i| {
                let (lock, order, served) =
                    (Arc::clone(&lock), Arc::clone(&order), Arc::clone(&served));
                let asked = Arc::new(AtomicI32::new(0));
                let about = Arc::clone(&asked);
                let thread = spawn(move || {
                    // SAFETY: no arguments, no memory.
                    about.store(unsafe { libc::gettid() }, SeqCst);
                    lock.lock();
                    order[served.fetch_add(1, SeqCst)].store(i, SeqCst);
                    lock.unlock();
                });
                while !sleeps(asked.load(SeqCst)) {
                    thread::sleep(Duration::from_millis(1));
                }
                pulse.beat();
                thread
            })
            .collect();
        lock.unlock();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")?;
        }
        let order: Vec<_> = order.iter().map(|i| i.load(SeqCst)).collect();
        if order.is_sorted() { Ok(()) } else { Err(format!("{OTHER_ORDER} {order:?}")) }
    })
}

/// The same of a lock whose queue head may be passed if it has no processor for some milliseconds
/// (I6 of the queue locks): at most half of the attempts may show another order, and nothing else
/// may go wrong in any.
pub(crate) fn mostly_serves_in_order<S: Subject>(waiters: usize) -> Verdict {
    let mut other = 0;
    for _ in 0..10 {
        match serves_in_order::<S>(waiters) {
            Ok(()) => {}
            Err(why) if why.starts_with(OTHER_ORDER) && other < 5 => other += 1,
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// Whether a thread of this process sleeps, according to the kernel, and goes on sleeping. One look
/// is not enough: an emulator's own locks can put a thread to sleep for a moment.
pub(crate) fn sleeps(thread: i32) -> bool {
    asleep(thread).is_some_and(|sleep| {
        thread::sleep(Duration::from_millis(1));
        asleep(thread) == Some(sleep)
    })
}

/// How often a thread has gone to sleep, if it sleeps now.
fn asleep(thread: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let value = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let sleeps = value("State:")?.starts_with('S');
    sleeps.then(|| {
        let switches = value("voluntary_ctxt_switches:").and_then(|count| count.parse().ok());
        switches.expect("the kernel counts how often a thread goes to sleep")
    })
}

/// Halted waiters are called back: bursts of threads that sleep through a long critical section all
/// get the lock.
pub(crate) fn loses_no_waiter<S: Subject>(
    waiters: usize,
    bursts: usize,
    section: Duration,
) -> Verdict {
    watched(move |pulse| {
        let lock = Arc::new(S::new());
        for _ in 0..bursts {
            pulse.beat();
            lock.lock();
            let threads: Vec<_> = (0..waiters)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    spawn(move || {
                        lock.lock();
                        lock.unlock();
                    })
                })
                .collect();
            thread::sleep(section);
            lock.unlock();
            for thread in threads {
                thread.join().map_err(|_| "a thread panicked")?;
            }
        }
        Ok(())
    })
}

/// The memory of a lock can be reused as soon as the lock has been released for the last time (F4).
/// In each round, the second of two threads frees it, and what that thread then writes there must
/// stay untouched.
pub(crate) fn leaves_memory_alone<S: Subject>(rounds: usize) -> Verdict {
    assert_eq!(size_of::<S>(), 4, "the memory is looked at as one word");
    watched(move |pulse| {
        for round in 0..rounds {
            pulse.beat();
            let cell = Arc::new(AtomicU64::new(0));
            // SAFETY: all-zero bytes are an unlocked lock of four bytes; the cell outlives both
            // threads.
            let address = cell.as_ptr() as usize;
            let users = Arc::new(AtomicU32::new(2));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (cell, users) = (Arc::clone(&cell), Arc::clone(&users));
                    spawn(move || {
                        // SAFETY: as above; the lock is used until the second release.
                        let lock = unsafe { &*(address as *const S) };
                        lock.lock();
                        let last = users.fetch_sub(1, Relaxed) == 1;
                        lock.unlock();
                        if last {
                            cell.store(0xaaaa_aaaa, SeqCst);
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().map_err(|_| "a thread panicked")?;
            }
            let left = cell.load(SeqCst) as u32;
            if left != 0xaaaa_aaaa {
                return Err(format!(
                    "round {round}: the word was {left:#x} after its last release"
                ));
            }
        }
        Ok(())
    })
}
