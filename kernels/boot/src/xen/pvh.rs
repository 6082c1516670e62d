//! The way from a bare machine's start to a guest of Xen, with page tables, interrupts and an APIC
//! of its own. Events come as interrupts, by a vector for each vCPU.

use core::arch::x86_64::__cpuid;

use super::{abi, calls, events, start};
use crate::console;
use crate::cpus;
use crate::machine::{self, apic, interrupts, io};

/// "XenVMMXenVMM" in EBX, ECX, EDX of the first of Xen's leaves.
const XEN: [u32; 3] = [0x566e_6558, 0x6558_4d4d, 0x4d4d_566e];

/// The first of Xen's leaves, if this is Xen.
fn leaves() -> Option<u32> {
    (0x4000_0000..0x4001_0000).step_by(0x100).find(|leaf| {
        let found = __cpuid(*leaf);
        [found.ebx, found.ecx, found.edx] == XEN
    })
}

/// The number that Xen gives the calling vCPU.
pub fn number() -> usize {
    __cpuid(leaves().expect("Xen") + 4).ebx as usize
}

/// Prepares the first vCPU.
///
/// # Safety
/// Called once, in 64-bit mode, by the vCPU that started first, with interrupts disabled.
pub unsafe fn first() {
    let register = __cpuid(leaves().expect("Xen") + 2).ebx;
    // SAFETY: Xen fills the page, which is there for that.
    unsafe { io::wrmsr(register, calls::PAGE.0.get().addr() as u64) };
    console::set(calls::write);
    share();
    start::set_clock();
    interrupts::on_event(events::take_all);
    // SAFETY: the caller's word.
    unsafe {
        interrupts::prepare();
        machine::start::this_cpu(0, prepare);
    }
}

/// Maps the page that Xen shares over the one that is there for it.
fn share() {
    #[repr(C)]
    struct Add {
        domain: u16,
        size: u16,
        space: u32,
        index: u64,
        frame: u64,
    }
    let frame = (events::SHARED.0.get().addr() >> 12) as u64;
    let add = Add { domain: abi::SELF, size: 0, space: abi::SHARED_INFO, index: 0, frame };
    let argument = (&raw const add).addr() as u64;
    // SAFETY: the page is this image's, and used for nothing else.
    let result = unsafe { calls::call(abi::MEMORY_OP, [abi::ADD_TO_MEMORY, argument, 0, 0]) };
    calls::ensure(result, "map the shared page");
}

/// Prepares the calling vCPU: its vector, its channels and its times.
pub fn prepare() {
    #[repr(C)]
    struct Vector {
        vcpu: u32,
        vector: u8,
    }
    let vector = Vector { vcpu: cpus::this().number() as u32, vector: apic::EVENT };
    let argument = (&raw const vector).addr() as u64;
    // SAFETY: the handler is in place, and the structure is read.
    let result = unsafe { calls::call(abi::HVM_OP, [abi::SET_VECTOR, argument, 0, 0]) };
    calls::ensure(result, "deliver events");
    start::prepare();
}
