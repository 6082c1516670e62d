//! The handlers of interrupts and faults, each on a stack of its own.

use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use super::segments::{Raw, TableRegister};
use super::{apic, halt};
use crate::cpus::{self, count};

/// What a handler does besides counting; set by the work that runs.
static ON_TICK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static ON_NMI: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
/// What handles events, under Xen.
static ON_EVENT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

fn call(hook: &AtomicPtr<()>) {
    let hook = hook.load(Relaxed);
    if !hook.is_null() {
        // SAFETY: only `on_tick`, `on_nmi` and `on_event` store here, and they store a `fn()`.
        let hook = unsafe { mem::transmute::<*mut (), fn()>(hook) };
        hook();
    }
}

fn set(hook: &AtomicPtr<()>, to: Option<fn()>) {
    hook.store(to.map_or(ptr::null_mut(), |to| to as *mut ()), Relaxed);
}

/// Each tick of each CPU's timer calls `hook`.
pub fn on_tick(hook: Option<fn()>) {
    set(&ON_TICK, hook);
}

/// Each non-maskable interrupt calls `hook`.
pub fn on_nmi(hook: Option<fn()>) {
    set(&ON_NMI, hook);
}

/// Each interrupt by which Xen says that there are events calls `hook`.
pub fn on_event(hook: fn()) {
    set(&ON_EVENT, Some(hook));
}

/// Handles a tick, whatever timer it is from.
pub fn tick() {
    count(&cpus::this().tally.ticks);
    call(&ON_TICK);
}

/// The registers that a stub pushes, and above them what the processor pushes.
#[repr(C)]
struct Frame {
    saved: [u64; 10],
    rip: u64,
    cs: u64,
    flags: u64,
    rsp: u64,
    ss: u64,
}

/// A stub that saves the registers that a function may change, and calls `$handler` with the frame.
macro_rules! stub {
    ($name:ident, $handler:path, $($error:literal)?) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                $($error,)?
                "push rbp", "push rax", "push rcx", "push rdx", "push rsi", "push rdi",
                "push r8", "push r9", "push r10", "push r11",
                "mov rbp, rsp",
                "mov rdi, rsp",
                "sub rsp, 512",
                "and rsp, -16",
                "fxsave64 [rsp]",
                "cld",
                "call {}",
                "fxrstor64 [rsp]",
                "mov rsp, rbp",
                "pop r11", "pop r10", "pop r9", "pop r8",
                "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rax", "pop rbp",
                "iretq",
                sym $handler,
            )
        }
    };
}

stub!(tick_stub, handle_tick,);
stub!(event_stub, handle_event,);
stub!(kick_stub, handle_kick,);
stub!(nmi_stub, handle_nmi,);
stub!(deadline_stub, handle_deadline,);
stub!(spurious_stub, handle_spurious,);
stub!(fault_stub, handle_fault,);
stub!(fault_with_code_stub, handle_fault, "add rsp, 8");

extern "C" fn handle_tick(frame: &mut Frame) {
    halt::note(false, frame.rip);
    apic::end_of_interrupt();
    tick();
    apic::next_tick();
}

extern "C" fn handle_event(frame: &mut Frame) {
    halt::note(false, frame.rip);
    apic::end_of_interrupt();
    call(&ON_EVENT);
}

extern "C" fn handle_kick(frame: &mut Frame) {
    halt::note(true, frame.rip);
    count(&cpus::this().tally.arrived);
    apic::end_of_interrupt();
}

extern "C" fn handle_deadline(frame: &mut Frame) {
    halt::note(false, frame.rip);
    apic::end_of_interrupt();
}

extern "C" fn handle_spurious(frame: &mut Frame) {
    halt::note(false, frame.rip);
}

extern "C" fn handle_nmi(frame: &mut Frame) {
    let me = cpus::this();
    halt::note(false, frame.rip);
    let saved = apic::save();
    me.in_nmi.fetch_add(1, Relaxed);
    count(&me.tally.nmis);
    call(&ON_NMI);
    me.in_nmi.fetch_sub(1, Relaxed);
    apic::restore(saved);
    frame.rip = halt::skip(frame.rip);
}

extern "C" fn handle_fault(frame: &mut Frame) -> ! {
    let cr2: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr2", out(reg) cr2, options(nostack, preserves_flags)) };
    let cpu = cpus::this().number();
    panic!("CPU {cpu}: a fault at {:#x}, CR2 {cr2:#x}, stack {:#x}", frame.rip, frame.rsp);
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Gate {
    low: u64,
    high: u64,
}

static GATES: Raw<[Gate; 256]> = Raw(UnsafeCell::new([Gate { low: 0, high: 0 }; 256]));

type Stub = unsafe extern "C" fn();

/// A gate to `stub`, on interrupt stack number `stack` (from 1).
fn gate(stub: Stub, stack: u64) -> Gate {
    let to = (stub as *const ()).addr() as u64;
    let kind = 0x8e << 40 | stack << 32;
    Gate { low: to & 0xffff | 8 << 16 | kind | (to >> 16 & 0xffff) << 48, high: to >> 32 }
}

/// Faults that push a code.
const WITH_CODE: [usize; 8] = [8, 10, 11, 12, 13, 14, 17, 21];

/// Writes the table. Once, by the first CPU.
///
/// # Safety
/// No other CPU runs, and interrupts are disabled.
pub unsafe fn prepare() {
    // SAFETY: the caller's word.
    let gates = unsafe { &mut *GATES.0.get() };
    for (vector, entry) in gates.iter_mut().enumerate() {
        *entry = match vector {
            2 => gate(nmi_stub, 2),
            0..32 if WITH_CODE.contains(&vector) => gate(fault_with_code_stub, 3),
            0..32 => gate(fault_stub, 3),
            v if v == usize::from(apic::TICK) => gate(tick_stub, 1),
            v if v == usize::from(apic::EVENT) => gate(event_stub, 1),
            v if v == usize::from(apic::KICK) => gate(kick_stub, 4),
            v if v == usize::from(apic::DEADLINE) => gate(deadline_stub, 4),
            _ => gate(spurious_stub, 4),
        };
    }
}

/// Uses the table on this CPU.
///
/// # Safety
/// The table and this CPU's segments are prepared.
pub unsafe fn load() {
    let base = GATES.0.get().addr() as u64;
    let register = TableRegister { limit: size_of::<[Gate; 256]>() as u16 - 1, base };
    // SAFETY: the gates lead to the stubs above, and stay.
    unsafe { asm!("lidt [{}]", in(reg) &raw const register, options(nostack)) };
}
