//! The entry of a paravirtual guest of Xen (64-bit, mapped, start information in RSI).

use core::arch::global_asm;

use overlock_boot::kernel::{Machine as _, set_waiting, work};
use overlock_boot::machine::segments::{STACK, STACKS};
use overlock_boot::plan::Plan;
use overlock_boot::platform::xen::Xen;
use overlock_boot::work::run;
use overlock_boot::xen::abi::StartInfo;
use overlock_boot::xen::{calls, start};

global_asm!(
    ".macro text_note kind, text",
    ".balign 4",
    ".long 4, 9f - 8f, \\kind",
    ".asciz \"Xen\"",
    "8: .asciz \"\\text\"",
    "9: .balign 4",
    ".endm",
    ".macro address_note kind, address",
    ".balign 4",
    ".long 4, 8, \\kind",
    ".asciz \"Xen\"",
    ".quad \\address",
    ".endm",
    ".section .note.overlock, \"a\", @note",
    "text_note 6, \"overlock\"",
    "text_note 5, \"xen-3.0\"",
    "text_note 8, \"generic\"",
    // The entry, the hypercall page, and that the image runs at the addresses it is linked for.
    "address_note 1, xen_start",
    "address_note 2, {page}",
    "address_note 3, 0",
    "address_note 4, 0",
    ".text",
    ".globl xen_start",
    "xen_start:",
    "cld",
    "lea rsp, [rip + {stacks} + {stack}]",
    "mov rdi, rsi",
    "call {first}",
    "ud2",
    page = sym calls::PAGE,
    stacks = sym STACKS,
    stack = const STACK,
    first = sym first,
);

/// The entry of the first vCPU.
extern "C" fn first(info: &'static StartInfo) -> ! {
    super::set_exit(Xen::exit);
    // SAFETY: once, on the first vCPU, with what Xen passed.
    let plan = Plan(unsafe { start::first(info) });
    set_waiting::<Xen>(plan.wants_waiting());
    start::others(info, plan.number("smp", 1) as usize, work::<Xen>);
    run::<Xen>(plan)
}
