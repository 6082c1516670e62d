//! System calls by an instruction of our own.
//!
//! libc's `syscall`, `sched_yield` and their like are names, and a library that a program preloads
//! can stand in for any of them: tracers and simulators of time do. If such a function takes a
//! lock, and the lock is ours and contended, it calls itself without end. So whatever a wait needs
//! from the kernel is asked for here, and `errno` is left alone as a matter of course.
//!
//! The result is the kernel's: an error is its negative number.
//!
//! Sources: syscall(2), "Architecture calling conventions"; System V ABI for x86-64, A.2.1.

/// What the kernel may have returned for an error.
const LEAST_ERROR: isize = -4095;

/// Makes system call `number`.
///
/// # Safety
/// The arguments are valid for the call.
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
#[inline(always)]
pub unsafe fn syscall(number: libc::c_long, args: [usize; 6]) -> isize {
    let result;
    // SAFETY: the caller's. The instruction changes two registers besides the result.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result
}

/// Makes system call `number`.
///
/// # Safety
/// The arguments are valid for the call.
#[cfg(all(target_arch = "aarch64", target_pointer_width = "64", not(miri)))]
#[inline(always)]
pub unsafe fn syscall(number: libc::c_long, args: [usize; 6]) -> isize {
    let result;
    // SAFETY: the caller's. The instruction changes no register besides the result.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") args[0] => result,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            in("x5") args[5],
            options(nostack),
        );
    }
    result
}

/// Makes system call `number`, by the functions that miri knows.
///
/// # Safety
/// The arguments are valid for the call.
#[cfg(miri)]
pub unsafe fn syscall(number: libc::c_long, args: [usize; 6]) -> isize {
    use core::ptr::{with_exposed_provenance as to, with_exposed_provenance_mut as to_mut};
    let [a, b, c, d, ..] = args;
    super::errno::keep_errno(|| match number {
        // SAFETY: the caller's, for each call.
        libc::SYS_sched_yield => unsafe { libc::sched_yield() as isize },
        libc::SYS_clock_gettime => unsafe { libc::clock_gettime(a as _, to_mut(b)) as isize },
        libc::SYS_nanosleep => unsafe { libc::nanosleep(to(a), to_mut(b)) as isize },
        libc::SYS_getpid => unsafe { libc::getpid() as isize },
        libc::SYS_futex => {
            let (word, until) = (to::<u32>(a), to::<libc::timespec>(d));
            let (operation, value) = (b as i32, c as u32);
            let none = core::ptr::null::<u32>();
            // SAFETY: the caller's.
            unsafe { libc::syscall(number, word, operation, value, until, none, u32::MAX) as isize }
        }
        _ => -libc::ENOSYS as isize,
    })
}

/// Makes system call `number`, by libc.
///
/// # Safety
/// The arguments are valid for the call.
#[cfg(not(any(
    miri,
    all(any(target_arch = "x86_64", target_arch = "aarch64"), target_pointer_width = "64")
)))]
pub unsafe fn syscall(number: libc::c_long, args: [usize; 6]) -> isize {
    use super::errno::{keep_errno, location};
    keep_errno(|| {
        let [a, b, c, d, e, f] = args;
        // SAFETY: the caller's.
        match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
            // SAFETY: always points to the calling thread's `errno`.
            -1 => -(unsafe { *location() } as isize),
            result => result as isize,
        }
    })
}

/// Returns what a call has returned, or the number of its error.
pub fn result(returned: isize) -> Result<usize, libc::c_int> {
    match returned {
        LEAST_ERROR..0 => Err(-returned as libc::c_int),
        fine => Ok(fine.cast_unsigned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_returns_what_libcs_does() {
        // SAFETY: no memory is passed.
        let (ours, libcs) = unsafe { (syscall(libc::SYS_getpid, [0; 6]), libc::getpid()) };
        assert_eq!(result(ours), Ok(libcs as usize));
        // SAFETY: as above.
        let refused = unsafe { syscall(libc::SYS_close, [usize::MAX, 0, 0, 0, 0, 0]) };
        assert_eq!(result(refused), Err(libc::EBADF));
    }

    #[test]
    fn six_arguments_arrive_in_their_places() {
        let (size, flags) = (4096, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize);
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        #[cfg(target_pointer_width = "64")]
        use libc::SYS_mmap;
        #[cfg(target_pointer_width = "32")]
        use libc::SYS_mmap2 as SYS_mmap;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let page = unsafe { syscall(SYS_mmap, [0, size, access, flags, usize::MAX, 0]) };
        let page = core::ptr::with_exposed_provenance_mut::<u8>(result(page).expect("memory"));
        // SAFETY: mapped above, and used by nothing else.
        unsafe { page.add(size - 1).write(7) };
        // SAFETY: as above.
        let freed = unsafe { syscall(libc::SYS_munmap, [page.addr(), size, 0, 0, 0, 0]) };
        assert_eq!(result(freed), Ok(0));
    }
}
