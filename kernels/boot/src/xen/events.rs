//! Events: Xen's interrupts. One channel a vCPU is for kicks, and masked: a kick ends a poll and
//! interrupts no vCPU. One is for the vCPU's timer.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering::*};

use super::abi::{self, SharedInfo, VcpuInfo};
use super::{calls, timer};
use crate::cpus::{self, MAX};
use crate::machine::interrupts;
use crate::machine::segments::Raw;

/// The page that Xen shares: mapped over this one.
pub static SHARED: Raw<[u8; 4096]> = Raw(UnsafeCell::new([0; 4096]));

/// The ports of the timers.
static TIMERS: [AtomicU32; MAX] = [const { AtomicU32::new(0) }; MAX];

pub fn shared() -> &'static SharedInfo {
    // SAFETY: a page of this layout, all of whose fields are atomics, mapped for good at the start.
    unsafe { &*SHARED.0.get().cast() }
}

pub fn own() -> &'static VcpuInfo {
    &shared().vcpus[cpus::this().number()]
}

fn bit(port: u32) -> (usize, u64) {
    (port as usize / 64, 1 << (port % 64))
}

/// Masks `port`: its events interrupt no vCPU.
pub fn mask(port: u32) {
    let (word, bit) = bit(port);
    shared().mask[word].fetch_or(bit, SeqCst);
}

/// Clears the event on `port`, and returns whether one was pending. No access is moved across it.
pub fn take(port: u32) -> bool {
    let (word, bit) = bit(port);
    shared().pending[word].fetch_and(!bit, SeqCst) & bit != 0
}

/// Makes an event pending on `port`, which must be masked.
pub fn set(port: u32) {
    let (word, bit) = bit(port);
    shared().pending[word].fetch_or(bit, SeqCst);
}

pub fn enabled() -> bool {
    own().upcall_mask.load(Relaxed) == 0
}

pub fn disable() {
    own().upcall_mask.store(1, SeqCst);
}

/// Enables events on this vCPU, and takes those that are pending.
pub fn enable() {
    own().upcall_mask.store(0, SeqCst);
    if own().upcall_pending.load(SeqCst) != 0 {
        // SAFETY: a hypercall without effect; the events come in at its end.
        unsafe { calls::call(abi::XEN_VERSION, [0, 0, 0, 0]) };
    }
}

/// Runs `work` while this vCPU takes no events.
pub fn without<R>(work: impl FnOnce() -> R) -> R {
    let were_enabled = enabled();
    disable();
    let result = work();
    if were_enabled {
        enable();
    }
    result
}

/// Binds this vCPU's channels: the kick's, masked, and the timer's.
pub fn bind() {
    let me = cpus::this();
    let kick = calls::bind(me.number(), None);
    mask(kick);
    me.port.store(kick, SeqCst);
    TIMERS[me.number()].store(calls::bind(me.number(), Some(abi::VIRQ_TIMER)), SeqCst);
}

/// What Xen calls, with the stack as of an interrupt and RCX and R11 above it.
///
/// # Safety
/// Called by Xen only.
#[unsafe(naked)]
pub unsafe extern "C" fn upcall() {
    naked_asm!(
        "push rbp", "push rax", "push rdx", "push rsi", "push rdi",
        "push r8", "push r9", "push r10",
        "mov rbp, rsp",
        "sub rsp, 512",
        "and rsp, -16",
        "fxsave64 [rsp]",
        "cld",
        "call {handle}",
        "fxrstor64 [rsp]",
        "mov rsp, rbp",
        "pop r10", "pop r9", "pop r8",
        "pop rdi", "pop rsi", "pop rdx", "pop rax", "pop rbp",
        // Return by hypercall, which alone can enable events and return in one step. Its entry in
        // the page pushes RCX, R11 and RAX itself; above them it wants flags.
        "pop rcx",
        "pop r11",
        "push 0",
        "jmp {page} + {iret} * 32",
        handle = sym handle,
        page = sym calls::PAGE,
        iret = const abi::IRET,
    )
}

/// Handles what is pending on this vCPU.
pub(super) fn take_all() {
    handle();
}

extern "C" fn handle() {
    let own = own();
    own.upcall_pending.store(0, SeqCst);
    own.pending_words.swap(0, SeqCst);
    // The only channel of this vCPU that is not masked. The channels of all vCPUs share a word, so
    // other bits in it are left alone.
    if take(TIMERS[cpus::this().number()].load(Relaxed)) {
        interrupts::tick();
        timer::ask_for_tick();
    }
}
