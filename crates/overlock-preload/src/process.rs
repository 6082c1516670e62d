//! Events of the process as a whole: it starts, forks and ends.

use overlock::platform::{Platform as _, Threads};

use crate::{choice, cond, counters, longest, platform, real, thread};

/// Runs before the constructors of the lock library, which would arm its restartable sequences.
#[used]
#[unsafe(link_section = ".init_array.00000")]
static FIRST: extern "C" fn() = Threads::forbid_restartable_sequences;

/// Runs before `main`, after the constructors of libc.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// Runs in `exit`, after the program's own exit handlers. Other threads may still run.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn start() {
    choice::ensure_decided();
    // SAFETY: called here only, and `report` only by `end`, when the process ends.
    if unsafe { counters::note_start(choice::lock() as u32) } {
        longest::begin();
    }
    platform::prepare();
    cond::prepare();
    thread::prepare();
    real::prepare();
    // Looks up the kernel's clock.
    Threads::now_ns();
    // SAFETY: the handler only stores to atomics. `pthread_atfork` fails only for lack of memory,
    // this early in the life of a process.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
}

extern "C" fn end() {
    counters::report(choice::name());
}

unsafe extern "C" fn after_fork() {
    platform::clear_in_child();
    choice::clear_in_child();
    choice::ensure_decided();
}
