//! `pthread_rwlock_t`: the library's read-write lock, in the place of libc's.
//!
//! # State
//!
//! | byte | glibc | here |
//! |---|---|---|
//! | 0 | `__readers` | the lock |
//! | 20 | `__pad4` | whose threads wait for it (`stamp.rs`) |
//! | 24 | `__cur_writer` | the same: the kernel's number of the thread that writes, or 0 |
//! | 28 | `__shared` | the same: processes share it |
//! | 48 | `__flags` | the same: its kind |
//!
//! Every initialiser writes the kind and zeros, which is our initial state too, so initialisation
//! stays libc's; so does destruction, which does nothing. What processes share is libc's in all
//! calls, untouched, and everything is under `none`.
//!
//! # Who goes first
//!
//! As under glibc, the kind decides. The default kind prefers readers: they pass writers that wait,
//! and only readers that never leave the lock free starve a writer. Of the kind that prefers
//! writers, `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`, a reader waits behind a writer that
//! waits; where both wait for a writer to leave, readers and writers take turns.
//!
//! # After a fork
//!
//! The first thread of a child that has to wait removes the waiters of an ancestor. Until then they
//! do no harm: a newcomer takes what is free, and a release kicks a thread that does not exist.
//! What other threads of the parent held stays locked in the child.
//!
//! # Limits
//!
//! * A lock that is read 2^28 - 3 times is read no more: `EAGAIN`, as in glibc soon after.
//! * POSIX gives a signal handler no right to leave a wait. If one jumps out of it, readers that
//!   wait behind the writer that it was may wait for some milliseconds more.
//! * No call is a cancellation point, as in glibc.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use libc::{
    EAGAIN, EBUSY, EDEADLK, EINVAL, ETIMEDOUT, c_int, clockid_t, pthread_rwlock_t, timespec,
};
use overlock::platform::{Platform as _, maps};
use overlock::{RawLock, RawRwLock, RawTimedLock};

use crate::clock::{self, Deadline, Poll};
use crate::counters::{self, Event, Preload};
use crate::platform::Process;
use crate::stamp::{Stamp, Stamped};
use crate::{choice, real, thread};

/// A `pthread_rwlock_t`.
#[repr(C)]
struct RwLock {
    lock: RawRwLock<Process, Preload>,
    unused: [u32; 4],
    stamp: Stamp<AtomicU32>,
    writer: AtomicU32,
    shared: AtomicU32,
    unused_too: [u32; 4],
    kind: AtomicU32,
}

const _: () = assert!(size_of::<RwLock>() <= size_of::<pthread_rwlock_t>());
const _: () = assert!(align_of::<RwLock>() <= align_of::<pthread_rwlock_t>());
const _: () = assert!(core::mem::offset_of!(RwLock, stamp) == 20);
const _: () = assert!(core::mem::offset_of!(RwLock, kind) == 48);

/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
const NOT_RECURSIVE: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    /// To read, unless a writer holds the lock.
    Read,
    /// To read, unless a writer holds the lock or waits for it.
    ReadLast,
    Write,
}

impl RwLock {
    /// Views the lock behind a pointer that the program passed.
    ///
    /// # Safety
    /// `lock` points to an initialised lock that outlives the reference; after the release it is
    /// not used.
    #[inline(always)]
    unsafe fn new<'a>(lock: *mut pthread_rwlock_t) -> &'a Self {
        // SAFETY: the caller's; size and alignment are asserted above, and every bit pattern is
        // valid.
        unsafe { &*lock.cast::<Self>() }
    }

    fn is_libcs(&self) -> bool {
        self.shared.load(Relaxed) != 0 || choice::is_none()
    }

    fn is_mine(&self) -> bool {
        self.lock.is_locked() && self.writer.load(Relaxed) == thread::tid()
    }

    fn reads(&self) -> Want {
        if self.kind.load(Relaxed) == NOT_RECURSIVE { Want::ReadLast } else { Want::Read }
    }

    /// Records that the caller has taken the lock.
    #[inline(always)]
    fn taken(&self, want: Want) -> c_int {
        if want == Want::Write {
            self.writer.store(thread::tid(), Relaxed);
        }
        0
    }

    #[inline(always)]
    fn try_take(&self, want: Want) -> bool {
        match want {
            Want::Read => self.lock.try_lock_shared_recursive(),
            Want::ReadLast => self.lock.try_lock_shared(),
            Want::Write => self.lock.try_lock(),
        }
    }

    /// The first attempt of a call that can wait: it passes no waiter whose turn it is.
    #[inline(always)]
    fn take_in_turn(&self, want: Want) -> bool {
        match want {
            Want::Read => self.lock.try_lock_shared_recursive(),
            Want::ReadLast => self.lock.try_lock_shared_in_turn(),
            Want::Write => self.lock.try_lock_in_turn(),
        }
    }

    /// What to report of an acquisition that has failed for this reason, or because the lock can't
    /// count more readers.
    #[cold]
    fn error(&self, want: Want, reason: c_int) -> c_int {
        if want != Want::Write && self.lock.is_full() { EAGAIN } else { reason }
    }

    /// Takes the lock, unless `CLOCK_MONOTONIC` reaches `deadline_ns` first.
    #[cold]
    #[inline(never)]
    fn wait(&self, want: Want, deadline_ns: Option<u64>) -> c_int {
        let me = choice::stamp();
        if !self.stamp.enter(me, self) {
            return self.poll(want, deadline_ns);
        }
        let at = deadline_ns.unwrap_or(u64::MAX);
        let taken = match want {
            Want::Read => self.lock.try_lock_shared_recursive_until(at),
            Want::ReadLast => self.lock.try_lock_shared_until(at),
            Want::Write => self.lock.try_lock_until(at),
        };
        if me == choice::stamp() {
            self.stamp.leave(me);
        }
        if taken { 0 } else { self.error(want, ETIMEDOUT) }
    }

    /// Takes the lock without halting on its word, where no thread of another process is kicked.
    fn poll(&self, want: Want, deadline_ns: Option<u64>) -> c_int {
        let mut poll = Poll::new();
        while !self.try_take(want) {
            let is_late = deadline_ns.is_some_and(|at| Process::now_ns() >= at);
            let error = self.error(want, if is_late { ETIMEDOUT } else { 0 });
            if error != 0 {
                return error;
            }
            poll.sleep();
        }
        0
    }

    /// Takes the lock, after an attempt has failed.
    #[cold]
    #[inline(never)]
    fn lock_slow(&self, want: Want, deadline: Option<&Deadline>) -> c_int {
        choice::ensure_decided();
        counters::add(Event::RwlockWait);
        if self.is_mine() {
            return EDEADLK;
        }
        let error = match deadline {
            None => self.wait(want, None),
            Some(deadline) => deadline.attempt(|at_ns| self.wait(want, Some(at_ns))),
        };
        if error == 0 { self.taken(want) } else { error }
    }

    #[inline(always)]
    fn lock(&self, want: Want, deadline: Option<&Deadline>) -> c_int {
        if self.take_in_turn(want) { self.taken(want) } else { self.lock_slow(want, deadline) }
    }

    fn lock_until(&self, want: Want, clock: clockid_t, at: &timespec) -> c_int {
        if !clock::is_supported(clock) {
            return EINVAL;
        }
        match Deadline::new(clock, at) {
            Ok(deadline) => self.lock(want, Some(&deadline)),
            Err(error) => error,
        }
    }

    fn try_lock(&self, want: Want) -> c_int {
        if self.try_take(want) { self.taken(want) } else { self.error(want, EBUSY) }
    }

    #[inline(always)]
    fn unlock(&self) -> c_int {
        if self.lock.is_locked() {
            self.writer.store(0, Relaxed);
            // SAFETY: a writer has it, and the program asserts that it is the caller: POSIX allows
            // to trust that.
            unsafe { self.lock.unlock() };
        } else if self.lock.is_locked_at_all() {
            // SAFETY: likewise of a reader.
            unsafe { self.lock.unlock_shared() };
        }
        0
    }
}

impl Stamped for RwLock {
    fn is_private(&self) -> bool {
        maps::is_private((&raw const *self).addr())
    }

    fn clean(&self) {
        self.lock.without_waiters();
    }

    fn pause(&self) {
        Poll::new().sleep();
    }
}

/// Takes a lock, until a clock reaches a time if there is one; or lets libc's functions do that:
/// the one that does not wait finds out whether the other would, so that its wait is counted.
///
/// # Safety
/// As for libc's functions.
#[inline(always)]
unsafe fn take(
    lock: *mut pthread_rwlock_t,
    want: fn(&RwLock) -> Want,
    until: Option<(clockid_t, &timespec)>,
    libcs_try: unsafe fn(*mut pthread_rwlock_t) -> c_int,
    libcs_wait: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's.
    let it = unsafe { RwLock::new(lock) };
    match until {
        _ if it.is_libcs() => {}
        None => return it.lock(want(it), None),
        Some((clock, at)) => return it.lock_until(want(it), clock, at),
    }
    // libc looks at the time before it takes even a free lock.
    let is_possible = |(clock, at)| clock::is_supported(clock) && clock::is_valid(at);
    if until.is_none_or(is_possible) {
        // SAFETY: the caller's.
        let error = unsafe { libcs_try(lock) };
        if error != EBUSY {
            return error;
        }
        choice::ensure_decided();
        let is_shared = it.shared.load(Relaxed) != 0;
        counters::add(if is_shared { Event::RwlockHandedToLibc } else { Event::RwlockWait });
    }
    libcs_wait()
}

/// Defines the calls of readers or of writers.
macro_rules! calls {
    ($want:expr, $lock:ident, $try:ident, $timed:ident, $clocked:ident,
     $real:ident, $real_try:ident, $real_timed:ident, $real_clocked:ident) => {
        /// The call that waits.
        ///
        /// # Safety
        /// As for libc's function.
        pub(crate) unsafe extern "C-unwind" fn $lock(lock: *mut pthread_rwlock_t) -> c_int {
            // SAFETY: the caller's.
            unsafe { take(lock, $want, None, real::$real_try, || real::$real(lock)) }
        }

        /// The call that does not.
        ///
        /// # Safety
        /// As for libc's function.
        pub(crate) unsafe extern "C-unwind" fn $try(lock: *mut pthread_rwlock_t) -> c_int {
            // SAFETY: the caller's.
            let it = unsafe { RwLock::new(lock) };
            if it.is_libcs() {
                // SAFETY: the caller's.
                return unsafe { real::$real_try(lock) };
            }
            it.try_lock($want(it))
        }

        /// The call that waits until a time on the wall clock.
        ///
        /// # Safety
        /// As for libc's function.
        pub(crate) unsafe extern "C-unwind" fn $timed(
            lock: *mut pthread_rwlock_t,
            at: *const timespec,
        ) -> c_int {
            // SAFETY: the caller's.
            unsafe {
                let until = Some((libc::CLOCK_REALTIME, &*at));
                take(lock, $want, until, real::$real_try, || real::$real_timed(lock, at))
            }
        }

        /// The call that waits until a time on the given clock.
        ///
        /// # Safety
        /// As for libc's function.
        pub(crate) unsafe extern "C-unwind" fn $clocked(
            lock: *mut pthread_rwlock_t,
            clock: clockid_t,
            at: *const timespec,
        ) -> c_int {
            // SAFETY: the caller's.
            unsafe {
                let wait = || real::$real_clocked(lock, clock, at);
                take(lock, $want, Some((clock, &*at)), real::$real_try, wait)
            }
        }
    };
}

calls!(
    RwLock::reads,
    rdlock,
    tryrdlock,
    timedrdlock,
    clockrdlock,
    rwlock_rdlock,
    rwlock_tryrdlock,
    rwlock_timedrdlock,
    rwlock_clockrdlock
);
calls!(
    |_| Want::Write,
    wrlock,
    trywrlock,
    timedwrlock,
    clockwrlock,
    rwlock_wrlock,
    rwlock_trywrlock,
    rwlock_timedwrlock,
    rwlock_clockwrlock
);

/// `pthread_rwlock_unlock`.
///
/// # Safety
/// As for libc's function.
pub(crate) unsafe extern "C-unwind" fn unlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's.
    let it = unsafe { RwLock::new(lock) };
    if it.is_libcs() {
        // SAFETY: the caller's.
        return unsafe { real::rwlock_unlock(lock) };
    }
    it.unlock()
}
