//! The tables of functions of which a process uses one: see [`choice`](crate::choice).

use libc::c_int;
use overlock::{Hybrid, Queued, TestAndSet, Ticket};

use crate::choice::{self, LOCKS};
use crate::counters::Preload;
use crate::libcs;
use crate::mutex::Mutex;
use crate::operations::Operations;
use crate::platform::Process;
use crate::word::Algorithm;

/// The tables: of an undecided process, of all [`LOCKS`] in their order, and of all of them in a
/// forked child.
pub(crate) static TABLES: [Operations; 1 + 2 * LOCKS.len()] = [
    UNDECIDED,
    Hybrid::<Process, Preload>::OPERATIONS,
    Ticket::<Process, Preload>::OPERATIONS,
    Queued::<Process, Preload>::OPERATIONS,
    TestAndSet::<Process, Preload>::OPERATIONS,
    libcs::OPERATIONS,
    Hybrid::<Process, Preload>::IN_CHILD,
    Ticket::<Process, Preload>::IN_CHILD,
    Queued::<Process, Preload>::IN_CHILD,
    TestAndSet::<Process, Preload>::IN_CHILD,
    libcs::OPERATIONS,
];

#[inline(always)]
pub(crate) fn operations() -> &'static Operations {
    let first = (&raw const TABLES).cast::<Operations>();
    // SAFETY: the distance is that of one of the tables, which live for ever.
    unsafe { &*first.byte_add(choice::table()) }
}

fn decided() -> &'static Operations {
    if choice::decide() { operations() } else { &EARLY }
}

/// The table before the decision: each function decides and starts again.
const UNDECIDED: Operations = {
    extern "C-unwind" fn lock(mutex: &Mutex) -> c_int {
        (decided().lock)(mutex)
    }
    extern "C" fn try_lock(mutex: &Mutex) -> c_int {
        (decided().try_lock)(mutex)
    }
    extern "C-unwind" fn lock_until(mutex: &Mutex, deadline_ns: u64) -> c_int {
        (decided().lock_until)(mutex, deadline_ns)
    }
    unsafe extern "C" fn unlock(mutex: &Mutex) -> c_int {
        // SAFETY: the caller's.
        unsafe { (decided().unlock)(mutex) }
    }
    Operations { lock, try_lock, lock_until, unlock }
};

/// The table for calls that the decision itself leads to, because a library stands in for a
/// function of libc's that reads the environment, say, and takes a mutex. It does nothing: a
/// process decides before it has a second thread.
const EARLY: Operations = {
    extern "C-unwind" fn lock(_: &Mutex) -> c_int {
        0
    }
    extern "C" fn try_lock(_: &Mutex) -> c_int {
        0
    }
    extern "C-unwind" fn lock_until(_: &Mutex, _deadline_ns: u64) -> c_int {
        0
    }
    unsafe extern "C" fn unlock(_: &Mutex) -> c_int {
        0
    }
    Operations { lock, try_lock, lock_until, unlock }
};
