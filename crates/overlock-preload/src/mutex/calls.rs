//! `pthread_mutex_*`: the kind of a mutex, its owner, and the consequences that POSIX draws.

use core::sync::atomic::Ordering::Relaxed;

use libc::{EAGAIN, EBUSY, EDEADLK, EINVAL, EPERM, c_int, clockid_t, timespec};
use overlock::platform::maps;

use super::{ELISION, Mutex};
use crate::clock::{self, Deadline};
use crate::counters::{self, Event};
use crate::identity::{identity, is_ancestors};
use crate::tables::operations;
use crate::{choice, real};

/// What a mutex does when its owner locks it again, or another thread unlocks it.
enum Kind {
    /// `PTHREAD_MUTEX_NORMAL`, `PTHREAD_MUTEX_DEFAULT` and `PTHREAD_MUTEX_ADAPTIVE_NP`: it does not
    /// know its owner.
    Normal,
    Recursive,
    ErrorCheck,
    /// Robust, priority-inheriting or -protecting, process-shared, or destroyed: libc's. All
    /// mutexes are libc's under `OVERLOCK_LOCK=none`.
    Libc,
}

impl Mutex {
    /// Returns whether this is a normal mutex: the one comparison before the fast path.
    #[inline(always)]
    fn is_normal(&self) -> bool {
        self.kind.load(Relaxed) & !ELISION == 0
    }

    fn kind(&self) -> Kind {
        match self.kind.load(Relaxed) & !ELISION {
            _ if choice::is_none() => Kind::Libc,
            0 | 3 => Kind::Normal,
            1 => Kind::Recursive,
            2 => Kind::ErrorCheck,
            _ => Kind::Libc,
        }
    }

    /// Returns whether this mutex is handed to libc.
    pub(crate) fn is_libcs(&self) -> bool {
        matches!(self.kind(), Kind::Libc)
    }

    /// Returns whether the caller holds this mutex, as far as its type can tell.
    pub(crate) fn may_be_mine(&self) -> bool {
        matches!(self.kind(), Kind::Normal | Kind::Libc) || self.is_mine()
    }

    fn is_mine(&self) -> bool {
        let owner = self.owner.load(Relaxed);
        owner == identity() || owner != 0 && is_ancestors(owner) && self.inherit()
    }

    /// Makes the calling thread the owner of what it has locked before a fork, unless other
    /// processes see this memory.
    #[cold]
    fn inherit(&self) -> bool {
        let is_private = maps::is_private((&raw const *self).addr());
        if is_private {
            self.owner.store(identity(), Relaxed);
        }
        is_private
    }

    /// Records the caller, which has just taken the lock word, as the owner.
    fn own(&self, kind: &Kind) {
        self.owner.store(identity(), Relaxed);
        if matches!(kind, Kind::Recursive) {
            self.depth.store(1, Relaxed);
        }
    }

    /// Locks a recursive mutex once more, for its owner.
    fn deepen(&self) -> c_int {
        match self.depth.load(Relaxed).checked_add(1) {
            Some(depth) => {
                self.depth.store(depth, Relaxed);
                0
            }
            None => EAGAIN,
        }
    }

    /// Locks a mutex that knows its owner; takes the word with `take` unless the caller already
    /// owns it.
    fn lock_owned(&self, kind: &Kind, again: c_int, take: impl FnOnce() -> c_int) -> c_int {
        if self.is_mine() {
            return if matches!(kind, Kind::Recursive) { self.deepen() } else { again };
        }
        let error = take();
        if error == 0 {
            self.own(kind);
        }
        error
    }
}

#[inline(always)]
pub(crate) fn lock(mutex: &Mutex) -> c_int {
    if mutex.is_normal() { (operations().lock)(mutex) } else { lock_by_kind(mutex) }
}

/// `pthread_mutex_trylock`.
#[inline(always)]
pub(crate) fn try_lock(mutex: &Mutex) -> c_int {
    if mutex.is_normal() { (operations().try_lock)(mutex) } else { try_lock_by_kind(mutex) }
}

#[inline(always)]
pub(crate) fn unlock(mutex: &Mutex) -> c_int {
    if mutex.is_normal() { release(mutex) } else { unlock_by_kind(mutex) }
}

#[inline(never)]
pub(crate) extern "C-unwind" fn lock_by_kind(mutex: &Mutex) -> c_int {
    let take = || (operations().lock)(mutex);
    match mutex.kind() {
        Kind::Normal => take(),
        Kind::Libc => {
            counters::add(Event::MutexHandedToLibc);
            if choice::is_none() && mutex.kind.load(Relaxed) & !ELISION <= 3 {
                // Any other lock would have taken this mutex over, so its waits count.
                return take();
            }
            // SAFETY: the program's own call, passed on.
            unsafe { real::mutex_lock(mutex.as_ptr()) }
        }
        kind => mutex.lock_owned(&kind, EDEADLK, take),
    }
}

#[inline(never)]
pub(crate) extern "C" fn try_lock_by_kind(mutex: &Mutex) -> c_int {
    let take = || (operations().try_lock)(mutex);
    match mutex.kind() {
        Kind::Normal => take(),
        Kind::Libc => {
            counters::add(Event::MutexHandedToLibc);
            // SAFETY: the program's own call, passed on.
            unsafe { real::mutex_trylock(mutex.as_ptr()) }
        }
        kind => mutex.lock_owned(&kind, EBUSY, take),
    }
}

#[inline(never)]
pub(crate) extern "C" fn unlock_by_kind(mutex: &Mutex) -> c_int {
    match mutex.kind() {
        Kind::Normal => {}
        // SAFETY: the program's own call, passed on.
        Kind::Libc => return unsafe { real::mutex_unlock(mutex.as_ptr()) },
        _ if !mutex.is_mine() => return EPERM,
        Kind::ErrorCheck => mutex.owner.store(0, Relaxed),
        Kind::Recursive => {
            let depth = mutex.depth.load(Relaxed) - 1;
            mutex.depth.store(depth, Relaxed);
            if depth > 0 {
                return 0;
            }
            mutex.owner.store(0, Relaxed);
        }
    }
    release(mutex)
}

/// Releases one of the program's mutexes. The caller is the owner, or claims to be in the case of a
/// normal mutex.
pub(crate) fn release(mutex: &Mutex) -> c_int {
    // SAFETY: the caller's.
    unsafe { (operations().unlock)(mutex) }
}

/// `pthread_mutex_clocklock`, and with `CLOCK_REALTIME` `pthread_mutex_timedlock`.
pub(crate) fn lock_until(mutex: &Mutex, clock: clockid_t, at: &timespec) -> c_int {
    if !clock::is_supported(clock) {
        return EINVAL;
    }
    let take = || {
        if (operations().try_lock)(mutex) == 0 {
            return 0;
        }
        counters::add(Event::MutexTimed);
        match Deadline::new(clock, at) {
            Ok(deadline) => deadline.attempt(|at_ns| (operations().lock_until)(mutex, at_ns)),
            Err(error) => error,
        }
    };
    match mutex.kind() {
        Kind::Normal => take(),
        Kind::Libc => {
            counters::add(Event::MutexHandedToLibc);
            if clock == libc::CLOCK_REALTIME {
                // SAFETY: the program's own call, passed on.
                unsafe { real::mutex_timedlock(mutex.as_ptr(), at) }
            } else {
                // SAFETY: the program's own call, passed on.
                unsafe { real::mutex_clocklock(mutex.as_ptr(), clock, at) }
            }
        }
        kind => mutex.lock_owned(&kind, EDEADLK, take),
    }
}

/// `pthread_mutex_destroy`: `EBUSY` if the mutex is locked. As with libc, a destroyed mutex has the
/// kind -1, which every call refuses with `EINVAL`.
pub(crate) fn destroy(mutex: &Mutex) -> c_int {
    if mutex.is_libcs() {
        // SAFETY: the program's own call, passed on.
        return unsafe { real::mutex_destroy(mutex.as_ptr()) };
    }
    let error = (operations().try_lock)(mutex);
    if error != 0 {
        return error;
    }
    mutex.kind.store(u32::MAX, Relaxed);
    // SAFETY: taken above.
    unsafe { (operations().unlock)(mutex) }
}
