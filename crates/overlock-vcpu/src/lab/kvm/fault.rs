//! Explains what a guest did wrong, from nothing but its registers.
//!
//! The guest has no exception handlers, so its first exception shuts the vCPU down, and its
//! instruction pointer still points to the faulting instruction. KVM may not remember which
//! exception it was; the instruction itself shows most of it.

use kvm_ioctls::VcpuFd;

use super::stacks::Stack;
use crate::lab::Error;
use crate::lab::maps::Code;
use crate::lab::place::Place;

/// The value of CR2 until a page fault changes it: no canonical address.
pub(super) const NO_FAULT: u64 = 0xdead_0000_0000_0000;

/// Explains why vCPU `vcpu` cannot go on; returns `otherwise` if its registers do not show it.
pub(super) fn explain(
    vcpu: u32,
    fd: &VcpuFd,
    stack: &Stack,
    code: &Code,
    otherwise: &str,
    place: impl Fn(u64, u64) -> Place,
) -> Error {
    let regs = fd.get_regs().unwrap_or_default();
    let cr2 = fd.get_sregs().map_or(NO_FAULT, |system| system.cr2);
    let exception = fd.get_vcpu_events().map_or(0, |events| events.exception.nr);
    // A system call jumps to the (absent) kernel at 0; the processor keeps the way back in rcx.
    let called_kernel = regs.rip == 0 && bytes(code, regs.rcx.wrapping_sub(2)) == Some([0x0f, 5]);
    if called_kernel {
        let what = format!("made system call {}; a guest has no kernel to ask", regs.rax);
        return Error::Fault { vcpu, what, place: place(regs.rcx - 2, regs.rsp) };
    }
    let place = place(regs.rip, regs.rsp);
    if place.is_panic() {
        return Error::Panicked { vcpu, message: None, place: place.without_panic_machinery() };
    }
    let what = match bytes(code, regs.rip) {
        Some([0x0f, 0x0b]) => "executed ud2: an abort, or code that cannot be reached".into(),
        Some([0x64, _]) => "used a thread-local variable; a guest has no threads".into(),
        _ if cr2 != NO_FAULT => page_fault(cr2, stack),
        _ => match exception {
            0 if otherwise == "shut down" => "divided by zero, or shut down by itself".into(),
            3 => "executed a breakpoint".into(),
            6 => "executed an instruction that this processor does not have".into(),
            13 => {
                "executed a privileged instruction, or used an address that is not canonical".into()
            }
            0 => otherwise.into(),
            number => format!("{otherwise} after exception {number}"),
        },
    };
    Error::Fault { vcpu, what, place }
}

fn page_fault(address: u64, stack: &Stack) -> String {
    match address {
        0..0x1000 => format!("used the null pointer (address {address:#x})"),
        _ if stack.overflown_by(address) => {
            format!("overflowed its stack of {} KiB", (stack.top - stack.bottom) >> 10)
        }
        _ => format!(
            "used address {address:#x}, which was not mapped for this access when the run began"
        ),
    }
}

fn bytes(code: &Code, address: u64) -> Option<[u8; 2]> {
    let both = code.contains(address) && code.contains(address.wrapping_add(1));
    // SAFETY: both bytes are mapped code.
    both.then(|| unsafe { *(address as *const [u8; 2]) })
}
