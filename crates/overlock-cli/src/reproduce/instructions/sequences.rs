// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a process under single steps gets through its restartable sequences.
//!
//! The kernel cuts a sequence off whenever it interrupts its thread, and each step is an
//! interruption. So the kernel is told to watch the thread no longer; and the thread's record,
//! which says that from then on, is set to what it said before. No other thread uses the locks of
//! that process, so nothing that the watch was for can happen.

use std::ffi::{CStr, c_uint, c_void};

/// What the record begins with, in `include/uapi/linux/rseq.h` (Linux 6.x).
#[repr(C)]
struct Head {
    cpu_id_start: u32,
    cpu_id: u32,
}

/// `RSEQ_FLAG_UNREGISTER`, and the signature that the GNU C library registers with on x86-64.
const UNREGISTER: i32 = 1;
const SIGNATURE: u32 = 0x5305_3053;
/// The length of every record before Linux 6.3; later ones are multiples of it.
const UNIT: u32 = 32;

/// Has the kernel forget the sequences of this thread, which go on as if it watched. For a process
/// of one thread that ends soon. Returns whether that could be done.
pub(super) fn outlast() -> bool {
    let find = |name: &CStr| {
        // SAFETY: a valid name; asks for a symbol of whoever has it.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    let (offset, size) = (find(c"__rseq_offset"), find(c"__rseq_size"));
    if offset.is_null() || size.is_null() {
        return false;
    }
    // SAFETY: the C library's constants of these names: a `ptrdiff_t` and an `unsigned int`.
    let (offset, size) = unsafe { (*offset.cast::<libc::ptrdiff_t>(), *size.cast::<c_uint>()) };
    let pointer: *mut c_void;
    // SAFETY: on x86-64 the thread control block begins with its own address.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, pure));
    }
    let record = pointer.wrapping_byte_offset(offset).cast::<Head>();
    let lengths = [size, size.next_multiple_of(UNIT), UNIT];
    let forgotten = lengths.into_iter().any(|length| {
        // SAFETY: the record that the C library has registered for this thread, or else nothing is
        // done.
        let done = unsafe { libc::syscall(libc::SYS_rseq, record, length, UNREGISTER, SIGNATURE) };
        done == 0
    });
    if forgotten {
        // SAFETY: this thread's record, which no other code uses any more.
        unsafe { record.write(Head { cpu_id_start: 0, cpu_id: 0 }) };
    }
    forgotten
}
