// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clocks of spin budgets and deadlines, as the kernel sees them.
//!
//! Budgets are time, not iterations: a PAUSE takes 10 cycles on one processor and 140 on another. A
//! spin loop reads the clock only once in some tens of pauses, so the cost of a reading (a vDSO
//! call, about 25 ns where the kernel trusts the time stamp counter) does not matter. A raw counter
//! would save little and would have to be calibrated.
//!
//! The kernel's own code is called, not libc's `clock_gettime`, because a library can stand in for
//! that: libfaketime's stops the clock, so a budget would never be used up, and takes a mutex,
//! which in a preloaded lock would call itself without end.

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use super::vdso;

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    now_on(libc::CLOCK_MONOTONIC)
}

/// The time on a clock that always exists, in nanoseconds since its epoch.
pub fn now_on(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { reader()(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns by how many nanoseconds the kernel's clock is ahead of one that `read` reads and that a
/// library may have changed; 0 if it has not. If the thread loses its processor meanwhile, the
/// result is too large by at most that time, and a deadline comes late. (One comes early if the
/// other clock lags by less than that time, which looks like no change.)
pub fn ahead_of(clock: libc::clockid_t, read: impl FnOnce() -> libc::timespec) -> i64 {
    let before = now_on(clock).cast_signed();
    let seen = read();
    ahead(before, &seen, now_on(clock).cast_signed())
}

/// A clock that is the kernel's was read between two readings of the kernel's, however long the
/// thread had no processor.
fn ahead(before: i64, seen: &libc::timespec, after: i64) -> i64 {
    let seen = seen.tv_sec.saturating_mul(1_000_000_000).saturating_add(seen.tv_nsec);
    if (before..=after).contains(&seen) { 0 } else { after.saturating_sub(seen) }
}

/// A function like `clock_gettime`, but that does not touch `errno`.
type Reader = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

/// Returns the kernel's function, which the first caller looks up.
fn reader() -> Reader {
    static KNOWN: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
    // Relaxed: the code behind the address was there before any of ours ran.
    let known = KNOWN.load(Relaxed);
    if !known.is_null() {
        // SAFETY: stored below.
        return unsafe { core::mem::transmute::<*mut (), Reader>(known) };
    }
    // SAFETY: the auxiliary vector of a process is the kernel's.
    let image = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as *const u8;
    // SAFETY: the vector names the vDSO, or nothing.
    let found = unsafe { vdso::function(image, NAME) };
    // SAFETY: the kernel's function of that name has this signature.
    let reader = found.map_or(by_system_call as Reader, |found| unsafe {
        core::mem::transmute::<*const (), Reader>(found)
    });
    KNOWN.store(reader as *mut (), Relaxed);
    reader
}

/// The kernel's name of the function (vdso(7)).
const NAME: &[u8] =
    if cfg!(target_arch = "aarch64") { b"__kernel_clock_gettime" } else { b"__vdso_clock_gettime" };

/// For processes without a vDSO, such as those under valgrind.
unsafe extern "C" fn by_system_call(clock: libc::clockid_t, now: *mut libc::timespec) -> c_int {
    let args = [clock as usize, now.expose_provenance(), 0, 0, 0, 0];
    // SAFETY: the caller's `now` is writable.
    unsafe { super::syscall::syscall(libc::SYS_clock_gettime, args) as c_int }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_function_and_the_system_call_agree_with_libc() {
        // SAFETY: as in `reader`.
        let image = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as *const u8;
        // SAFETY: as in `reader`.
        let found = unsafe { vdso::function(image, NAME) };
        assert_eq!(found.is_some(), !image.is_null(), "the vDSO has no {NAME:?}");
        for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
            let by = |reader: Reader| {
                let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                // SAFETY: `now` is writable.
                assert_eq!(unsafe { reader(clock, &raw mut now) }, 0);
                (now.tv_sec, now.tv_nsec)
            };
            let times =
                [libc::clock_gettime, reader(), by_system_call, libc::clock_gettime].map(by);
            assert!(times.is_sorted(), "{times:?}");
            assert!(now_on(clock) > 0);
        }
    }

    #[test]
    fn only_another_clock_is_ahead() {
        const YEAR: i64 = 31_536_000;
        let at = |tv_sec, tv_nsec| libc::timespec { tv_sec, tv_nsec };
        let (before, after) = (5_000_000_000, 7_000_000_000);
        for same in [at(5, 0), at(6, 999_999_999), at(7, 0)] {
            assert_eq!(ahead(before, &same, after), 0);
        }
        // The other clock was read at some time in these two seconds, perhaps at their end.
        assert_eq!(ahead(before, &at(7, 1), after), -1);
        assert_eq!(ahead(before, &at(4, 999_999_999), after), 2_000_000_001);
        assert_eq!(ahead(before, &at(7 - YEAR, 0), after), YEAR * 1_000_000_000);
        assert_eq!(ahead(before, &at(i64::MIN, 0), after), i64::MAX);
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        // SAFETY: as in `reader`.
        let image = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as *const u8;
        for name in [&b"__vdso_clock_gettim"[..], b"__vdso_clock_gettimes", b""] {
            // SAFETY: as in `reader`.
            assert_eq!(unsafe { vdso::function(image, name) }, None);
        }
        // SAFETY: null is no image.
        assert_eq!(unsafe { vdso::function(core::ptr::null(), NAME) }, None);
    }
}
