// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pthread_mutex_t`: the kind of a mutex, its owner, and the consequences that POSIX draws.
//!
//! # State
//!
//! The state lives in the caller's own `pthread_mutex_t`, laid over the fields of glibc:
//!
//! | byte | glibc | here |
//! |---|---|---|
//! | 0 | `__lock` | the lock word |
//! | 4 | `__count` | the same. Recursive: how often its owner has locked it |
//! | 8 | `__owner` | the same: the kernel's number of the thread that holds it, or 0 |
//! | 12 | `__nusers` | the same: 1 if a thread holds it |
//! | 16 | `__kind` | the same: type in the low two bits, flags above |
//! | 20 | `__spins` | the process whose threads wait for it (`word.rs`) |
//! | 24 | `__list` | recursive, error-checking: the identity of the owning thread, or 0 |
//! | 32 | `__list` | the waiters outside the lock's queue (`gate.rs`) |
//! | 36 | `__list` | with the ticket lock: the ticket by which the mutex was last taken (`word.rs`) |
//!
//! Programs read `__owner` and `__count` (Chromium does, and gdb's scripts), so we keep them. Every
//! initialiser, static or `pthread_mutex_init`, writes the kind and zeros. That is our initial
//! state too, so initialisation stays libc's. Because the kind is where libc has it, a mutex that
//! is robust, protects or inherits priorities, or is shared between processes is recognised by its
//! own bytes and handed to libc in all calls, untouched.
//!
//! # Invariants
//!
//! * I1: `owner` is a thread's number only between that thread's acquisition and its release, and
//!   only that thread writes it then. So a thread that compares `owner` with itself gets an answer
//!   that no other thread can change.
//! * I2: `holder` (`__owner` and `__nusers` in one) is zero unless a thread has taken the word, and
//!   is zero again before the word is released. A normal mutex that is unlocked while `holder` is
//!   zero was not locked. Threads that unlock a mutex at the same moment can all find a holder; the
//!   release of the word (`word.rs`) then succeeds for one of them.
//! * I3: only the owner reads and writes `depth`.
//! * I4: after the release of the lock word, nothing of the mutex is accessed: it may no longer
//!   exist.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use overlock::platform::maps;

use libc::{EAGAIN, EBUSY, EDEADLK, EINVAL, EPERM, c_int, clockid_t, timespec};

use crate::choice::{self, operations};
use crate::clock::{self, Deadline};
use crate::counters::{self, Event};
use crate::{gate, real, thread};

/// The bits of `kind` that do not belong to the type: lock elision is on (256) or off (512).
/// `PTHREAD_MUTEX_NORMAL` set explicitly comes with the latter.
pub(crate) const ELISION: u32 = 0x300;

/// The byte of `kind`.
#[cfg(target_arch = "x86_64")]
pub(crate) const KIND: usize = core::mem::offset_of!(Mutex, kind);

/// A `pthread_mutex_t`.
#[repr(C)]
pub(crate) struct Mutex {
    /// The lock word.
    pub(crate) word: AtomicU32,
    depth: AtomicU32,
    /// The holder's thread, and in the upper half the number of holders.
    holder: AtomicU64,
    kind: AtomicU32,
    /// The process whose threads may wait for it: see [`word`](crate::word).
    pub(crate) stamp: AtomicU32,
    owner: AtomicU64,
    /// The waiters outside the lock's queue: see [`gate`].
    pub(crate) gate: AtomicU32,
    /// With the ticket lock: see [`word`](crate::word).
    pub(crate) ticket: AtomicU32,
}

/// In `kind`, ours: a thread has waited at the gate. (libc uses the bits up to 2⁹.)
const GATED: u32 = 1 << 30;

/// In `holder`: one thread holds the mutex.
const ONE_USER: u64 = 1 << 32;

const _: () = assert!(size_of::<Mutex>() <= size_of::<libc::pthread_mutex_t>());
const _: () = assert!(align_of::<Mutex>() <= align_of::<libc::pthread_mutex_t>());
const _: () = assert!(core::mem::offset_of!(Mutex, holder) == 8);
const _: () = assert!(core::mem::offset_of!(Mutex, kind) == 16);
// The lower half of `holder` is `__owner`.
const _: () = assert!(cfg!(target_endian = "little"));

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
    /// Views the mutex behind a pointer that the program passed.
    ///
    /// # Safety
    /// `mutex` points to an initialised mutex that outlives the reference; after the release it is
    /// not used (I4).
    #[inline(always)]
    pub(crate) unsafe fn new<'a>(mutex: *mut libc::pthread_mutex_t) -> &'a Self {
        // SAFETY: the caller's; size and alignment are asserted above, and every bit pattern is
        // valid.
        unsafe { &*mutex.cast::<Self>() }
    }

    /// Returns the pointer by which libc knows the mutex.
    pub(crate) fn as_ptr(&self) -> *mut libc::pthread_mutex_t {
        (&raw const *self).cast_mut().cast()
    }

    /// Returns whether this is a normal mutex: the one comparison before the fast path.
    #[inline(always)]
    fn is_normal(&self) -> bool {
        self.kind.load(Relaxed) & !ELISION == 0
    }

    fn kind(&self) -> Kind {
        match self.kind.load(Relaxed) & !(ELISION | GATED) {
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

    /// Returns whether the library's own locks could take this mutex over.
    fn is_replaceable(&self) -> bool {
        self.kind.load(Relaxed) & !(ELISION | GATED) <= 3
    }

    /// Returns whether the caller holds this mutex, as far as its type can tell.
    pub(crate) fn may_be_mine(&self) -> bool {
        matches!(self.kind(), Kind::Normal | Kind::Libc) || self.is_mine()
    }

    /// Records that a thread waits at the gate.
    pub(crate) fn gated(&self) {
        if self.kind.load(Relaxed) & GATED == 0 {
            self.kind.fetch_or(GATED, Relaxed);
        }
    }

    /// Records that the caller holds the mutex: it has just taken the word.
    #[inline(always)]
    pub(crate) fn hold(&self) {
        self.holder.store(ONE_USER | u64::from(thread::tid()), Relaxed);
    }

    /// Records that no thread holds the mutex, before the word is released. Returns false if none
    /// did.
    #[inline(always)]
    pub(crate) fn let_go(&self) -> bool {
        let was_held = self.is_held();
        if was_held {
            self.holder.store(0, Relaxed);
        }
        was_held
    }

    /// Returns whether a thread holds the mutex.
    #[inline(always)]
    pub(crate) fn is_held(&self) -> bool {
        self.holder.load(Relaxed) != 0
    }

    fn is_mine(&self) -> bool {
        let owner = self.owner.load(Relaxed);
        owner == thread::identity() || owner != 0 && thread::is_ancestors(owner) && self.inherit()
    }

    /// Makes the calling thread the owner of what it has locked before a fork, unless other
    /// processes see this memory.
    #[cold]
    fn inherit(&self) -> bool {
        let is_private = maps::is_private((&raw const *self).addr());
        if is_private {
            self.owner.store(thread::identity(), Relaxed);
        }
        is_private
    }

    /// Records the caller, which has just taken the lock word, as the owner.
    fn own(&self, kind: &Kind) {
        self.owner.store(thread::identity(), Relaxed);
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

/// `pthread_mutex_lock`.
#[inline(always)]
pub(crate) fn lock(mutex: &Mutex) -> c_int {
    if mutex.is_normal() { (operations().lock)(mutex) } else { lock_by_kind(mutex) }
}

/// `pthread_mutex_trylock`.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn try_lock(mutex: &Mutex) -> c_int {
    if mutex.is_normal() { (operations().try_lock)(mutex) } else { try_lock_by_kind(mutex) }
}

/// `pthread_mutex_unlock`.
#[inline(always)]
pub(crate) fn unlock(mutex: &Mutex) -> c_int {
    if mutex.is_normal() {
        // SAFETY: the program asserts that it holds the mutex; a normal mutex trusts it, as POSIX
        // allows.
        unsafe { (operations().unlock)(mutex) }
    } else {
        unlock_by_kind(mutex)
    }
}

#[inline(never)]
pub(crate) extern "C-unwind" fn lock_by_kind(mutex: &Mutex) -> c_int {
    let take = || (operations().lock)(mutex);
    match mutex.kind() {
        Kind::Normal => take(),
        Kind::Libc => {
            counters::add(Event::MutexHandedToLibc);
            if choice::is_none() && mutex.is_replaceable() {
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

/// Releases one of the program's mutexes, by the gate or by the lock. The caller is the owner, or
/// claims to be in the case of a normal mutex.
pub(crate) fn release(mutex: &Mutex) -> c_int {
    if mutex.gate.load(Relaxed) != 0 && mutex.let_go() {
        if gate::hand_over(mutex) {
            return 0;
        }
        // The waiters at the gate have gone.
        mutex.hold();
    }
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
