// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens to the process as a whole: it starts, forks and ends.

use overlock::platform::{Platform as _, Threads};

use crate::{choice, cond, counters, message};

/// Runs before `main`, after the constructors of libc.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// Runs in `exit`, after the program's own exit handlers. Other threads may still run.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn start() {
    if !cond::is_layout_known() {
        message::write(&[b"overlock: this libc is not glibc 2.25 or later as Overlock knows it; run without Overlock\n"]);
        // SAFETY: ends the process before it has run a line of its own `main`.
        unsafe { libc::_exit(2) }
    }
    choice::settle();
    // Makes the lock library register its thread-specific key while libc still has room for it
    // without allocating: a memory allocator may be the first to queue for a lock, and could not be
    // called then.
    Threads::cpu();
    // SAFETY: the handler only stores to atomics. It fails only for want of memory, this early in
    // the life of a process.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
}

extern "C" fn end() {
    counters::report();
}

/// In a forked child, before the handlers that were registered after ours, so that those can
/// unlock.
unsafe extern "C" fn after_fork() {
    choice::after_fork();
    counters::reset();
}
