//! Errors of a program that libc lets pass.
//!
//! libc's unlock of a free normal mutex leaves it free, and so does ours. Since that is a bug of
//! the program, and under libc may have let two threads into one critical section, the library
//! counts it and reports it once. With `OVERLOCK_CHECK=1` in the environment, it reports each place
//! that does it, up to a number.

use core::ffi::c_void;

use libc::c_int;
use overlock::platform::report::{self, Reports};

use crate::counters::{self, Event};

/// Counts that the program unlocked a normal mutex that no thread held, or waited for a condition
/// with one; reports it, and returns 0, because libc lets it pass.
#[cold]
#[inline(never)]
pub(crate) fn unlock_of_free() -> c_int {
    static REPORTS: Reports = Reports::new();
    counters::add(Event::UnlockOfFree);
    let what = b"unlocked a mutex that no thread held, or waited for a condition with it";
    REPORTS.report(what, || caller().addr());
    0
}

#[repr(C)]
struct Search {
    /// The address at which this library is loaded.
    own: *const c_void,
    found: *const c_void,
}

/// Finds where the program called this library: the innermost frame that is not ours.
fn caller() -> *const c_void {
    unsafe extern "C" {
        fn _Unwind_Backtrace(
            each: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            search: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIP(frame: *mut c_void) -> usize;
    }
    unsafe extern "C" fn each(frame: *mut c_void, search: *mut c_void) -> c_int {
        // SAFETY: the variable that `_Unwind_Backtrace` was given.
        let search = unsafe { &mut *search.cast::<Search>() };
        // SAFETY: the frame that the unwinder is at. The call lies before its return address.
        let address = (unsafe { _Unwind_GetIP(frame) } - 1) as *const c_void;
        search.found = address;
        c_int::from(base_of(address) != search.own)
    }
    let mut search = Search { own: base_of(caller as *const c_void), found: core::ptr::null() };
    // SAFETY: `each` has the required signature, and does not unwind.
    unsafe { _Unwind_Backtrace(each, (&raw mut search).cast()) };
    search.found
}

/// Returns the address at which the object that contains `address` is loaded, or null.
fn base_of(address: *const c_void) -> *const c_void {
    report::object_of(address.addr()).dli_fbase
}
