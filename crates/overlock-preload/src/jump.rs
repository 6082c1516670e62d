//! Signal handlers that never return to the wait that they interrupted.
//!
//! A handler may leave by `siglongjmp` or end its thread, and libc's mutexes survive that although
//! POSIX leaves it undefined: their waiters leave nothing behind in them. Ours have a place in a
//! queue, which somebody has to give up. The last moment at which that is possible is the jump
//! itself: the waiter's frames are still there, and its mutex is alive. So this library replaces
//! `longjmp` and its relatives. They give up the waits whose frames are about to go, and then call
//! libc's. A handler that ends its thread, is cancelled, or throws an exception unwinds the waits;
//! their outermost frame ([`guarded`](crate::guarded)) has them given up then.
//!
//! # Which frames go
//!
//! Those between the jump and its target ([`frames`](crate::frames)); or all of this stack, if the
//! target is on another. `jmp_buf` contains the target's stack pointer, but libc disguises it by a
//! secret of the process. Another `jmp_buf`, made here at a known stack pointer, tells the secret;
//! it is not kept.
//!
//! # What this misses
//!
//! A jump that does not go through libc: `setcontext`, or a language's own. Where neither the
//! jump's own frames lead to a wait nor to the target, because code without tables is in between,
//! or both are on stacks that the thread has left, their addresses decide.

use core::cell::OnceCell;
use core::ffi::c_void;

use libc::c_int;
use overlock::platform::{Cpu, Platform, keep_errno, report};

use crate::frames::{self, Frames};
use crate::mutex::calls::release;
use crate::platform::Process;
use crate::{gate, real, thread};

/// A `jmp_buf`: at least as large as any libc's.
type Buffer = [usize; 64];

/// Where in a `jmp_buf` the stack pointer is.
#[cfg(target_arch = "x86_64")]
const STACK_POINTER: usize = 6;
#[cfg(target_arch = "aarch64")]
const STACK_POINTER: usize = 13;

unsafe extern "C" {
    /// Fills the buffer as `setjmp` does, and returns the stack pointer that it contains, plain.
    fn overlock_sample_jump(buffer: *mut Buffer) -> usize;
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.overlock_sample_jump, \"ax\", @progbits",
    ".hidden overlock_sample_jump",
    ".globl overlock_sample_jump",
    ".type overlock_sample_jump, @function",
    "overlock_sample_jump:",
    ".cfi_startproc",
    "sub rsp, 8",
    ".cfi_def_cfa_offset 16",
    "call _setjmp@PLT",
    "mov rax, rsp",
    "add rsp, 8",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size overlock_sample_jump, . - overlock_sample_jump",
    ".popsection"
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".pushsection .text.overlock_sample_jump, \"ax\", @progbits",
    ".hidden overlock_sample_jump",
    ".globl overlock_sample_jump",
    ".type overlock_sample_jump, @function",
    "overlock_sample_jump:",
    ".cfi_startproc",
    "stp x29, x30, [sp, -16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset 29, -16",
    ".cfi_offset 30, -8",
    "bl _setjmp",
    "mov x0, sp",
    "ldp x29, x30, [sp], 16",
    ".cfi_def_cfa_offset 0",
    ".cfi_restore 29",
    ".cfi_restore 30",
    "ret",
    ".cfi_endproc",
    ".size overlock_sample_jump, . - overlock_sample_jump",
    ".popsection"
);

/// Undoes or does what libc does to a stack pointer beside the exclusive or with its secret.
fn turned(word: usize) -> usize {
    if cfg!(target_arch = "x86_64") { word.rotate_right(17) } else { word }
}

/// Returns the stack pointer to which a jump leads, or `None` if this libc keeps it in some other
/// way.
///
/// # Safety
/// `setjmp` has filled the buffer.
unsafe fn target(buffer: *const usize) -> Option<usize> {
    let mut samples = [[0; 64]; 2];
    // SAFETY: the buffers are large enough, and no jump leads to them.
    let plain = samples.each_mut().map(|sample| unsafe { overlock_sample_jump(sample) });
    let secret = turned(samples[0][STACK_POINTER]) ^ plain[0];
    // SAFETY: the caller's.
    let target = turned(unsafe { *buffer.add(STACK_POINTER) }) ^ secret;
    let is_understood = turned(samples[1][STACK_POINTER]) ^ secret == plain[1];
    (is_understood && target.is_multiple_of(size_of::<usize>())).then_some(target)
}

/// The frames that a jump from here to `target` removes.
struct Gone {
    frames: Frames,
    by_address: OnceCell<ByAddress>,
    target: usize,
}

impl Gone {
    fn new(target: usize) -> Self {
        Self { frames: Frames::to(target), by_address: OnceCell::new(), target }
    }

    /// Returns whether a wait at this place of a stack goes.
    fn contains(&self, at: usize) -> bool {
        let by_address = || self.by_address.get_or_init(|| ByAddress::new(self.target));
        self.frames.contains(at) || !self.frames.has_met_target && by_address().contains(at)
    }
}

/// The same, as far as addresses can tell.
struct ByAddress {
    target: usize,
    here: usize,
    /// The stack for signal handlers, if the thread is on it.
    handlers: Option<core::ops::Range<usize>>,
}

impl ByAddress {
    fn new(target: usize) -> Self {
        let mut stack = core::mem::MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: `stack` is writable; the call only asks.
        unsafe { libc::sigaltstack(core::ptr::null(), stack.as_mut_ptr()) };
        // SAFETY: zeros are a valid value, and so is what the kernel has stored.
        let stack = unsafe { stack.assume_init() };
        let base = stack.ss_sp.addr();
        let handlers = (stack.ss_flags & libc::SS_ONSTACK != 0).then(|| base..base + stack.ss_size);
        Self { target, here: (&raw const base).addr(), handlers }
    }

    /// As [`Gone::contains`].
    fn contains(&self, at: usize) -> bool {
        match &self.handlers {
            Some(stack) if stack.contains(&self.target) => stack.contains(&at) && at < self.target,
            Some(stack) => stack.contains(&at) || at < self.target,
            // A jump to a lower address leads to another stack: that of another coroutine, say, or
            // of the thread. The frames of this one, which are above, are left for good.
            None if self.target < self.here => at < self.target || at >= self.here,
            None => (self.here..self.target).contains(&at),
        }
    }
}

/// Returns whether the calling thread is in a wait, or may be.
fn is_waiting() -> bool {
    !thread::this().at_gate.get().is_null()
        || number().is_some_and(|cpu| Process::slot(cpu).is_waiting())
}

/// Forgets that a condition variable has woken this thread, which may leave the wait for the mutex
/// that follows. If it does not, that wait spins once more, which only costs time.
fn forget_wake_up() {
    thread::this().woken.set(0);
}

/// Returns the number of the calling thread, if it has ever waited.
fn number() -> Option<Cpu> {
    (thread::this().number.get() != 0).then(Process::cpu)?
}

/// Gives up the waits of this thread whose frames are about to go.
///
/// # Safety
/// They go.
unsafe fn give_up(is_gone: impl Fn(usize) -> bool) {
    let all = keep_errno(|| {
        // SAFETY: the caller's.
        let mut all = unsafe { gate::abandon(&is_gone, release) };
        if let Some(cpu) = number() {
            // SAFETY: the caller's; a thread waits only for mutexes that are alive.
            all &= unsafe { Process::slot(cpu).give_up(cpu, &is_gone) };
        }
        all
    });
    if !all {
        report::write(&[
            b"overlock: a signal handler left a wait for a lock for good, at a moment when the ",
            b"lock can't be mended; run this program without Overlock\n",
        ]);
        // SAFETY: ends the process: otherwise its threads would wait for the mutex for ever.
        unsafe { libc::abort() }
    }
}

/// # Safety
/// `setjmp` has filled the buffer, and the jump is about to happen.
unsafe fn before_jump(buffer: *const usize) {
    forget_wake_up();
    if !is_waiting() {
        return;
    }
    // SAFETY: the caller's.
    let Some(target) = (unsafe { target(buffer) }) else { refuse() };
    let gone = Gone::new(target);
    // SAFETY: the caller's.
    unsafe { give_up(|at| gone.contains(at)) };
}

/// Ends the process: nothing tells whether the jump leaves a wait, whose mutex would be stuck.
fn refuse() -> ! {
    report::write(&[
        b"overlock: a signal handler jumps in a thread that waits for a mutex, and this libc's jump ",
        b"buffers are unlike any that Overlock knows; run this program without Overlock\n",
    ]);
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

/// `longjmp`, `_longjmp` and `siglongjmp`.
pub(crate) unsafe extern "C" fn longjmp(buffer: *mut c_void, value: c_int) -> ! {
    // SAFETY: the program's.
    unsafe { before_jump(buffer.cast()) };
    // SAFETY: the program's own call, passed on.
    unsafe { real::LONGJMP.call(buffer, value) }
}

/// `__longjmp_chk`, which programs compiled with `_FORTIFY_SOURCE` call.
pub(crate) unsafe extern "C" fn longjmp_chk(buffer: *mut c_void, value: c_int) -> ! {
    // SAFETY: the program's.
    unsafe { before_jump(buffer.cast()) };
    // SAFETY: the program's own call, passed on.
    unsafe { real::LONGJMP_CHK.call(buffer, value) }
}

/// For unwind.c: gives up the wait whose outermost frame has this stack pointer, and is being
/// unwound.
#[unsafe(no_mangle)]
extern "C" fn overlock_unwound(outermost: usize) {
    forget_wake_up();
    if is_waiting() {
        // SAFETY: the unwinder runs above those frames, and removes them.
        unsafe { give_up(|at| frames::is_wait_of(outermost, at)) };
    }
}

/// For block.c: ends the calling thread's wait at the gate, in which it is being cancelled.
///
/// # Safety
/// From within that wait: the mutex is alive.
#[unsafe(no_mangle)]
unsafe extern "C" fn overlock_gate_cancelled() {
    // SAFETY: the caller's.
    unsafe { gate::cancel(release) };
}
