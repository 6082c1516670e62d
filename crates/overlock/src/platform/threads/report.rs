//! Errors of a program that the locks for C let pass: how they are reported.
//!
//! The first error is reported once. With `OVERLOCK_CHECK=1` in the environment, each error is
//! reported with the place in the program, up to a number of them.
//!
//! Everything here allocates nothing, takes no lock but those of the dynamic linker, and leaves
//! `errno` alone.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use super::errno::keep_errno;

/// How many errors are reported with their places.
const PLACES: u32 = 16;

/// Reports on one kind of error.
#[derive(Debug, Default)]
pub struct Reports {
    said: AtomicBool,
    placed: AtomicU32,
}

impl Reports {
    /// No error so far.
    pub const fn new() -> Self {
        Self { said: AtomicBool::new(false), placed: AtomicU32::new(0) }
    }

    /// Reports an error: "the program did `what`". `caller` finds an address in the code that did
    /// it.
    pub fn report(&self, what: &[u8], caller: impl FnOnce() -> usize) {
        keep_errno(|| {
            if environment(c"OVERLOCK_CHECK").is_some_and(|value| value == c"1") {
                if self.placed.fetch_add(1, Relaxed) < PLACES {
                    write_with_place(what, caller());
                }
            } else if !self.said.swap(true, Relaxed) {
                let hint = b"; OVERLOCK_CHECK=1 reports where (reported once)\n";
                write(&[b"overlock: the program ", what, hint]);
            }
        });
    }
}

/// Reads a variable of the environment, unless the program has more rights than the user that
/// started it.
///
/// A thread that calls `setenv` at this moment races, as with any reader of the environment.
pub fn environment(name: &CStr) -> Option<&'static CStr> {
    unsafe extern "C" {
        fn secure_getenv(name: *const c_char) -> *const c_char;
    }
    // SAFETY: the name is a C string.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    // SAFETY: null, or a C string.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Writes the parts, one after the other, to standard error with one system call.
pub fn write(parts: &[&[u8]]) {
    const PARTS: usize = 12;
    let mut vectors = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
    let count = parts.len().min(PARTS);
    for (vector, part) in vectors.iter_mut().zip(parts) {
        *vector = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
    }
    // SAFETY: `count` vectors describe live slices, which `writev` only reads. A failure could not
    // be reported anywhere. If standard error is a pipe without a reader, this raises SIGPIPE, as
    // any message of the program would.
    unsafe { libc::writev(libc::STDERR_FILENO, vectors.as_ptr(), count as c_int) };
}

fn write_with_place(what: &[u8], address: usize) {
    let info = object_of(address);
    let string = |text: *const c_char| -> &[u8] {
        // SAFETY: null, or a string that the dynamic linker keeps while the object is loaded.
        if text.is_null() { b"?" } else { unsafe { CStr::from_ptr(text) }.to_bytes() }
    };
    let mut digits = [0; 16];
    let offset = hexadecimal(address.wrapping_sub(info.dli_fbase.addr()), &mut digits);
    let (file, symbol) = (string(info.dli_fname), string(info.dli_sname));
    write(&[
        b"overlock: the program ",
        what,
        b", by ",
        file,
        b"+0x",
        offset,
        b" in ",
        symbol,
        b"\n",
    ]);
}

/// What the dynamic linker knows about the object that contains `address`; nothing but null
/// pointers if there is none.
pub fn object_of(address: usize) -> libc::Dl_info {
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let address = core::ptr::without_provenance::<c_void>(address);
    // SAFETY: `info` is writable; the address need not mean anything.
    unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: zeros are a valid value, and so is what `dladdr` has stored.
    unsafe { info.assume_init() }
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
