// SPDX-License-Identifier: MIT OR Apache-2.0
//! The longest wait for a mutex in this process: what throughput does not show.
//!
//! A wait is timed from the moment at which its thread first gives the processor up until the
//! thread has the mutex. So a wait that only spins reads no clock, and what it spends before the
//! first halt is a few microseconds. Only `pthread_mutex_lock` counts: how long a call with a
//! deadline waits is the program's choice, and what a thread waits after a condition variable has
//! woken it can't be seen under libc, whose function does both.
//!
//! A signal handler that waits during a wait makes the interrupted one count from its next halt.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use overlock::platform::{Platform, Threads};

use crate::thread;

/// In nanoseconds.
static LONGEST: AtomicU64 = AtomicU64::new(0);

/// Begins a call that may wait: forgets the wait before, which a jump may have left unfinished.
#[inline]
pub(crate) fn enter() {
    thread::this().waits_since.set(0);
}

/// Records that the thread is about to give its processor up, unless it has done so in this wait.
#[inline]
pub(crate) fn halts() {
    let since = &thread::this().waits_since;
    if since.get() == 0 {
        since.set(Threads::now_ns());
    }
}

/// Ends the call, in which the thread has taken the mutex.
#[inline]
pub(crate) fn leave() {
    let this = thread::this();
    let since = this.waits_since.replace(0);
    if since != 0 && this.woken.get() == 0 {
        let took = Threads::now_ns().saturating_sub(since);
        // Relaxed: it is read after the threads have ended, or shows some earlier moment.
        if took > LONGEST.load(Relaxed) {
            LONGEST.fetch_max(took, Relaxed);
        }
    }
}

/// Returns the longest wait in nanoseconds, or zero if no thread gave its processor up for one.
pub(crate) fn ns() -> u64 {
    LONGEST.load(Relaxed)
}

/// Forgets the waits of the parent in a forked child.
pub(crate) fn reset() {
    LONGEST.store(0, Relaxed);
}
