//! What a lock must do, as checks that can be run on any subject, sound or broken.
//!
//! An oracle returns what it found wrong. None of them is timed: a generous watchdog finds a
//! subject that hangs.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use overlock::{ConstLock, RawLock};

/// What the oracles can check: anything with the verbs of a lock.
pub(crate) trait Subject: Send + Sync + 'static {
    fn new() -> Self
    where
        Self: Sized;
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

/// Makes a subject. The oracles know no type, so that they are compiled once for all subjects.
pub(crate) type New<S = dyn Subject> = fn() -> Box<S>;

pub(crate) fn new<S: Subject>() -> Box<dyn Subject> {
    Box::new(S::new())
}

pub(crate) type Verdict = Result<(), String>;

/// How long a subject may make no progress at all before it counts as hung.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Ends this process unless what this returns is dropped soon: for a test that may hang.
pub(crate) fn ends_soon() -> mpsc::Sender<()> {
    let (ends, end) = mpsc::channel();
    thread::spawn(move || {
        if end.recv_timeout(4 * WATCHDOG) == Err(RecvTimeoutError::Timeout) {
            std::process::abort();
        }
    });
    ends
}

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
    thread::spawn(move || drop(send.send(check(&ours))));
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

/// Runs `body` in so many threads at once, each with its number, until all have returned.
pub(crate) fn together(threads: usize, body: impl Fn(usize) + Sync) -> Verdict {
    beside(threads, &body, || ())
}

/// The same, while this thread does something else. One type for all bodies, so that most of it is
/// compiled only once.
pub(crate) fn beside(
    threads: usize,
    body: &(dyn Fn(usize) + Sync),
    meanwhile: impl FnOnce(),
) -> Verdict {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|i| scope.spawn(move || body(i))).collect();
        meanwhile();
        threads.into_iter().try_for_each(joined)
    })
}

pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> Result<T, String> {
    thread.join().map_err(|_| "a thread panicked".into())
}

struct Shared {
    lock: Box<dyn Subject>,
    counter: UnsafeCell<u64>,
}

// SAFETY: the lock under test protects the counter. A broken lock loses updates, which is what the
// test looks for. (A race on an aligned u64 of x86-64 or aarch64 tears nothing; the accesses are
// volatile.)
unsafe impl Sync for Shared {}

impl Shared {
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
pub(crate) fn excludes(new: New, threads: usize, rounds: u64, try_every: u64) -> Verdict {
    watched(move |pulse| {
        let shared = Shared { lock: new(), counter: UnsafeCell::new(0) };
        together(threads, |_| {
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
        })?;
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
pub(crate) fn tries_truly(new: New) -> Verdict {
    watched(move |_| {
        let lock = new();
        let elsewhere = || {
            let take = || {
                let taken = lock.try_lock();
                if taken {
                    lock.unlock();
                }
                taken
            };
            thread::scope(|scope| joined(scope.spawn(take)))
        };
        for _ in 0..1000 {
            if !lock.try_lock() {
                return Err("a free lock could not be taken".into());
            }
            lock.unlock();
        }
        lock.lock();
        if elsewhere()? {
            return Err("a held lock could be taken".into());
        }
        lock.unlock();
        if elsewhere()? { Ok(()) } else { Err("a released lock could not be taken".into()) }
    })
}

/// How the verdict on a lock that served in another order begins.
const OTHER_ORDER: &str = "served in the order";

/// First come, first served: waiters that are known to be in the queue get the lock in their order.
/// A waiter is known to be there once it sleeps.
pub(crate) fn serves_in_order(new: New, waiters: usize) -> Verdict {
    watched(move |pulse| {
        let lock = new();
        let order: Vec<_> = (0..waiters).map(|_| AtomicUsize::new(usize::MAX)).collect();
        let asked: Vec<_> = (0..waiters).map(|_| AtomicI32::new(0)).collect();
        let served = AtomicUsize::new(0);
        lock.lock();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..waiters)
                .map(|i| {
                    let (lock, order, asked, served) = (&lock, &order, &asked[i], &served);
                    let thread = scope.spawn(move || {
                        asked.store(thread_id(), SeqCst);
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
            threads.into_iter().try_for_each(joined)
        })?;
        let order: Vec<_> = order.iter().map(|i| i.load(SeqCst)).collect();
        if order.is_sorted() { Ok(()) } else { Err(format!("{OTHER_ORDER} {order:?}")) }
    })
}

/// The same of a lock whose queue head may be passed if it has no processor for some milliseconds
/// (I6 of the queue locks): at most half of the attempts may show another order, and nothing else
/// may go wrong in any.
pub(crate) fn mostly_serves_in_order(new: New, waiters: usize) -> Verdict {
    let mut other = 0;
    for _ in 0..10 {
        match serves_in_order(new, waiters) {
            Ok(()) => {}
            Err(why) if why.starts_with(OTHER_ORDER) && other < 5 => other += 1,
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

pub(crate) type Check = fn() -> Verdict;

/// Expects of each of these checks that it misses a waiter. All at once, because each waits for its
/// watchdog.
pub(crate) fn all_lose_a_waiter(checks: &[(&str, Check)]) {
    thread::scope(|scope| {
        for (fault, check) in checks {
            scope.spawn(move || {
                assert_eq!(check(), Err("no progress: a waiter was lost".into()), "{fault}");
            });
        }
    });
}

/// Runs `body` in another thread, and waits for it.
pub(crate) fn elsewhere<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join().unwrap())
}

pub(crate) fn thread_id() -> i32 {
    // SAFETY: no arguments, no memory.
    unsafe { libc::gettid() }
}

/// Whether a thread of this process sleeps, according to the kernel, and goes on sleeping. One look
/// is not enough: an emulator's own locks can put a thread to sleep for a moment.
pub(crate) fn sleeps(thread: i32) -> bool {
    asleep(thread).is_some_and(|sleep| {
        thread::sleep(Duration::from_millis(1));
        asleep(thread) == Some(sleep)
    })
}

/// How often a thread of any process has gone to sleep, if it sleeps now, and is not stopped.
pub(crate) fn asleep(thread: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let value = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let sleeps = value("State:")?.starts_with('S');
    sleeps.then(|| {
        let switches = value("voluntary_ctxt_switches:").and_then(|count| count.parse().ok());
        switches.expect("the kernel counts how often a thread goes to sleep")
    })
}

/// Halted waiters are called back: bursts of threads that sleep through a long critical section all
/// get the lock.
pub(crate) fn loses_no_waiter(
    new: New,
    waiters: usize,
    bursts: usize,
    section: Duration,
) -> Verdict {
    watched(move |pulse| {
        let lock = new();
        for _ in 0..bursts {
            pulse.beat();
            lock.lock();
            let waits = |_| {
                lock.lock();
                lock.unlock();
            };
            beside(waiters, &waits, || {
                thread::sleep(section);
                lock.unlock();
            })?;
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
            let cell = AtomicU64::new(0);
            // SAFETY: all-zero bytes are an unlocked lock of four bytes; the cell outlives both
            // threads.
            let address = cell.as_ptr() as usize;
            let users = AtomicU32::new(2);
            together(2, |_| {
                // SAFETY: as above; the lock is used until the second release.
                let lock = unsafe { &*(address as *const S) };
                lock.lock();
                let last = users.fetch_sub(1, Relaxed) == 1;
                lock.unlock();
                if last {
                    cell.store(0xaaaa_aaaa, SeqCst);
                }
            })?;
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
