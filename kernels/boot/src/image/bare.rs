//! From what QEMU's PVH loader leaves (32-bit, no paging) to Rust in 64-bit mode.
//!
//! The first 4 GiB are mapped to themselves by large pages. The other CPUs come from real mode
//! through the trampoline, which is copied below 1 MiB.

use core::arch::global_asm;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use overlock_boot::kernel::{Kernel, set_waiting, work};
use overlock_boot::machine::segments::{INTERRUPT_STACKS, STACK, STACKS};
use overlock_boot::machine::{serial, start};
use overlock_boot::plan::CommandLine;
use overlock_boot::platform::bare::Bare;
use overlock_boot::platform::kvm::Kvm;
use overlock_boot::platform::xen::Xen;
use overlock_boot::work::run;
use overlock_boot::xen::pvh;

/// The number of the next CPU that starts.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Protected mode without paging -> 64-bit mode with the tables at `map_4`.
macro_rules! to_long_mode {
    ($then:literal) => {
        concat!(
            // Physical address extension, SSE.
            "mov eax, cr4\n or eax, 0x620\n mov cr4, eax\n",
            "mov eax, offset map_4\n mov cr3, eax\n",
            // Long mode.
            "mov ecx, 0xc0000080\n rdmsr\n or eax, 0x100\n wrmsr\n",
            // Paging, protection, numeric errors, no emulation of the FPU.
            "mov eax, 0x80000033\n mov cr0, eax\n",
            "lgdt [boot_gdt_register]\n",
            // A far jump, which this syntax of the assembler can't express.
            ".byte 0xea\n .long ",
            $then,
            "\n .word 8\n"
        )
    };
}

global_asm!(
    // XEN_ELFNOTE_PHYS32_ENTRY: where a loader that follows PVH enters.
    ".section .note.overlock, \"a\", @note",
    ".balign 4",
    ".long 4, 4, 18",
    ".asciz \"Xen\"",
    ".long pvh_start",
    ".section .bss.tables, \"aw\", @nobits",
    ".balign 4096",
    "map_4: .skip 4096",
    "map_3: .skip 4096",
    "map_2: .skip 4 * 4096",
    ".section .rodata.boot, \"a\"",
    ".balign 8",
    // Null, 64-bit code, data, 32-bit code.
    "boot_gdt: .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff, 0x00cf9b000000ffff",
    "boot_gdt_register: .word 31",
    ".long boot_gdt, 0",
    ".text",
    ".globl pvh_start",
    ".code32",
    "pvh_start:",
    "cld",
    "cli",
    "mov ebp, ebx",
    // 2,048 pages of 2 MiB.
    "mov edi, offset map_2",
    "mov eax, 0x83",
    "2:",
    "mov [edi], eax",
    "add eax, 0x200000",
    "add edi, 8",
    "cmp edi, offset map_2 + 4 * 4096",
    "jb 2b",
    "mov edi, offset map_3",
    "mov eax, offset map_2 + 3",
    "mov ecx, 4",
    "2:",
    "mov [edi], eax",
    "add eax, 4096",
    "add edi, 8",
    "loop 2b",
    "mov dword ptr [map_4], offset map_3 + 3",
    to_long_mode!("first_in_64"),
    ".code64",
    "first_in_64:",
    "mov eax, 16",
    "mov ds, eax",
    "mov es, eax",
    "mov ss, eax",
    "lea rsp, [rip + {stacks} + {stack}]",
    "mov edi, ebp",
    "call {first}",
    "ud2",
    ".code16",
    "trampoline:",
    "cli",
    "cld",
    "xor ax, ax",
    "mov ds, ax",
    // lgdt with a 32-bit base, from where the copy of the register's value lies.
    ".byte 0x66, 0x0f, 0x01, 0x16",
    ".word {page} + trampoline_gdt - trampoline",
    "mov eax, cr0",
    "or eax, 1",
    "mov cr0, eax",
    ".byte 0x66, 0xea",
    ".long other_in_32",
    ".word 24",
    "trampoline_gdt: .word 31",
    ".long boot_gdt",
    "trampoline_end:",
    ".code32",
    "other_in_32:",
    "mov eax, 16",
    "mov ds, eax",
    "mov es, eax",
    "mov ss, eax",
    to_long_mode!("other_in_64"),
    ".code64",
    "other_in_64:",
    "mov edi, 1",
    "lock xadd [rip + {next}], edi",
    "imul eax, edi, {between}",
    "lea rsp, [rip + {stacks} + {stack}]",
    "add rsp, rax",
    "call {other}",
    "ud2",
    stacks = sym STACKS,
    stack = const STACK,
    between = const (1 + INTERRUPT_STACKS) * STACK,
    page = const start::TRAMPOLINE,
    next = sym NEXT,
    first = sym first,
    other = sym other,
);

unsafe extern "C" {
    static trampoline: u8;
    static trampoline_end: u8;
}

/// The entry of the first CPU.
extern "C" fn first(info: usize) -> ! {
    super::probes::keep();
    // SAFETY: what the loader passed.
    let plan = CommandLine(unsafe { start::command_line(info) });
    let is_xen = plan.get("on") == Some("xen");
    super::set_exit(if is_xen { Xen::exit } else { serial::exit });
    // SAFETY: once, on the first CPU, with interrupts disabled.
    unsafe { if is_xen { pvh::first() } else { start::first() } };
    let (from, to) = (&raw const trampoline, start::TRAMPOLINE);
    let bytes = (&raw const trampoline_end).addr() - from.addr();
    // SAFETY: unused memory below 1 MiB, large enough for the trampoline.
    unsafe { from.copy_to(core::ptr::with_exposed_provenance_mut(to), bytes) };
    match plan.get("on").unwrap_or("bare") {
        "bare" => {
            if plan.get("halt") == Some("call") {
                Bare::halt_by_call();
            }
            set_waiting::<Bare>(plan.wants_waiting());
            begin::<Bare>(plan)
        }
        "xen" => {
            ON_XEN.store(true, Relaxed);
            set_waiting::<Xen>(plan.wants_waiting());
            begin::<Xen>(plan)
        }
        "kvm" => {
            Kvm::detect(&plan);
            begin::<Kvm>(plan)
        }
        other => panic!("on={other}: choose bare, kvm or xen"),
    }
}

fn begin<K: Kernel>(plan: CommandLine<'_>) -> ! {
    WORK.store(work::<K> as *mut (), core::sync::atomic::Ordering::SeqCst);
    start::others(plan.number("smp", 1) as usize);
    run::<K>(plan)
}

/// The function that the other CPUs run.
static WORK: core::sync::atomic::AtomicPtr<()> =
    core::sync::atomic::AtomicPtr::new(core::ptr::null_mut());

/// Whether the other CPUs are Xen's, which numbers them itself.
static ON_XEN: AtomicBool = AtomicBool::new(false);

/// The entry of every other CPU.
extern "C" fn other(cpu: usize) -> ! {
    let work = WORK.load(core::sync::atomic::Ordering::SeqCst);
    // SAFETY: `begin` stored a `fn() -> !` before it started this CPU.
    let work = unsafe { core::mem::transmute::<*mut (), fn() -> !>(work) };
    let (cpu, also): (_, fn()) = match ON_XEN.load(Relaxed) {
        true => (pvh::number(), pvh::prepare),
        false => (cpu, || {}),
    };
    // SAFETY: once on this CPU, with the number that it drew, or has.
    unsafe { start::other(cpu, also, work) }
}
