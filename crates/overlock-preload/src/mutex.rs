//! `pthread_mutex_t`: what we keep in it. (What the calls do with it is in `mutex/calls.rs`.)
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
//! | 20 | `__spins` | whose threads wait for it (`stamp.rs`) |
//! | 24 | `__list` | recursive, error-checking: the identity of the owning thread, or 0 |
//! | 32 | `__list` | the waiters outside the lock's queue (`gate.rs`) |
//! | 36 | `__list` | with the ticket lock: the last ticket that was served (`word.rs`) |
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
//! * I5: a mutex that no thread holds or waits for has the bytes of a new one, except where a
//!   ticket lock counts. Programs compare them.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::stamp::Stamp;
use crate::thread;

pub(crate) mod calls;

/// The bits of `kind` that do not belong to the type: lock elision is on (256) or off (512).
/// `PTHREAD_MUTEX_NORMAL` set explicitly comes with the latter.
pub(crate) const ELISION: u32 = 0x300;

#[cfg(target_arch = "x86_64")]
pub(crate) const KIND: usize = core::mem::offset_of!(Mutex, kind);

/// A `pthread_mutex_t`.
#[repr(C)]
pub(crate) struct Mutex {
    pub(crate) word: AtomicU32,
    depth: AtomicU32,
    /// The holder's thread, and in the upper half the number of holders.
    holder: AtomicU64,
    kind: AtomicU32,
    /// Whose threads may wait for it.
    pub(crate) stamp: Stamp<AtomicU32>,
    owner: AtomicU64,
    /// The waiters outside the lock's queue: see [`gate`](crate::gate).
    pub(crate) gate: AtomicU32,
    /// With the ticket lock: see [`word`](crate::word).
    pub(crate) ticket: AtomicU32,
}

/// In `holder`: one thread holds the mutex.
const ONE_USER: u64 = 1 << 32;

const _: () = assert!(size_of::<Mutex>() <= size_of::<libc::pthread_mutex_t>());
const _: () = assert!(align_of::<Mutex>() <= align_of::<libc::pthread_mutex_t>());
const _: () = assert!(core::mem::offset_of!(Mutex, holder) == 8);
const _: () = assert!(core::mem::offset_of!(Mutex, kind) == 16);
// The lower half of `holder` is `__owner`.
const _: () = assert!(cfg!(target_endian = "little"));

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

    #[inline(always)]
    pub(crate) fn is_held(&self) -> bool {
        self.holder.load(Relaxed) != 0
    }
}
