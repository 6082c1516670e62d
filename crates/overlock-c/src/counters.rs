//! The counters of all locks that C code takes, by name.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;

use libc::EINVAL;
use overlock::counters::Event;

use crate::misuse::unlocks_of_free;

overlock::lock_class!(
    /// The class of the locks in `overlock.h`. Rust code that shares a lock with C can count
    /// elsewhere.
    pub CLocks
);

/// Longer than any event's name and its terminator.
const NAME_SIZE: usize = 32;

/// The counter that is not a lock's event, but a bug of the program.
const UNLOCK_OF_FREE: &str = "unlock_of_free";

/// The names of all events as C strings, in the order of [`Event::ALL`], and of the counters after
/// them.
static NAMES: [[u8; NAME_SIZE]; Event::ALL.len() + 1] = {
    let mut names = [[0; NAME_SIZE]; Event::ALL.len() + 1];
    let mut i = 0;
    while i < names.len() {
        let name = if i < Event::ALL.len() { Event::ALL[i].name() } else { UNLOCK_OF_FREE };
        let name = name.as_bytes();
        assert!(name.len() < NAME_SIZE, "an event's name does not fit");
        names[i].split_at_mut(name.len()).0.copy_from_slice(name);
        i += 1;
    }
    names
};

/// Returns the name of counter number `index`, or null past the last one. The string lives for
/// ever.
#[unsafe(no_mangle)]
pub extern "C" fn ol_counter_name(index: usize) -> *const c_char {
    NAMES.get(index).map_or(ptr::null(), |name| name.as_ptr().cast())
}

/// Writes to `count` how often the event `name` has happened to the locks of this library. Returns
/// 0, or `EINVAL` if there is no such event or a pointer is null.
///
/// # Safety
/// `name` is null or a C string; `count` is null or valid to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ol_counter(name: *const c_char, count: *mut u64) -> c_int {
    if name.is_null() || count.is_null() {
        return EINVAL;
    }
    // SAFETY: not null, so a C string by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let event = Event::ALL.iter().find(|e| e.name().as_bytes() == name.to_bytes());
    let counted = match event {
        Some(event) => CLocks::counters().get(*event),
        None if name.to_bytes() == UNLOCK_OF_FREE.as_bytes() => unlocks_of_free(),
        None => return EINVAL,
    };
    // SAFETY: not null, so valid to write to by the caller's promise.
    unsafe { count.write(counted) };
    0
}
