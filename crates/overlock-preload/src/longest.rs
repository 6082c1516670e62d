//! The longest stall at a mutex in this process: what throughput does not show.
//!
//! A stall begins when a thread first gives the processor up in a call of `pthread_mutex_lock`, and
//! ends when it has the mutex. So a wait that only spins reads no clock, and what a thread spends
//! before the first halt is a few microseconds. (Under `none`, it begins when the thread finds the
//! mutex taken: libc does not show when it sleeps.) Calls with a deadline do not count, because how
//! long they wait is the program's choice; nor does the wait for the mutex after a condition
//! variable has woken a thread, which can't be seen under libc, whose function does both.
//!
//! Nothing is timed unless the process writes its counters.
//!
//! A signal handler that waits during a wait makes the interrupted one count from its next halt.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use overlock::platform::{Platform, Threads};

use crate::{counters, thread};

static TIMED: AtomicBool = AtomicBool::new(false);

/// Times stalls from here on.
pub(crate) fn begin() {
    TIMED.store(true, Relaxed);
}

/// Begins a call that may wait: forgets the wait before, which a jump may have left unfinished.
#[inline]
pub(crate) fn enter() {
    thread::this().waits_since.set(0);
}

/// Records that the thread is about to give its processor up, unless it has done so in this wait.
#[inline]
pub(crate) fn halts() {
    let this = thread::this();
    if TIMED.load(Relaxed) && this.waits_since.get() == 0 && this.woken.get() == 0 {
        this.waits_since.set(Threads::now_ns());
    }
}

/// Ends the call, in which the thread has taken the mutex.
#[inline]
pub(crate) fn leave() {
    let since = thread::this().waits_since.replace(0);
    if since != 0 {
        counters::add_stall(Threads::now_ns().saturating_sub(since));
    }
}
