//! What threads do to each other: two threads share one processor; a holder faults, sleeps or is
//! stopped; threads have real-time priorities.
//!
//! The kernel answers whether a spin is unbounded: while the holder is away for long, a waiter must
//! have used little processor time.

use std::os::unix::thread::JoinHandleExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::support::oracle;
use crate::support::pages::pages;
use crate::support::skip::skip;
use overlock::platform::{Shared, Threads};
use overlock::{ConstLock, Hybrid, Queued, RawLock, TestAndSet};

fn unlock(lock: &impl RawLock) {
    // SAFETY: every caller holds the lock.
    unsafe { lock.unlock() };
}

/// Pins this thread to one processor: the first that it may use.
fn pin() {
    // SAFETY: all-zero bytes are an empty set.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid to write to, and its size is right.
    unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &raw mut allowed) };
    // SAFETY: indices below CPU_SETSIZE.
    let first = (0..libc::CPU_SETSIZE as usize).find(|&i| unsafe { libc::CPU_ISSET(i, &allowed) });
    // SAFETY: as above.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::CPU_SET(first.unwrap_or(0), &mut one) };
    // SAFETY: the set is valid to read.
    unsafe { libc::sched_setaffinity(0, size_of_val(&one), &raw const one) };
}

fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: valid to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Two threads that share one processor (crossbeam#821) make progress, even if each pauses in its
/// critical section.
fn shares_one_processor<L: ConstLock + 'static>() {
    oracle::watched(|pulse| {
        let lock = L::NEW;
        oracle::together(2, |_| {
            pin();
            for round in 0..20_000 {
                lock.lock();
                if round % 100 == 0 {
                    pulse.beat();
                    thread::yield_now();
                }
                unlock(&lock);
            }
        })
    })
    .unwrap();
}

/// Whether the threads that have been stopped may go on, and how many there are.
static GOES_ON: AtomicBool = AtomicBool::new(false);
static STOPPED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn stop(_signal: libc::c_int) {
    STOPPED.fetch_add(1, SeqCst);
    while !GOES_ON.load(SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// As a collector does: stops a thread that waits for a lock, by a signal, and uses the lock before
/// it lets the thread go on.
fn uses_a_lock_whose_queue_head_is_stopped<L: ConstLock + 'static>() {
    GOES_ON.store(false, SeqCst);
    // SAFETY: the handler uses atomics and sleeps.
    unsafe { libc::signal(libc::SIGUSR1, stop as *const () as libc::sighandler_t) };
    let lock = Arc::new(L::NEW);
    lock.lock();
    let head = {
        let lock = Arc::clone(&lock);
        thread::spawn(move || {
            lock.lock();
            unlock(&*lock);
        })
    };
    // It waits, and has been the queue head for longer than its tenure.
    thread::sleep(Duration::from_millis(50));
    let before = STOPPED.load(SeqCst);
    // SAFETY: the thread has not been joined.
    unsafe { libc::pthread_kill(head.as_pthread_t(), libc::SIGUSR1) };
    while STOPPED.load(SeqCst) == before {
        thread::sleep(Duration::from_millis(1));
    }
    unlock(&*lock);
    let uses = oracle::watched(move |pulse| {
        // Were each acquisition to wait for the stopped thread anew, a beat would take minutes.
        for round in 0..200_000 {
            lock.lock();
            if round % 20_000 == 0 {
                pulse.beat();
            }
            unlock(&*lock);
        }
        Ok(())
    });
    GOES_ON.store(true, SeqCst);
    uses.unwrap();
    head.join().unwrap();
}

#[test]
fn a_stopped_queue_head_does_not_keep_a_free_lock() {
    uses_a_lock_whose_queue_head_is_stopped::<Queued<Threads>>();
    uses_a_lock_whose_queue_head_is_stopped::<Hybrid<Threads>>();
}

/// While a holder sleeps for 400 ms, eight waiters together use less than a tenth of that time.
fn waits_without_spinning<L: ConstLock + 'static>() {
    let lock = L::NEW;
    lock.lock();
    let waits = || {
        let before = used();
        lock.lock();
        let waited = used() - before;
        unlock(&lock);
        waited
    };
    let burnt: Duration = thread::scope(|scope| {
        let waiters = [(); 8].map(|()| scope.spawn(waits));
        thread::sleep(Duration::from_millis(400));
        unlock(&lock);
        waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum()
    });
    assert!(burnt < Duration::from_millis(40), "the waiters burnt {burnt:?}");
}

/// A holder takes page faults in its critical section.
fn survives_page_faults<L: ConstLock + 'static>() {
    const PAGES: usize = 64;
    const SIZE: usize = PAGES * 4096;
    oracle::watched(|pulse| {
        let memory = pages::<u8>(SIZE, libc::MAP_PRIVATE);
        let (lock, shared) = (L::NEW, AtomicPtr::new(memory));
        oracle::together(4, |_| {
            for _ in 0..200 {
                pulse.beat();
                lock.lock();
                let memory = shared.load(SeqCst);
                // SAFETY: the mapping is alive, and the lock makes this thread its only user.
                unsafe { libc::madvise(memory.cast(), SIZE, libc::MADV_DONTNEED) };
                for page in 0..PAGES {
                    // SAFETY: inside the mapping; the first touch of each page faults.
                    unsafe { memory.add(page * 4096).write_volatile(1) };
                }
                unlock(&lock);
            }
        })
    })
    .unwrap();
}

/// Threads of a real-time class that share a processor do not shut each other out (F28).
fn works_under_sched_fifo<L: ConstLock + 'static>() {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: `param` is valid to read; the call affects this thread only.
    let may = thread::spawn(move || unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) == 0
    });
    if !may.join().unwrap() {
        skip("no right to SCHED_FIFO here (run as root, or set RLIMIT_RTPRIO)");
        return;
    }
    oracle::watched(|pulse| {
        let lock = L::NEW;
        oracle::together(4, |i| {
            pin();
            let param = libc::sched_param { sched_priority: [1, 1, 2, 3][i] };
            // SAFETY: valid to read.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
            for round in 0..3_000 {
                lock.lock();
                if round % 500 == 0 {
                    pulse.beat();
                    thread::sleep(Duration::from_micros(200));
                }
                unlock(&lock);
            }
        })
    })
    .unwrap();
}

each_lock! { shares_one_processor waits_without_spinning survives_page_faults works_under_sched_fifo }

/// A process holds a lock in shared memory and is stopped: the waiter sleeps meanwhile, and takes
/// the lock once the stopped process has been continued.
#[test]
fn a_stopped_process_holds_up_nobody_for_ever() {
    struct InShared {
        lock: TestAndSet<Shared>,
        held: AtomicBool,
    }
    // SAFETY: a page of zeros, which are a valid `InShared`.
    let shared: &'static InShared = unsafe { &*pages(1, libc::MAP_SHARED) };
    // SAFETY: the child uses only the shared memory and system calls.
    let child = unsafe { libc::fork() };
    if child == 0 {
        shared.lock.lock();
        shared.held.store(true, SeqCst);
        // SAFETY: stops this process until it is continued.
        unsafe { libc::raise(libc::SIGSTOP) };
        unlock(&shared.lock);
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: our child; `status` is valid to write to.
    unsafe { libc::waitpid(child, &raw mut status, libc::WUNTRACED) };
    assert!(libc::WIFSTOPPED(status) && shared.held.load(SeqCst));
    let waiter = thread::spawn(move || {
        let before = used();
        shared.lock.lock();
        let burnt = used() - before;
        unlock(&shared.lock);
        burnt
    });
    thread::sleep(Duration::from_millis(200));
    assert!(!waiter.is_finished());
    // SAFETY: our child.
    unsafe { libc::kill(child, libc::SIGCONT) };
    let burnt = waiter.join().unwrap();
    assert!(burnt < Duration::from_millis(20), "the waiter burnt {burnt:?}");
    // SAFETY: as above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
}
