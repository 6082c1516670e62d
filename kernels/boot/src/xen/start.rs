//! From Xen's entry to all vCPUs running.
//!
//! Xen has built page tables that map the image, the list of machine frames and itself. All vCPUs
//! use them as they are.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::abi::{self, Context, Registers, Runstate, StartInfo, Trap};
use super::calls::{self, ensure};
use super::events;
use crate::cpus::{self, MAX};
use crate::machine::{clock, segments};
use crate::{console, say};

/// How long the other vCPUs may take to come up.
const START_TIMEOUT_NS: u64 = 50_000_000_000;

static RUNSTATES: [Runstate; MAX] = [const {
    Runstate {
        state: AtomicI32::new(0),
        since: AtomicU64::new(0),
        time: [const { AtomicU64::new(0) }; 4],
    }
}; MAX];

/// How long vCPU `cpu` was in which state.
pub fn runstate(cpu: usize) -> &'static Runstate {
    &RUNSTATES[cpu]
}

/// Prepares the first vCPU. Returns the command line.
///
/// # Safety
/// Called once, with what Xen passed, by the vCPU that started first.
pub unsafe fn first(info: &'static StartInfo) -> &'static str {
    console::set(calls::write, |work| events::without(work));
    // SAFETY: this vCPU's record becomes what GS is based on; the page is mapped over one of this
    // image that nothing else uses; the callback is there for good.
    unsafe {
        let record = cpus::prepare(0) as u64;
        ensure(calls::call(abi::SET_SEGMENT_BASE, [abi::GS_KERNEL, record, 0, 0]), "set GS");
        let (page, entry) = (events::SHARED.0.get().addr() as u64, info.shared_info | 7);
        // UVMF_INVLPG: this vCPU forgets what was mapped there.
        ensure(calls::call(abi::UPDATE_VA_MAPPING, [page, entry, 2, 0]), "map the shared page");
        let upcall = (events::upcall as *const ()).addr() as u64;
        let failsafe = (failsafe as *const ()).addr() as u64;
        ensure(calls::call(abi::SET_CALLBACKS, [upcall, failsafe, 0, 0]), "register callbacks");
    }
    events::shared().mask.iter().for_each(|word| word.store(0, SeqCst));
    set_clock();
    this_vcpu();
    // SAFETY: ends in zero, by Xen's word.
    unsafe { core::ffi::CStr::from_ptr(info.cmd_line.as_ptr()) }.to_str().unwrap_or("")
}

/// Sets the clock to Xen's own, which deadlines are given in.
pub(super) fn set_clock() {
    let time = &events::shared().vcpus[0].time;
    let (mul, shift) =
        (u64::from(time.tsc_to_system_mul.load(Relaxed)), time.tsc_shift.load(Relaxed));
    let scale = if shift < 0 { mul >> -shift } else { mul << shift };
    // Xen writes these two together, and not while this vCPU runs.
    let (ns, at) = (time.system_time.load(Relaxed), time.tsc_timestamp.load(Relaxed));
    let since = ((u128::from(ns) << 32) / u128::from(scale)) as u64;
    clock::set(scale, at.wrapping_sub(since));
}

/// Prepares the calling vCPU of a paravirtual guest.
fn this_vcpu() {
    prepare();
    cpus::is_up();
    events::enable();
}

/// Lets Xen report where this vCPU's time goes, and binds its channels.
pub(super) fn prepare() {
    let me = cpus::this().number();
    let area = (&raw const RUNSTATES[me]).addr() as u64;
    let op = |op, argument| {
        // SAFETY: Xen writes this vCPU's times into an area of their layout from here on.
        unsafe { calls::call(abi::VCPU_OP, [op, me as u64, argument, 0]) }
    };
    ensure(op(abi::VCPU_REGISTER_RUNSTATE, (&raw const area).addr() as u64), "report run states");
    ensure(op(abi::VCPU_STOP_PERIODIC, 0), "stop a timer");
    events::bind();
}

static WORK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Where the other vCPUs start, with their number in RDI.
#[unsafe(naked)]
unsafe extern "C" fn other() {
    naked_asm!("cld", "call {}", "ud2", sym other_in_rust)
}

/// Xen's callback for when it can't return to the guest. Stops the vCPU.
#[unsafe(naked)]
unsafe extern "C" fn failsafe() {
    naked_asm!("ud2")
}

extern "C" fn other_in_rust(_cpu: usize) -> ! {
    this_vcpu();
    let work = WORK.load(SeqCst);
    // SAFETY: `others` stored a `fn() -> !` before it started this vCPU.
    let work = unsafe { core::mem::transmute::<*mut (), fn() -> !>(work) };
    work()
}

/// How vCPU `cpu` is to start, with the page tables in machine frame `top`.
fn context(cpu: usize, top: u64) -> Context {
    let stack = segments::stack_top(cpu, 0) as u64;
    Context {
        fpu: [0; 512],
        flags: abi::IN_KERNEL,
        registers: Registers {
            rdi: cpu as u64,
            rip: (other as *const ()).addr() as u64,
            cs: abi::KERNEL_CS,
            rsp: stack,
            ss: abi::KERNEL_SS,
            ds: abi::KERNEL_SS,
            es: abi::KERNEL_SS,
            ..Registers::default()
        },
        traps: [Trap::default(); 256],
        ldt: [0; 2],
        gdt_frames: [0; 16],
        gdt_entries: 0,
        kernel_ss: abi::KERNEL_SS,
        kernel_sp: stack,
        // CR3 is machine frame and address at once.
        control: [0, 0, 0, top << 12, 0, 0, 0, 0],
        debug: [0; 8],
        event_callback: (events::upcall as *const ()).addr() as u64,
        failsafe_callback: (failsafe as *const ()).addr() as u64,
        syscall_callback: (failsafe as *const ()).addr() as u64,
        vm_assist: 0,
        fs_base: 0,
        gs_base_kernel: cpus::prepare(cpu) as u64,
        gs_base_user: 0,
    }
}

/// Starts the other vCPUs, which run `work`, and waits until `wanted` are up in all.
pub fn others(info: &StartInfo, wanted: usize, work: fn() -> !) {
    WORK.store(work as *mut (), SeqCst);
    // The image's frames are numbered by their addresses: it is linked for where it is loaded.
    let frame = info.pt_base >> 12;
    let frames = core::ptr::with_exposed_provenance::<u64>(info.mfn_list as usize);
    // SAFETY: Xen's list has an entry for each of the guest's frames.
    let top = unsafe { frames.add(frame as usize).read() };
    for cpu in 1..wanted {
        let context = UnsafeCell::new(context(cpu, top));
        let argument = context.get().addr() as u64;
        // SAFETY: reads the context; the vCPU starts on a stack of its own.
        let results = unsafe {
            [
                calls::call(abi::VCPU_OP, [abi::VCPU_INITIALISE, cpu as u64, argument, 0]),
                calls::call(abi::VCPU_OP, [abi::VCPU_UP, cpu as u64, 0, 0]),
            ]
        };
        assert!(results == [0, 0], "Xen refused to start vCPU {cpu}: {results:?}");
    }
    let deadline = clock::now_ns() + START_TIMEOUT_NS;
    while cpus::started() < wanted {
        assert!(clock::now_ns() < deadline, "only {} of {wanted} vCPUs started", cpus::started());
        calls::give_way();
    }
    say!("{{\"kind\":\"started\",\"cpus\":{wanted}}}");
}
