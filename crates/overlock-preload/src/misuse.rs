//! Errors of a program that libc lets pass.
//!
//! libc's unlock of a free normal mutex leaves it free, and so does ours. Since that is a bug of
//! the program, and under libc may have let two threads into one critical section, the library
//! counts it and reports it once. With `OVERLOCK_CHECK=1` in the environment, it reports each place
//! that does it, up to a number.

use libc::c_int;
use overlock::platform::report::{self, Reports};

use crate::counters::{self, Event};
use crate::frames;

/// Counts that the program unlocked a normal mutex that no thread held, or waited for a condition
/// with one; reports it, and returns 0, because libc lets it pass.
#[cold]
#[inline(never)]
pub(crate) fn unlock_of_free() -> c_int {
    static REPORTS: Reports = Reports::new();
    counters::add(Event::UnlockOfFree);
    let what = b"unlocked a mutex that no thread held, or waited for a condition with it";
    REPORTS.report(what, caller);
    0
}

/// Finds where the program called this library: the innermost frame that is not ours.
fn caller() -> usize {
    let base = |address| report::object_of(address).dli_fbase;
    let (own, mut found) = (base((caller as *const ()).addr()), 0);
    frames::walk(|frame| {
        found = frames::call_of(frame);
        base(found) == own
    });
    found
}
