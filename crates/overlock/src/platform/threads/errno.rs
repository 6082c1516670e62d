//! `errno`, which the locks leave alone.
//!
//! Programs read `errno` of an earlier call after they have unlocked a mutex. libc's own locks
//! never touch it, so ours must not either, although they make system calls that routinely fail
//! (because a futex word has just changed).

#[cfg(target_os = "android")]
pub(crate) use libc::__errno as location;
#[cfg(not(target_os = "android"))]
pub(crate) use libc::__errno_location as location;

/// Calls a function that may make system calls, without changing the caller's `errno`. If the
/// thread leaves it by a panic, a cancellation or a jump, `errno` is what the function left.
#[inline]
pub fn keep_errno<R>(call: impl FnOnce() -> R) -> R {
    // SAFETY: the function returns this thread's errno, valid for its life.
    let errno = unsafe { location() };
    // SAFETY: as above; no other thread accesses it.
    let saved = unsafe { *errno };
    let result = call();
    // SAFETY: as above.
    unsafe { *errno = saved };
    result
}
