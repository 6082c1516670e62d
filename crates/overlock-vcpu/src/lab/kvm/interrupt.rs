//! Interrupts at CPL 3, without the processor's help.
//!
//! The host stops the vCPU at any instruction, pushes that instruction's address onto the stack and
//! makes the vCPU continue at [`entry`]. That saves every register that a compiled function can
//! change, calls the program's handler, restores the registers and *returns* to the interrupted
//! instruction.
//!
//! ```text
//!   high  ...                      ◄ rsp when interrupted, and again afterwards
//!         128 bytes                  the red zone: the interrupted function can use it
//!         interrupted rip          ◄ rsp when `entry` begins
//!         flags, nine registers
//!   low   XSAVE area, 64-aligned
//! ```
//!
//! Source of the red zone: System V AMD64 ABI, 3.2.2.

use std::arch::naked_asm;

use crate::lab::guest::abi::VcpuRecord;

/// Bytes below the stack pointer that a function can use without moving it.
const RED_ZONE: u64 = 128;

/// Bytes that must be free on the stack for an interrupt, including the handler's own needs.
pub(crate) const ROOM: u64 = 16 << 10;

/// The part of the extended state that the guest may use: x87, SSE, AVX, AVX-512. The C library's
/// `memcpy` uses whatever is available.
pub(crate) const EXTENDED_STATE: u64 = 0xe7;

/// Bytes that XSAVE needs for [`EXTENDED_STATE`] (Intel SDM volume 1, 13.5: the ZMM state ends at
/// 2688), rounded up to 64.
const AREA: usize = 2688;

/// Returns where the host puts the interrupted address, given the interrupted stack pointer.
pub(crate) fn frame(rsp: u64) -> u64 {
    rsp - RED_ZONE - 8
}

/// The code at which an interrupted vCPU continues; not a function that Rust code could call.
#[unsafe(naked)]
pub(crate) extern "C" fn entry() {
    naked_asm!(
        "pushfq",
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push rbp",
        "mov rbp, rsp",
        "cld",
        "sub rsp, {area}",
        "and rsp, -64",
        // XSAVE leaves most of the header alone, and XRSTOR requires it to be zero.
        "xor eax, eax",
        "mov [rsp + 512], rax",
        "mov [rsp + 520], rax",
        "mov [rsp + 528], rax",
        "mov [rsp + 536], rax",
        "mov [rsp + 544], rax",
        "mov [rsp + 552], rax",
        "mov [rsp + 560], rax",
        "mov [rsp + 568], rax",
        "mov eax, {state}",
        "xor edx, edx",
        "xsave64 [rsp]",
        "mov rdi, gs:[0]",
        "call [rdi + {deliver}]",
        "mov eax, {state}",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "mov rsp, rbp",
        "pop rbp",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "popfq",
        "ret {red_zone}",
        area = const AREA,
        state = const EXTENDED_STATE,
        deliver = const std::mem::offset_of!(VcpuRecord, hooks.deliver),
        red_zone = const RED_ZONE,
    )
}
