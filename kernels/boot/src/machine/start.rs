//! From the entry to all CPUs running: what is done once, and what each CPU does.

use super::{apic, clock, interrupts, io, segments};
use crate::{console, cpus, say};

/// The page where the other CPUs start, in real mode: below 1 MiB, and otherwise unused.
pub const TRAMPOLINE: usize = 0x8000;

/// How long the other CPUs may take to come up.
const START_TIMEOUT_NS: u64 = 50_000_000_000;

/// What QEMU passes to a kernel that it starts directly (`hvm_start_info`, Xen's public headers).
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    modules_at: u64,
    command_line_at: u64,
}

const MAGIC: u32 = 0x336e_c578;

/// The command line in the start information at `address`.
///
/// # Safety
/// `address` is what the loader passed, and is mapped.
pub unsafe fn command_line(address: usize) -> &'static str {
    // SAFETY: the caller's word.
    let info = unsafe { &*core::ptr::with_exposed_provenance::<StartInfo>(address) };
    let at = info.command_line_at as usize;
    if info.magic != MAGIC || at == 0 {
        return "";
    }
    // SAFETY: a string that ends in zero, in memory that the loader has set aside.
    let line = unsafe { core::ffi::CStr::from_ptr(core::ptr::with_exposed_provenance(at)) };
    line.to_str().unwrap_or("")
}

/// Prepares the first CPU: clock, interrupts, console.
///
/// # Safety
/// Called once, by the CPU that started first, with interrupts disabled.
pub unsafe fn first() {
    console::set(super::serial::write);
    // SAFETY: the caller's word.
    unsafe {
        // Mask both of the old interrupt controllers.
        io::outb(0xa1, 0xff);
        io::outb(0x21, 0xff);
        interrupts::prepare();
        this_cpu(0, || {});
    }
    clock::calibrate();
    apic::calibrate();
}

/// Prepares the calling CPU, as number `cpu`, and by what its world `also` needs before it is up.
///
/// # Safety
/// As for [`segments::load`].
pub unsafe fn this_cpu(cpu: usize, also: fn()) {
    // SAFETY: the caller's word.
    unsafe {
        segments::load(cpu);
        interrupts::load();
    }
    apic::enable();
    also();
    cpus::is_up();
    // SAFETY: the handlers are in place.
    unsafe { io::enable_interrupts() };
}

/// Starts all other CPUs, and waits until there are `wanted` in all.
pub fn others(wanted: usize) {
    if wanted > 1 {
        apic::start_others((TRAMPOLINE >> 12) as u8);
    }
    let deadline = clock::now_ns() + START_TIMEOUT_NS;
    while cpus::started() < wanted {
        assert!(clock::now_ns() < deadline, "only {} of {wanted} CPUs started", cpus::started());
        core::hint::spin_loop();
    }
    say!("{{\"kind\":\"started\",\"cpus\":{wanted}}}");
}

/// Prepares another CPU, which has a stack by now, as [`this_cpu`] does, and runs `work` on it.
///
/// # Safety
/// Called once by each CPU but the first, with the number that it got.
pub unsafe fn other(cpu: usize, also: fn(), work: fn() -> !) -> ! {
    // SAFETY: the caller's word.
    unsafe { this_cpu(cpu, also) };
    work()
}
