//! The library's record of each thread.
//!
//! It is plain zero-initialised memory of the thread (thread.c): it needs no constructor and no
//! destructor, so it works while a thread starts, in the destructors of other thread-local data,
//! and in a forked child, whose one thread keeps the copy of it.

use core::cell::Cell;
use core::ffi::c_void;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicIsize, AtomicU32, Ordering::Relaxed};

use overlock::platform::syscall::syscall;

/// The record of a thread: `struct overlock_thread` in thread.c.
#[repr(C)]
pub(crate) struct Thread {
    /// The kernel's number of the thread, or zero before the kernel is first asked.
    tid: Cell<u32>,
    /// Its number among the waiters: see [`numbers`](crate::numbers).
    pub(crate) number: Cell<u32>,
    /// See [`line`]; or zero before it is first needed.
    line: Cell<u32>,
    /// Whether it is a real-time thread (bit 0), and for how many contended calls to rely on that.
    pub(crate) policy: Cell<u32>,
    /// `PTHREAD_CANCEL_DEFERRED` or `_ASYNCHRONOUS`, as it has last chosen.
    pub(crate) cancel_type: Cell<libc::c_int>,
    /// Whether it is choosing the lock of this process: see [`choice`](crate::choice).
    pub(crate) decides: Cell<bool>,
    /// 1 while it takes a mutex after a condition variable has woken it, else 0.
    pub(crate) woken: Cell<u32>,
    /// Its innermost wait at a gate, as the [`gate`](crate::gate) records it.
    pub(crate) at_gate: Cell<*const c_void>,
    /// When it first gave its processor up in the present wait, in nanoseconds; or zero: see
    /// [`longest`](crate::longest).
    pub(crate) waits_since: Cell<u64>,
}

#[inline(always)]
pub(crate) fn this<'a>() -> &'a Thread {
    let record: *const Thread;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: adds the thread pointer, which the ABI also keeps at `fs:0`, and the offset of the
    // record from it, which the dynamic linker has stored.
    unsafe {
        core::arch::asm!(
            "mov {record}, qword ptr fs:[0]",
            "add {record}, qword ptr [rip + overlock_thread@GOTTPOFF]",
            record = out(reg) record,
            options(pure, readonly, nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; the thread pointer is in a register.
    unsafe {
        core::arch::asm!(
            "adrp {record}, :gottprel:overlock_thread",
            "ldr {record}, [{record}, :gottprel_lo12:overlock_thread]",
            "mrs {scratch}, tpidr_el0",
            "add {record}, {record}, {scratch}",
            record = out(reg) record,
            scratch = out(reg) _,
            options(pure, readonly, nostack),
        );
    }
    // SAFETY: the record lives as long as the thread, which alone accesses it; every bit pattern is
    // valid. (The reference must not leave the thread: `Cell` keeps it there.)
    unsafe { &*record }
}

/// Returns the number of the calling thread that libc would store in a mutex: libc's own record of
/// the kernel's number, if we know where it is.
///
/// It is read each time. In a child that was made by a bare `clone` it is the parent's, until the
/// program corrects it and expects to find the new one in its mutexes (Chromium's sandbox).
#[inline(always)]
pub(crate) fn tid() -> u32 {
    let at = AT.load(Relaxed);
    let told = if at == 0 { this().tid.get() } else { libcs_tid(at) };
    if told == 0 { ask_tid() } else { told }
}

/// Where libc keeps the kernel's number of a thread, as a distance from the thread pointer; zero if
/// that is not known.
static AT: AtomicIsize = AtomicIsize::new(0);

/// `PR_GET_TID_ADDRESS`.
const GET_TID_ADDRESS: usize = 40;

/// Finds out where libc keeps the numbers of threads, at the start of the process. It tells the
/// kernel, which clears the word when the thread ends, and the kernel tells us; if it does not
/// (`CONFIG_CHECKPOINT_RESTORE`), we look where glibc 2.31 to 2.41 have it on x86-64.
pub(crate) fn prepare() {
    let mut told = 0_usize;
    let args = [GET_TID_ADDRESS, (&raw mut told).expose_provenance(), 0, 0, 0, 0];
    // SAFETY: `told` is writable.
    unsafe { syscall(libc::SYS_prctl, args) };
    let at = if told == 0 { GLIBCS } else { told.wrapping_sub(pointer()).cast_signed() };
    // A program can have moved the word (set_tid_address).
    if is_near(at) && libcs_tid(at) == kernels_tid() {
        AT.store(at, Relaxed);
    }
}

/// The place in glibc, where it does not vary from version to version.
const GLIBCS: isize = if cfg!(target_arch = "x86_64") { 0x2d0 } else { 0 };

/// Whether a place is within libc's record of a thread, which lies behind the thread pointer on
/// x86-64, and before it on aarch64.
fn is_near(at: isize) -> bool {
    let record = if cfg!(target_arch = "x86_64") { 64..0x800 } else { -0x800..-64 };
    at % 4 == 0 && record.contains(&at)
}

#[inline(always)]
fn pointer() -> usize {
    let pointer;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the ABI keeps the thread pointer there, too.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(pure, readonly, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: only reads the register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack));
    }
    pointer
}

/// Reads libc's word at a distance from the thread pointer.
#[inline(always)]
fn libcs_tid(at: isize) -> u32 {
    let word = core::ptr::with_exposed_provenance::<u32>(pointer().wrapping_add_signed(at));
    // SAFETY: `is_near` has found the place in the record that libc keeps of each thread.
    unsafe { word.read_volatile() }
}

/// Asks the kernel, where libc's record is of no use. A sandbox may kill for a system call, and a
/// library that stands in for libc may lock a mutex in any function: the call is our own, and made
/// once for each thread.
#[cold]
#[inline(never)]
fn ask_tid() -> u32 {
    if this().tid.get() == 0 {
        this().tid.set(kernels_tid());
    }
    this().tid.get()
}

/// Asks the kernel for its number of the calling thread. In a child that was made by a bare `clone`
/// libc knows only the parent's.
pub(crate) fn kernels_tid() -> u32 {
    // SAFETY: no arguments, no memory; it can't fail.
    unsafe { syscall(libc::SYS_gettid, [0; 6]) as u32 }
}

/// Forgets the kernel's number in a forked child, whose thread has another.
pub(crate) fn forget_tid() {
    this().tid.set(0);
}

/// Asks the kernel for its number of this process.
pub(crate) fn kernels_process() -> libc::pid_t {
    // SAFETY: no arguments, no memory; it can't fail.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) as libc::pid_t }
}

/// Returns the *line* of the calling thread: a number from one counter of the process, which is
/// never used twice. In a forked child the thread keeps it.
#[inline]
pub(crate) fn line() -> u32 {
    match NonZeroU32::new(this().line.get()) {
        Some(line) => line.get(),
        None => next_line(),
    }
}

#[cold]
#[inline(never)]
fn next_line() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    // Relaxed: the numbers only have to differ.
    this().line.set(NEXT.fetch_add(1, Relaxed));
    this().line.get()
}
