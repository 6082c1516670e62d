// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lock this process uses, and whether it is a forked child.
//!
//! Both are one pointer to a table of functions, because every lock and unlock goes through it:
//!
//! ```text
//!   UNDECIDED ──first lock operation,──▶ hybrid │ ticket │ queued │ test-and-set
//!               or the constructor          │ fork, in the child
//!                                           ▼
//!                                 the same lock's table for children
//! ```
//!
//! The decision is lazy: constructors of other libraries and memory allocators may lock before our
//! own constructor runs. It is made once, before the first lock is taken, because two algorithms
//! must never share a lock word.

use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

use libc::c_int;

use crate::mutex::Mutex;
use crate::{message, word};

/// What can be done to the lock word of a mutex. The functions return 0 or an error number and,
/// being C functions, do not unwind: so an exported function ends in a jump to one of these.
pub(crate) struct Operations {
    /// The name of the lock, as in `OVERLOCK_LOCK`.
    pub(crate) name: &'static str,
    /// Takes the lock.
    pub(crate) lock: extern "C" fn(&Mutex) -> c_int,
    /// Takes the lock if it is free, or returns `EBUSY`.
    pub(crate) try_lock: extern "C" fn(&Mutex) -> c_int,
    /// Takes the lock, or returns `ETIMEDOUT` once `CLOCK_MONOTONIC` has reached so many
    /// nanoseconds.
    pub(crate) lock_until: extern "C" fn(&Mutex, u64) -> c_int,
    /// Releases the lock. The caller holds it, or is entitled to release it for whoever does.
    pub(crate) unlock: unsafe extern "C" fn(&Mutex) -> c_int,
    /// What takes the place of this table in a forked child, if it is not the child's already.
    pub(crate) in_child: Option<&'static Operations>,
}

/// The table until the decision: each function decides and starts again.
static UNDECIDED: Operations = {
    extern "C" fn lock(mutex: &Mutex) -> c_int {
        (decide().lock)(mutex)
    }
    extern "C" fn try_lock(mutex: &Mutex) -> c_int {
        (decide().try_lock)(mutex)
    }
    extern "C" fn lock_until(mutex: &Mutex, deadline_ns: u64) -> c_int {
        (decide().lock_until)(mutex, deadline_ns)
    }
    unsafe extern "C" fn unlock(mutex: &Mutex) -> c_int {
        // SAFETY: the caller's.
        unsafe { (decide().unlock)(mutex) }
    }
    Operations { name: "undecided", lock, try_lock, lock_until, unlock, in_child: None }
};

static CURRENT: AtomicPtr<Operations> = AtomicPtr::new((&raw const UNDECIDED).cast_mut());

/// How many forks lie between the process that was executed and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The table of this process.
#[inline(always)]
pub(crate) fn operations() -> &'static Operations {
    // Relaxed: the tables are constants.
    // SAFETY: the pointer is only ever set to one of the tables, which live for ever.
    unsafe { &*CURRENT.load(Relaxed) }
}

/// The number of forks behind this process; a mutex stamped with it has no traces of vanished
/// threads.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// Decides now, unless that was done before.
pub(crate) fn settle() {
    if core::ptr::eq(operations(), &UNDECIDED) {
        decide();
    }
}

/// Reads `OVERLOCK_LOCK` and decides.
///
/// A name that is no lock ends the process with status 2. At this point the program has not run a
/// line of its own `main`, so nothing is lost; going on with some default would let a typing error
/// pass for a measurement.
#[cold]
fn decide() -> &'static Operations {
    // SAFETY: the name is a C string. Threads that call `setenv` at this moment would race, but the
    // first lock is taken by a constructor, before the program can have started a thread.
    let value = unsafe { libc::getenv(c"OVERLOCK_LOCK".as_ptr()) };
    let name = if value.is_null() {
        b""
    } else {
        // SAFETY: `getenv` returned a C string.
        unsafe { CStr::from_ptr(value) }.to_bytes()
    };
    let chosen = match name {
        b"" => word::TABLES[0],
        name => match word::TABLES.iter().find(|table| table.name.as_bytes() == name) {
            Some(table) => table,
            None => refuse(name),
        },
    };
    // Relaxed: whoever decides at the same time reads the same environment and stores the same
    // pointer.
    CURRENT.store(core::ptr::from_ref(chosen).cast_mut(), Relaxed);
    chosen
}

fn refuse(name: &[u8]) -> ! {
    message::write(&[
        b"overlock: OVERLOCK_LOCK=",
        name,
        b" is no lock; choose hybrid, ticket, queued or test-and-set\n",
    ]);
    // SAFETY: ends the process at once, without running code of the program.
    unsafe { libc::_exit(2) }
}

/// Marks this process as a forked child. For the fork handler, in the child's only thread.
pub(crate) fn after_fork() {
    GENERATION.store(generation().wrapping_add(1), Relaxed);
    if let Some(table) = operations().in_child {
        CURRENT.store(core::ptr::from_ref(table).cast_mut(), Relaxed);
    }
}
