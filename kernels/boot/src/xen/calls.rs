//! Hypercalls: calls into a page that Xen fills.

use core::arch::asm;
use core::cell::UnsafeCell;

use super::abi;
use crate::machine::segments::Raw;

/// The page of hypercalls: number `n` is at `32 * n`. Xen fills it when it is told where it is.
pub static PAGE: Raw<[u8; 4096]> = Raw(UnsafeCell::new([0x90; 4096]));

/// Hypercall number `call` with up to four arguments.
///
/// # Safety
/// That of the hypercall.
#[inline]
pub unsafe fn call(call: u32, arguments: [u64; 4]) -> i64 {
    let entry = PAGE.0.get().addr() + call as usize * 32;
    let result;
    // SAFETY: Xen keeps all registers but these; the stack below is its guest's own, and the call
    // may use it.
    unsafe {
        asm!(
            "call {}",
            in(reg) entry,
            inlateout("rdi") arguments[0] => _,
            inlateout("rsi") arguments[1] => _,
            inlateout("rdx") arguments[2] => _,
            inlateout("r10") arguments[3] => _,
            lateout("rax") result,
            out("rcx") _,
            out("r11") _,
        );
    }
    result
}

/// Asserts that a hypercall has done what it was for.
pub(super) fn ensure(result: i64, what: &str) {
    assert!(result == 0, "Xen refused to {what}: {result}");
}

pub fn write(bytes: &[u8]) {
    // SAFETY: reads bytes.
    unsafe { call(abi::CONSOLE_IO, [0, bytes.len() as u64, bytes.as_ptr().addr() as u64, 0]) };
}

/// Ends the machine, if the domain is Xen's first, by a reboot, on which QEMU is told to exit.
pub fn reboot() -> ! {
    let reason = abi::REBOOT;
    // SAFETY: reads one number.
    unsafe { call(abi::SCHED_OP, [abi::SCHED_SHUTDOWN, (&raw const reason).addr() as u64, 0, 0]) };
    loop {
        core::hint::spin_loop();
    }
}

/// Gives the processor to another vCPU that can run.
pub fn give_way() {
    // SAFETY: no memory.
    unsafe { call(abi::SCHED_OP, [abi::SCHED_YIELD, 0, 0, 0]) };
}

/// Sleeps until an event is pending on `port`, another interrupts, or Xen's clock reaches
/// `timeout_ns` (0: for ever). Returns at once if one is pending.
pub fn poll(port: Option<u32>, timeout_ns: u64) {
    #[repr(C)]
    struct Poll {
        ports: *const u32,
        count: u32,
        timeout: u64,
    }
    let ports = port.unwrap_or(0);
    let poll =
        Poll { ports: &raw const ports, count: u32::from(port.is_some()), timeout: timeout_ns };
    // SAFETY: reads what is on this stack.
    unsafe { call(abi::SCHED_OP, [abi::SCHED_POLL, (&raw const poll).addr() as u64, 0, 0]) };
}

/// Makes an event pending on `port`.
pub fn send(port: u32) {
    // SAFETY: reads one number.
    unsafe { call(abi::EVENT_CHANNEL_OP, [abi::SEND, (&raw const port).addr() as u64, 0, 0]) };
}

/// A new event channel of vCPU `cpu`: for what other vCPUs send, or for its virtual interrupt.
pub fn bind(cpu: usize, virtual_interrupt: Option<u32>) -> u32 {
    let result;
    let mut bound = [virtual_interrupt.unwrap_or(cpu as u32), cpu as u32, 0];
    let port = match virtual_interrupt {
        Some(_) => {
            let arg = (&raw mut bound).addr() as u64;
            // SAFETY: reads two numbers and writes the third.
            result = unsafe { call(abi::EVENT_CHANNEL_OP, [abi::BIND_VIRQ, arg, 0, 0]) };
            2
        }
        None => {
            let arg = (&raw mut bound).addr() as u64;
            // SAFETY: reads one number and writes the second.
            result = unsafe { call(abi::EVENT_CHANNEL_OP, [abi::BIND_IPI, arg, 0, 0]) };
            1
        }
    };
    assert!(result == 0, "no event channel for vCPU {cpu}: {result}");
    // SAFETY: Xen has written it, which the compiler can't know.
    unsafe { (&raw const bound[port]).read_volatile() }
}
