// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lock this process uses, and whether it is a forked child.
//!
//! Both are one byte, the *mode*, because every lock and unlock looks at it:
//!
//! ```text
//!   UNDECIDED ──first lock operation, or the constructor──▶ HYBRID │ TICKET │ QUEUED │ TEST_AND_SET
//!                                                                   │ fork, in the child
//!                                                                   ▼
//!                                                            the same │ FORKED
//! ```
//!
//! The decision is lazy: constructors of other libraries and memory allocators may lock before our own constructor runs.
//! It is made once, before the first lock is taken, because two algorithms must never share a lock word.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use crate::message;

/// Not yet decided.
const UNDECIDED: u8 = 0;
/// `overlock::Hybrid`.
pub(crate) const HYBRID: u8 = 1;
/// `overlock::Ticket`.
pub(crate) const TICKET: u8 = 2;
/// `overlock::Queued`.
pub(crate) const QUEUED: u8 = 3;
/// `overlock::TestAndSet`.
pub(crate) const TEST_AND_SET: u8 = 4;
/// Set in a forked child, whose memory may hold the traces of threads that it does not have; see `word.rs`.
pub(crate) const FORKED: u8 = 8;

/// The environment variable that chooses.
const VARIABLE: &CStr = c"OVERLOCK_LOCK";

static MODE: AtomicU8 = AtomicU8::new(UNDECIDED);

/// How many forks lie between the process that was executed and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The mode as it stands: perhaps undecided, perhaps [`FORKED`].
#[inline(always)]
pub(crate) fn mode() -> u8 {
    // Relaxed: the byte says all there is to know; nothing is read through it.
    MODE.load(Relaxed)
}

/// The lock of this process, decided now if it was not before.
#[inline]
pub(crate) fn decided() -> u8 {
    match mode() & !FORKED {
        UNDECIDED => decide(),
        lock => lock,
    }
}

/// The number of forks behind this process; a mutex stamped with it has no traces of vanished threads.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// The name of the lock, as the environment variable has it.
pub(crate) fn name(lock: u8) -> &'static str {
    match lock {
        TICKET => "ticket",
        QUEUED => "queued",
        TEST_AND_SET => "test-and-set",
        _ => "hybrid",
    }
}

/// Reads the environment and decides.
///
/// A name that is no lock ends the process with status 2. At this point the program has not run a line of its own `main`, so nothing is
/// lost; going on with some default would let a typing error pass for a measurement.
#[cold]
fn decide() -> u8 {
    // SAFETY: the name is a C string. Threads that call `setenv` at this moment would race, but the first lock is taken by a
    // constructor, before the program can have started a thread.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    let lock = if value.is_null() {
        HYBRID
    } else {
        // SAFETY: `getenv` returned a C string.
        match unsafe { CStr::from_ptr(value) }.to_bytes() {
            b"hybrid" | b"" => HYBRID,
            b"ticket" => TICKET,
            b"queued" => QUEUED,
            b"test-and-set" => TEST_AND_SET,
            unknown => {
                message::write(&[
                    b"overlock: OVERLOCK_LOCK=",
                    unknown,
                    b" is no lock; choose hybrid, ticket, queued or test-and-set\n",
                ]);
                // SAFETY: ends the process at once, without running code of the program.
                unsafe { libc::_exit(2) }
            }
        }
    };
    // Relaxed: whoever decides at the same time reads the same environment and stores the same byte.
    MODE.store(lock, Relaxed);
    lock
}

/// Marks this process as a forked child. For the fork handler, in the child's only thread.
pub(crate) fn after_fork() {
    GENERATION.store(GENERATION.load(Relaxed).wrapping_add(1), Relaxed);
    MODE.store(decided() | FORKED, Relaxed);
}
