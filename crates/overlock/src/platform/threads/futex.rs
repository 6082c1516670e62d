//! The futex system call: wait and wake on the address of a word (futex(2), Linux 2.6.28 or later
//! for private futexes).
//!
//! These calls leave `errno` alone: a lock that a C program takes must not disturb it.

use core::ptr;
use core::sync::atomic::AtomicU32;

use super::syscall::syscall;

/// Which threads can meet at the address.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(crate) enum Scope {
    /// Threads of this process only.
    Private = libc::FUTEX_PRIVATE_FLAG,
    /// Every process that maps the memory.
    Shared = 0,
}

/// A time as these calls take it: on a 32-bit machine in 32 bits, whatever libc's `time_t` is.
#[repr(C)]
struct Time {
    s: Long,
    ns: Long,
}

#[cfg(any(target_pointer_width = "64", target_arch = "x86_64"))]
type Long = i64;
#[cfg(not(any(target_pointer_width = "64", target_arch = "x86_64")))]
type Long = i32;

impl Time {
    /// A time that does not fit is moved to the end of what does: the wait may return early (P2).
    fn of(ns: u64) -> Self {
        let s = Long::try_from(ns / 1_000_000_000).unwrap_or(Long::MAX);
        Self { s, ns: (ns % 1_000_000_000) as Long }
    }
}

/// Sleeps while `word` holds `expected`, as one of those classes of waiters, until woken or until
/// `CLOCK_MONOTONIC` reaches `deadline_ns`. May return early.
pub(crate) fn wait_as(
    word: &AtomicU32,
    expected: u32,
    deadline_ns: Option<u64>,
    classes: u32,
    scope: Scope,
) {
    let until = deadline_ns.map(Time::of);
    let until = until.as_ref().map_or(ptr::null(), ptr::from_ref);
    let operation = libc::FUTEX_WAIT_BITSET | scope as i32;
    // SAFETY: `word` is a live, aligned 32-bit word, which the kernel only reads; `until` is null
    // or points to a timespec that outlives the call. FUTEX_WAIT_BITSET takes an absolute time on
    // CLOCK_MONOTONIC.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                ptr::from_ref(word).expose_provenance(),
                operation as usize,
                expected as usize,
                until.expose_provenance(),
                0,
                classes as usize,
            ],
        );
    }
}

/// Wakes up to `most` threads of those classes that sleep at this address, and returns whether one
/// did. Only the address is used: the memory may be gone.
pub(crate) fn wake_of(word: *const AtomicU32, most: i32, classes: u32, scope: Scope) -> bool {
    let operation = libc::FUTEX_WAKE_BITSET | scope as i32;
    let word = word.expose_provenance();
    let args = [word, operation as usize, most as usize, 0, 0, classes as usize];
    // SAFETY: FUTEX_WAKE_BITSET does not access the word; a bad address is reported as EFAULT.
    let woken = unsafe { syscall(libc::SYS_futex, args) };
    woken > 0
}

/// Sleeps for `ns` nanoseconds, or until a signal.
pub(crate) fn nap(ns: u64) {
    let time = Time::of(ns);
    // SAFETY: `time` is a valid timespec, and the null pointer says that the remaining time is not
    // wanted. (The function nanosleep would be a cancellation point, and a cancelled thread would
    // unwind out of a lock operation.)
    unsafe {
        syscall(libc::SYS_nanosleep, [(&raw const time).expose_provenance(), 0, 0, 0, 0, 0]);
    }
}
