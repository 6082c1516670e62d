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

use super::syscall::syscall;
use super::vdso;

/// The time on a clock that always exists, in nanoseconds since its epoch.
pub fn now_on(clock: libc::clockid_t) -> u64 {
    let mut now = Time { s: 0, ns: 0 };
    // The code behind the address was there before any of ours ran.
    let found = FOUND.load(Relaxed);
    if found.is_null() {
        // SAFETY: `now` is writable.
        unsafe { by_system_call(clock, &raw mut now) };
    } else {
        // SAFETY: `find` stored it, the kernel's function, which has this signature.
        let read = unsafe { core::mem::transmute::<*mut (), Reader>(found) };
        // SAFETY: `now` is writable.
        unsafe { read(clock, &raw mut now) };
    }
    now.s as u64 * 1_000_000_000 + now.ns as u64
}

/// A time as the kernel writes it (`struct __kernel_timespec`). libc's `timespec` has this form
/// only where its `time_t` has 64 bits, which on 32-bit machines depends on how libc was built.
#[repr(C)]
struct Time {
    s: i64,
    ns: i64,
}

/// Returns by how many nanoseconds the kernel's clock is ahead of one that `read` reads and that a
/// library may have changed; 0 if it has not. If the thread loses its processor meanwhile, the
/// result is too large by at most that time, and a deadline comes late. (One comes early if the
/// other clock lags by less than that time, which looks like no change.)
pub fn ahead_of(clock: libc::clockid_t, read: impl FnOnce() -> libc::timespec) -> i64 {
    let before = now_on(clock).cast_signed();
    let seen = in_ns(&read());
    ahead(before, seen, now_on(clock).cast_signed())
}

/// A clock that is the kernel's was read between two readings of the kernel's, however long the
/// thread had no processor.
fn ahead(before: i64, seen: i64, after: i64) -> i64 {
    if (before..=after).contains(&seen) { 0 } else { after.saturating_sub(seen) }
}

/// A time of libc's in nanoseconds, whatever the width of its fields.
#[allow(clippy::unnecessary_cast, reason = "the fields have 32 bits elsewhere")]
pub fn in_ns(time: &libc::timespec) -> i64 {
    (time.tv_sec as i64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as i64)
}

/// A function like `clock_gettime`, but that does not touch `errno`.
type Reader = unsafe extern "C" fn(libc::clockid_t, *mut Time) -> c_int;

/// The kernel's function; null before [`find`] has run, and where there is none.
static FOUND: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Finds the function when the program, or the shared library that contains this code, is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = find;

extern "C" fn find() {
    // Miri has no auxiliary vector.
    if cfg!(miri) {
        return;
    }
    // SAFETY: the auxiliary vector of a process is the kernel's.
    let image = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as *const u8;
    // SAFETY: the vector names the vDSO, or nothing.
    if let Some(found) = unsafe { vdso::function(image, NAME) } {
        FOUND.store(found.cast_mut(), Relaxed);
    }
}

/// Whether the kernel's first call has times of 64 bits.
const IS_WIDE: bool = cfg!(any(target_pointer_width = "64", target_arch = "x86_64"));

/// The kernel's name of the function (vdso(7)).
const NAME: &[u8] = if cfg!(target_arch = "aarch64") {
    b"__kernel_clock_gettime"
} else if IS_WIDE {
    b"__vdso_clock_gettime"
} else {
    b"__vdso_clock_gettime64"
};

/// The number of `clock_gettime64`, the same on all 32-bit machines (Linux 5.1).
const CLOCK_GETTIME64: libc::c_long = 403;

/// For processes without a vDSO, such as those under valgrind, and before [`find`].
unsafe extern "C" fn by_system_call(clock: libc::clockid_t, now: *mut Time) -> c_int {
    let call = |number, now: usize| {
        // SAFETY: what the caller of this closure passes is writable.
        unsafe { syscall(number, [clock as usize, now, 0, 0, 0, 0]) as c_int }
    };
    let number = if IS_WIDE { libc::SYS_clock_gettime } else { CLOCK_GETTIME64 };
    let done = call(number, now.expose_provenance());
    if IS_WIDE || done != -libc::ENOSYS {
        return done;
    }
    let mut narrow = [0_i32; 2];
    let done = call(libc::SYS_clock_gettime, (&raw mut narrow).expose_provenance());
    let [s, ns] = narrow.map(i64::from);
    // SAFETY: the caller's `now` is writable.
    unsafe { now.write(Time { s, ns }) };
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_function_and_the_system_call_agree_with_libc() {
        // SAFETY: as in `find`.
        let has_vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } != 0;
        assert_eq!(!FOUND.load(Relaxed).is_null(), has_vdso, "the vDSO has no {NAME:?}");
        for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
            let by_system_call = || {
                let mut now = Time { s: 0, ns: 0 };
                // SAFETY: `now` is writable.
                assert_eq!(unsafe { by_system_call(clock, &raw mut now) }, 0);
                now.s * 1_000_000_000 + now.ns
            };
            let libcs = || {
                // SAFETY: zeros are a time.
                let mut now = unsafe { core::mem::zeroed() };
                // SAFETY: `now` is writable.
                assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut now) }, 0);
                in_ns(&now)
            };
            let times = [libcs(), now_on(clock).cast_signed(), by_system_call(), libcs()];
            assert!(times.is_sorted() && times[1] > 0, "{times:?}");
        }
    }

    #[test]
    fn only_another_clock_is_ahead() {
        const SECOND: i64 = 1_000_000_000;
        const YEAR: i64 = 31_536_000 * SECOND;
        let (before, after) = (5 * SECOND, 7 * SECOND);
        for same in [before, after - 1, after] {
            assert_eq!(ahead(before, same, after), 0);
        }
        // The other clock was read at some time in these two seconds, perhaps at their end.
        assert_eq!(ahead(before, after + 1, after), -1);
        assert_eq!(ahead(before, before - 1, after), 2 * SECOND + 1);
        assert_eq!(ahead(before, after - YEAR, after), YEAR);
        assert_eq!(ahead(before, i64::MIN, after), i64::MAX);
    }

    #[test]
    fn a_time_of_libcs_has_its_fields_and_saturates() {
        // SAFETY: zeros are a time.
        let mut time = unsafe { core::mem::zeroed::<libc::timespec>() };
        (time.tv_sec, time.tv_nsec) = (-2, 7);
        assert_eq!(in_ns(&time), -1_999_999_993);
        let least = !0 << (size_of_val(&time.tv_sec) * 8 - 1);
        (time.tv_sec, time.tv_nsec) = (least, 0);
        let expected = (i128::from(least) * 1_000_000_000).max(i64::MIN.into());
        assert_eq!(i128::from(in_ns(&time)), expected);
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        // SAFETY: as in `find`.
        let image = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as *const u8;
        for name in [&b"__vdso_clock_gettim"[..], b"__vdso_clock_gettimes", b""] {
            // SAFETY: as in `find`.
            assert_eq!(unsafe { vdso::function(image, name) }, None);
        }
        // SAFETY: null is no image.
        assert_eq!(unsafe { vdso::function(core::ptr::null(), NAME) }, None);
    }
}
