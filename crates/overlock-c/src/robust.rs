//! `ol_robust_t`: a mutex in memory that processes share, which outlives its holder.
//!
//! Only the kernel sees every end of a thread. It then looks through the list of what the thread
//! holds, of which there is one a thread, and it is libc's. So the state is libc's robust mutex,
//! and the wait is Overlock's: a waiter first spins, as for [`SharedLock`](crate::SharedLock),
//! where libc's goes to sleep at once.
//!
//! # State
//!
//! | `state` | what the mutex protects | the next thread that takes it |
//! |---|---|---|
//! | `SOUND` | is in order | gets 0 |
//! | `BROKEN` | was left by a holder that has died | gets `EOWNERDEAD` |
//! | `GIVEN_UP` | was released like that | releases it again, and gets `ENOTRECOVERABLE` |
//!
//! Only the holder reads and writes it. libc has such states too, but they can't be used: in glibc
//! (2.36) a waiter that finds a mutex given up wakes no other, and a `pthread_mutex_trylock` of one
//! never releases it. So libc is told at once that all is well, after the state is set: a thread
//! that dies before that leaves libc's own mark for the next one.
//!
//! # No wait without end
//!
//! A release wakes one waiter. If that one is killed before it has the mutex, and another thread
//! takes it meanwhile, without libc's mark of waiters, then no release wakes the next. So a waiter
//! looks again after [`SLICE_NS`].
//!
//! # What the kernel compares
//!
//! A thread names the mutex to the kernel before it takes or releases it, and takes that back
//! afterwards. If it is killed in between, the kernel compares the mutex's word with the thread's
//! number, in the thread's own PID namespace, and marks the mutex as a dead holder's if they are
//! the same. So a holder of the same number in another namespace would lose the mutex, and memory
//! that has another use by then can be changed.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libc::{EBUSY, EINVAL, ENOTRECOVERABLE, EOWNERDEAD, ETIMEDOUT, pthread_mutex_t, timespec};
use overlock::counters::{Class, Event};
use overlock::platform::{Platform, Threads};

use crate::counters::CLocks;
use crate::deadline;

/// `ol_robust_t`: libc's mutex, in the same room on all machines, and the state.
#[derive(Debug)]
#[repr(C)]
pub struct Robust {
    mutex: [u64; 6],
    /// Relaxed everywhere: the mutex orders its holders.
    state: AtomicU64,
}

const _: () = assert!(size_of::<Robust>() == 56);
const _: () = assert!(48 >= size_of::<pthread_mutex_t>());
const _: () = assert!(align_of::<Robust>() >= align_of::<pthread_mutex_t>());

const SOUND: u64 = 0;
const BROKEN: u64 = 1;
const GIVEN_UP: u64 = 2;

/// How long a waiter spins before it sleeps, in nanoseconds: as for a test-and-set lock, less than
/// a sleep and a wake-up cost.
const SPIN_NS: u64 = 2_000;

/// The most pauses between two tries, each of which takes the cache line from the holder.
const BACKOFF_MAX: u32 = 32;

/// The longest sleep before a waiter looks again, in nanoseconds: a wake-up that is lost where a
/// process dies costs this much.
const SLICE_NS: u64 = 250_000_000;

const NS_PER_S: u64 = 1_000_000_000;

/// `PTHREAD_MUTEX_ROBUST`, as Linux's C libraries define it.
const ROBUST: c_int = 1;

// Not in the crate libc; glibc has it since 2.30.
unsafe extern "C" {
    fn pthread_mutex_clocklock(
        mutex: *mut pthread_mutex_t,
        clock: libc::clockid_t,
        at: *const timespec,
    ) -> c_int;
}

/// Makes a robust mutex: `ol_robust_init`. Returns 0, or libc's error number.
///
/// # Safety
/// `lock` is valid to write to, and no thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_init(lock: *mut Robust) -> c_int {
    let mut attributes = MaybeUninit::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: writable memory.
    let mut error = unsafe { libc::pthread_mutexattr_init(attributes) };
    if error == 0 {
        // SAFETY: initialised above.
        error =
            unsafe { libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED) };
    }
    if error == 0 {
        // SAFETY: initialised above.
        error = unsafe { libc::pthread_mutexattr_setrobust(attributes, ROBUST) };
    }
    if error == 0 {
        // SAFETY: the caller's promise; there is room for it, as asserted above.
        error = unsafe { libc::pthread_mutex_init(lock.cast(), attributes) };
        // SAFETY: the caller's promise.
        unsafe { (&raw mut (*lock).state).write(AtomicU64::new(SOUND)) };
    }
    error
}

/// Takes note of what libc says after an attempt, and returns what the caller is told.
///
/// # Safety
/// As for [`ol_robust_trylock`], and that was the caller's last attempt.
unsafe fn taken(lock: *mut Robust, said: c_int) -> c_int {
    if said != 0 && said != EOWNERDEAD {
        return said;
    }
    // SAFETY: the caller has the mutex, so it is there.
    let state = unsafe { &(*lock).state };
    if said == EOWNERDEAD {
        if state.load(Relaxed) == SOUND {
            state.store(BROKEN, Relaxed);
        }
        // SAFETY: the caller has the mutex, and its last holder has died.
        unsafe { libc::pthread_mutex_consistent(lock.cast()) };
    }
    match state.load(Relaxed) {
        SOUND => 0,
        BROKEN => EOWNERDEAD,
        _ => {
            // SAFETY: the caller has the mutex.
            unsafe { libc::pthread_mutex_unlock(lock.cast()) };
            ENOTRECOVERABLE
        }
    }
}

/// Takes the mutex without waiting, or returns `EBUSY` or what the others return.
///
/// # Safety
/// `lock` points to a mutex that [`ol_robust_init`] has made, and only these functions write to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_trylock(lock: *mut Robust) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { taken(lock, libc::pthread_mutex_trylock(lock.cast())) }
}

/// Waits for the mutex until the kernel's clock reads `deadline_ns`, if there is such a time.
///
/// # Safety
/// As for [`ol_robust_trylock`].
unsafe fn take(lock: *mut Robust, deadline_ns: Option<u64>) -> c_int {
    CLocks::count(Event::LockSlowpath);
    let until_ns = Threads::now_ns() + SPIN_NS;
    let mut pauses = 1;
    while Threads::now_ns() < until_ns {
        (0..pauses).for_each(|_| Threads::relax());
        pauses = (pauses * 2).min(BACKOFF_MAX);
        // SAFETY: the caller's promise.
        let error = unsafe { ol_robust_trylock(lock) };
        if error != EBUSY {
            return error;
        }
    }
    CLocks::count(Event::PvWaitNode);
    let deadline_ns = deadline_ns.unwrap_or(u64::MAX);
    loop {
        let at_ns = (Threads::now_ns() + SLICE_NS).min(deadline_ns);
        // SAFETY: zeros are a time. (A literal can't have the padding of some machines.)
        let mut at: timespec = unsafe { core::mem::zeroed() };
        (at.tv_sec, at.tv_nsec) = ((at_ns / NS_PER_S) as _, (at_ns % NS_PER_S) as _);
        // SAFETY: the caller's promise, and a time that exists.
        let error =
            unsafe { pthread_mutex_clocklock(lock.cast(), libc::CLOCK_MONOTONIC, &raw const at) };
        if error != ETIMEDOUT {
            // SAFETY: the caller's promise.
            return unsafe { taken(lock, error) };
        }
        if at_ns == deadline_ns {
            // After a timeout, glibc leaves the mutex where the kernel looks when the thread ends,
            // and its memory may have another use by then. A last try removes it from there.
            // SAFETY: the caller's promise.
            return match unsafe { ol_robust_trylock(lock) } {
                EBUSY => ETIMEDOUT,
                result => result,
            };
        }
    }
}

/// Waits for the mutex and takes it. Returns 0, `EOWNERDEAD` or `ENOTRECOVERABLE`.
///
/// # Safety
/// As for [`ol_robust_trylock`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_lock(lock: *mut Robust) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { ol_robust_trylock(lock) } {
        // SAFETY: the caller's promise.
        EBUSY => unsafe { take(lock, None) },
        result => result,
    }
}

/// Waits for the mutex until `CLOCK_MONOTONIC` reads `s` seconds and `ns` nanoseconds. Returns what
/// [`ol_robust_lock`] does, `ETIMEDOUT`, or `EINVAL` if that is not a valid time.
///
/// # Safety
/// As for [`ol_robust_trylock`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_take_until(lock: *mut Robust, s: i64, ns: i64) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { ol_robust_trylock(lock) } {
        EBUSY => match deadline::on_kernels_clock(s, ns) {
            // SAFETY: the caller's promise.
            Ok(at_ns) => unsafe { take(lock, Some(at_ns)) },
            Err(error) => error,
        },
        result => result,
    }
}

/// Says that what the mutex protects is in order again. Returns 0, or `EINVAL` if it was not
/// broken.
///
/// # Safety
/// As for [`ol_robust_trylock`], and the caller has the mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_consistent(lock: *mut Robust) -> c_int {
    // SAFETY: the caller's promise.
    let state = unsafe { &(*lock).state };
    let was_broken = state.load(Relaxed) == BROKEN;
    if was_broken {
        state.store(SOUND, Relaxed);
    }
    if was_broken { 0 } else { EINVAL }
}

/// Releases the mutex, which the caller has.
///
/// # Safety
/// As for [`ol_robust_consistent`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_robust_unlock(lock: *mut Robust) {
    // SAFETY: the caller's promise.
    let state = unsafe { &(*lock).state };
    if state.load(Relaxed) == BROKEN {
        state.store(GIVEN_UP, Relaxed);
    }
    // SAFETY: the caller has the mutex.
    unsafe { libc::pthread_mutex_unlock(lock.cast()) };
}
