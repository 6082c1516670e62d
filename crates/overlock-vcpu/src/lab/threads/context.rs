// SPDX-License-Identifier: MIT OR Apache-2.0
//! One vCPU's thread: how it enters the program, and how it is taken out of it for good.
//!
//! A program that does not stop, or that faults, must be left without its help. [`enter`] therefore
//! saves its stack pointer before it calls the program, and [`leave`] returns from `enter` whatever
//! the program is doing. Everything in between is forgotten: frames of the program, which by
//! contract own nothing, and frames of this engine, which own nothing whenever `leave` can come.

use std::arch::naked_asm;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, compiler_fence};

use crate::lab::Error;
use crate::lab::guest::abi::VcpuRecord;
use crate::lab::host::Host;
use crate::lab::host::state::{Exit, Next};
use crate::lab::place::Place;

/// How much of a stack is searched for callers, in words.
const FRAME_WORDS: usize = 2048;

/// The bottom of a stack that the system doesn't tell: above all addresses, and aligned.
const UNKNOWN: u64 = u64::MAX - 7;

/// Why the system raises SIGSEGV for a mapped page (sigaction(2)).
const SEGV_ACCERR: i32 = 2;

/// The room that the handler of the engine's signal needs on the program's stack, in bytes:
/// generous, because frames are large without optimisation.
const ROOM: u64 = 32 << 10;

thread_local! {
    /// The vCPU that this thread runs.
    static CURRENT: Cell<*const Context> = const { Cell::new(ptr::null()) };
}

/// A vCPU thread's own data.
#[derive(Debug)]
pub(super) struct Context {
    /// The host of the run; its lifetime is erased, the thread ends before it does.
    host: *const Host<'static>,
    record: *const VcpuRecord,
    /// The program is running, and can be interrupted.
    in_guest: AtomicBool,
    /// The stack pointer of [`enter`].
    saved: Cell<u64>,
    /// The lowest address of the thread's stack.
    bottom: u64,
    /// The instruction pointer of the program when it was left by force.
    interrupted: Cell<u64>,
    /// A copy of the program's stack from there on: later frames overwrite the original.
    frames: RefCell<Vec<u64>>,
    /// Signal, its code and the address accessed, if the program was left because of a fault.
    fault: Cell<Option<(i32, i32, u64)>>,
    /// The panic, if there was one.
    error: RefCell<Option<Error>>,
}

/// How a program was left.
#[derive(Debug)]
pub(super) struct Left {
    /// The panic, if there was one.
    pub(super) error: Option<Error>,
    /// The signal of a fault, its code and the address accessed.
    pub(super) fault: Option<(i32, i32, u64)>,
    /// Where the program was when it was left by force; zero if it was not.
    pub(super) address: u64,
}

impl Context {
    /// Makes the context of vCPU `number`, whose thread this is.
    pub(super) fn new(host: &Host, number: u32) -> Self {
        Self {
            host: ptr::from_ref(host).cast(),
            record: &raw const host.vcpus.records[number as usize],
            in_guest: AtomicBool::new(false),
            saved: Cell::new(0),
            bottom: stack_bottom(),
            interrupted: Cell::new(0),
            frames: RefCell::new(Vec::with_capacity(FRAME_WORDS)),
            fault: Cell::new(None),
            error: RefCell::new(None),
        }
    }

    /// Runs `body` with this context, as this thread's, until it returns or is left by force.
    pub(super) fn run(&self, body: extern "C" fn(&Self)) {
        CURRENT.set(ptr::from_ref(self));
        // SAFETY: `body` takes a reference to the context, and never unwinds.
        unsafe { enter(self.saved.as_ptr(), body, ptr::from_ref(self)) };
        self.set_in_guest(false);
        CURRENT.set(ptr::null());
    }

    /// How the program was left, and where it was, if it was left by force.
    pub(super) fn ended(&self) -> Left {
        let fault = self.fault.get();
        Left { error: self.error.take(), fault, address: self.interrupted.get() }
    }

    /// The lowest address of the thread's stack.
    pub(super) fn bottom(&self) -> u64 {
        self.bottom
    }

    /// Returns the place at which the program was left by force.
    pub(super) fn left_at(&self) -> Place {
        self.place_with(self.interrupted.get(), &self.frames.borrow())
    }

    /// Returns the context of the vCPU that this thread runs, if it runs one.
    pub(super) fn current() -> Option<&'static Self> {
        // SAFETY: set by `run` while its context lives; every caller runs on the same thread, above
        // it.
        unsafe { CURRENT.get().as_ref() }
    }

    /// The host of the run.
    pub(super) fn host(&self) -> &Host<'_> {
        // SAFETY: outlives every vCPU thread; made from a valid reference in `run`.
        unsafe { &*self.host.cast() }
    }

    /// This vCPU's record.
    pub(super) fn record(&self) -> &'static VcpuRecord {
        // SAFETY: the records outlive the run, and no caller keeps one longer than the run.
        unsafe { &*self.record }
    }

    /// Whether the program is running.
    pub(super) fn in_guest(&self) -> bool {
        self.in_guest.load(Relaxed)
    }

    /// Sets whether the program is running. The other side is a signal handler on this very thread,
    /// so a compiler fence is the only order needed.
    pub(super) fn set_in_guest(&self, inside: bool) {
        compiler_fence(std::sync::atomic::Ordering::SeqCst);
        self.in_guest.store(inside, Relaxed);
        compiler_fence(std::sync::atomic::Ordering::SeqCst);
    }

    /// Handles an exit from the program, until it may be entered again. Called outside the guest;
    /// on return the thread is in the guest if the vCPU may enter.
    pub(super) fn exit(&self, exit: Exit) -> Next {
        let (host, number) = (self.host(), self.record().number);
        let mut next = host.exit(number, exit);
        loop {
            if next == Next::Leave {
                return next;
            }
            self.set_in_guest(true);
            if !host.evicted(number) {
                return next;
            }
            // The signal came while the thread was out, and did nothing.
            self.set_in_guest(false);
            next = host.exit(number, Exit::Evicted { rip: None, ran: false });
        }
    }

    /// Returns whether the program's stack has room for the host's code, called at this depth: amid
    /// that code, an overflow would end the process.
    pub(super) fn has_room(&self) -> bool {
        let here = 0_u8;
        let here = (&raw const here) as u64;
        self.bottom == UNKNOWN || here >= self.bottom + ROOM
    }

    /// Records that the program overflows its stack, as a fault behind its end would.
    pub(super) fn note_overflow(&self) {
        self.note_fault(libc::SIGSEGV, SEGV_ACCERR, self.bottom - 1);
    }

    /// Delivers pending interrupts, on top of the program. Called in the guest.
    pub(super) fn interrupt(&self) {
        let record = self.record();
        if record.deliverable() {
            (record.hooks.deliver)(record);
        }
    }

    /// Records where the program was, and returns the stack pointer that [`leave`] needs. Allocates
    /// nothing.
    ///
    /// The program's stack may end in here; then its fault comes back here, on another stack.
    pub(super) fn leave_from(&self, address: u64, stack: u64) -> u64 {
        if self.interrupted.get() == 0 {
            self.interrupted.set(address);
        }
        if let Ok(mut frames) = self.frames.try_borrow_mut() {
            frames.clear();
            frames.extend_from_slice(self.stack_from(stack));
        }
        self.set_in_guest(false);
        self.saved.get()
    }

    /// Returns the words on the program's stack from `stack` on, up to [`FRAME_WORDS`].
    fn stack_from(&self, stack: u64) -> &[u64] {
        let stack = stack.max(self.bottom).next_multiple_of(8);
        let words = (self.saved.get().saturating_sub(stack) / 8) as usize;
        // SAFETY: from the program's stack pointer up to that of `enter` is this thread's own
        // stack, and nothing writes there before the slice is gone.
        unsafe { std::slice::from_raw_parts(stack as *const u64, words.min(FRAME_WORDS)) }
    }

    /// Records why the program is left. Called from a signal handler, so it explains nothing yet.
    pub(super) fn note_fault(&self, number: i32, code: i32, accessed: u64) {
        self.fault.set(Some((number, code, accessed)));
    }

    /// Makes the vCPU end with an error.
    pub(super) fn set_error(&self, error: Error) {
        self.error.borrow_mut().get_or_insert(error);
    }

    /// Returns where the program is when its instruction pointer is `address` and its stack pointer
    /// is `stack`.
    pub(super) fn place(&self, address: u64, stack: u64) -> Place {
        self.place_with(address, self.stack_from(stack))
    }

    fn place_with(&self, address: u64, frames: &[u64]) -> Place {
        Place::find(address, frames, |address| self.host().vcpus.code.contains(address))
    }
}

/// Returns the lowest address of this thread's stack that may be used.
fn stack_bottom() -> u64 {
    // SAFETY: any value will do; the next call fills it.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    let (mut start, mut bytes, mut guard) = (ptr::null_mut(), 0, 0);
    // SAFETY: this thread exists.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) } != 0 {
        // Then no place has callers.
        return UNKNOWN;
    }
    // SAFETY: the attributes have been filled in, and are valid until they are destroyed.
    unsafe {
        libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut bytes);
        libc::pthread_attr_getguardsize(&raw const attributes, &raw mut guard);
        libc::pthread_attr_destroy(&raw mut attributes);
    }
    // Whether the guard is part of the range differs between C libraries.
    start as u64 + guard as u64
}

/// Calls `body(context)` after saving its own stack pointer in `saved`.
///
/// # Safety
/// `body` does not unwind, and `saved` is writable.
#[unsafe(naked)]
unsafe extern "C" fn enter(
    saved: *mut u64,
    body: extern "C" fn(&Context),
    context: *const Context,
) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [rdi], rsp",
        "mov rdi, rdx",
        "call rsi",
        "mov rdi, rsp",
        "jmp {leave}",
        leave = sym leave,
    )
}

/// Returns from the [`enter`] that saved `saved`.
///
/// # Safety
/// That `enter` has not returned, it belongs to this thread, and no frame above it owns anything.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(saved: u64) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "cld",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
