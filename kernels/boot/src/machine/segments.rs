//! Stacks, and the descriptor and task-state tables by which interrupts find theirs.

use core::arch::asm;
use core::cell::UnsafeCell;

use crate::cpus::{self, MAX};
use crate::machine::io::wrmsr;

/// Bytes of each stack.
pub const STACK: usize = 32 << 10;
/// The stacks of interrupts: ordinary ones, non-maskable ones, faults, and kicks, which may come in
/// while a handler of the first kind waits.
pub const INTERRUPT_STACKS: usize = 4;

/// Memory that one CPU uses, or the hardware on its behalf.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Raw<T>(pub UnsafeCell<T>);

// SAFETY: the comment of each such static names its user; all access is through raw pointers.
unsafe impl<T> Sync for Raw<T> {}

/// All stacks: for each CPU the one it starts on, then those of its interrupts.
pub static STACKS: Raw<[[u8; STACK]; MAX * (1 + INTERRUPT_STACKS)]> =
    Raw(UnsafeCell::new([[0; STACK]; MAX * (1 + INTERRUPT_STACKS)]));

/// A 64-bit task state segment, as far as it is used.
#[repr(C, packed(4))]
struct TaskState {
    reserved: u32,
    stacks: [u64; 3],
    reserved2: u64,
    interrupt_stacks: [u64; 7],
    reserved3: [u32; 3],
}

#[repr(C, align(16))]
struct Tables {
    descriptors: [u64; 5],
    task: TaskState,
}

static TABLES: Raw<[Tables; MAX]> = Raw(UnsafeCell::new(
    [const {
        let task = TaskState {
            reserved: 0,
            stacks: [0; 3],
            reserved2: 0,
            interrupt_stacks: [0; 7],
            reserved3: [0; 3],
        };
        Tables { descriptors: [0; 5], task }
    }; MAX],
));

/// A register of a descriptor table.
#[repr(C, packed)]
pub(super) struct TableRegister {
    pub(super) limit: u16,
    pub(super) base: u64,
}

const CODE: u64 = 0x00af_9b00_0000_ffff;
const DATA: u64 = 0x00cf_9300_0000_ffff;
const AVAILABLE_TASK: u64 = 0x89 << 40;
const IA32_GS_BASE: u32 = 0xc000_0101;

/// The top of stack `which` of CPU number `cpu`; 0 is the one that it starts on.
pub fn stack_top(cpu: usize, which: usize) -> usize {
    STACKS.0.get().addr() + (cpu * (1 + INTERRUPT_STACKS) + which + 1) * STACK
}

/// Makes this CPU number `cpu`, with that number's tables and record.
///
/// # Safety
/// Called once for each number, by the CPU that will have it, on the bare machine, with interrupts
/// disabled.
pub unsafe fn load(cpu: usize) {
    // SAFETY: the tables of this number are used by this CPU only.
    let tables = unsafe { &mut (*TABLES.0.get())[cpu] };
    let task = (&raw const tables.task).addr() as u64;
    tables.task.interrupt_stacks =
        core::array::from_fn(|i| stack_top(cpu, 1 + i.min(INTERRUPT_STACKS - 1)) as u64);
    let limit = size_of::<TaskState>() as u64 - 1;
    let low = limit | (task & 0xff_ffff) << 16 | AVAILABLE_TASK | (task >> 24 & 0xff) << 56;
    tables.descriptors = [0, CODE, DATA, low, task >> 32];
    let base = (&raw const tables.descriptors).addr() as u64;
    let register = TableRegister { limit: size_of::<[u64; 5]>() as u16 - 1, base };
    // SAFETY: the descriptors are of a flat 64-bit kernel, as the entry code's were, and stay.
    unsafe {
        asm!(
            "lgdt [{table}]",
            "push 8",
            "lea {scratch}, [rip + 2f]",
            "push {scratch}",
            "retfq",
            "2:",
            "mov {scratch:e}, 16",
            "mov ds, {scratch:e}",
            "mov es, {scratch:e}",
            "mov ss, {scratch:e}",
            "mov {scratch:e}, 24",
            "ltr {scratch:x}",
            table = in(reg) &raw const register,
            scratch = out(reg) _,
        );
        wrmsr(IA32_GS_BASE, cpus::prepare(cpu) as u64);
    }
}
