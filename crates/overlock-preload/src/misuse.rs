// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of a program that libc lets pass.
//!
//! libc's unlock of a free normal mutex leaves it free, and so does ours. Since that is a bug of
//! the program, and under libc may have let two threads into one critical section, the library
//! counts it and reports it once. With `OVERLOCK_CHECK=1` in the environment, it reports each place
//! that does it, up to a number.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use libc::c_int;

use crate::choice;
use crate::counters::{self, Event};
use crate::errno::Preserved;
use crate::message;

/// An error of a program.
#[derive(Clone, Copy)]
pub(crate) enum Misuse {
    /// The program unlocked a normal mutex that no thread held, or waited for a condition with one.
    UnlockOfFree,
}

impl Misuse {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::UnlockOfFree => {
                b"the program unlocked a mutex that no thread held, or waited for a condition with it"
            }
        }
    }

    const fn event(self) -> Event {
        match self {
            Self::UnlockOfFree => Event::UnlockOfFree,
        }
    }
}

/// How many places are reported.
const PLACES: u32 = 16;

/// Counts the error, reports the first, and returns 0, because libc lets it pass.
#[cold]
#[inline(never)]
pub(crate) fn notice(misuse: Misuse) -> c_int {
    static SAID: AtomicBool = AtomicBool::new(false);
    static PLACED: AtomicU32 = AtomicU32::new(0);
    let _errno = Preserved::new();
    counters::add(misuse.event());
    let names_places = choice::environment(c"OVERLOCK_CHECK").is_some_and(|value| value == c"1");
    if names_places {
        if PLACED.fetch_add(1, Relaxed) < PLACES {
            say_with_place(misuse);
        }
    } else if !SAID.swap(true, Relaxed) {
        let hint = b"; OVERLOCK_CHECK=1 reports where (reported once)\n";
        message::write(&[b"overlock: ", misuse.text(), hint]);
    }
    0
}

fn say_with_place(misuse: Misuse) {
    let address = caller().addr();
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is writable; the address need not mean anything.
    let found = unsafe { libc::dladdr(address as *const c_void, info.as_mut_ptr()) } != 0;
    // SAFETY: zeros are a valid value, and so is what `dladdr` has stored.
    let info = unsafe { info.assume_init() };
    let string = |text: *const libc::c_char| -> &[u8] {
        // SAFETY: null, or a string that the dynamic linker keeps while the object is loaded.
        if text.is_null() { b"?" } else { unsafe { core::ffi::CStr::from_ptr(text) }.to_bytes() }
    };
    let mut digits = [0; 16];
    let offset = hexadecimal(address - if found { info.dli_fbase.addr() } else { 0 }, &mut digits);
    let end: &[u8] = b"\n";
    message::write(&[
        b"overlock: ",
        misuse.text(),
        b", by ",
        string(info.dli_fname),
        b"+0x",
        offset,
        b" in ",
        string(info.dli_sname),
        end,
    ]);
}

fn hexadecimal(mut value: usize, digits: &mut [u8; 16]) -> &[u8] {
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b"0123456789abcdef"[value & 0xf];
        value >>= 4;
        if value == 0 {
            return &digits[first..];
        }
    }
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
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is writable; the address need not mean anything.
    unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: zeros are a valid value, and so is what `dladdr` has stored.
    unsafe { info.assume_init() }.dli_fbase
}
