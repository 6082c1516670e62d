//! One vCPU: what it starts with, and what it does when KVM hands it over.

use std::sync::{Mutex, PoisonError};

use kvm_bindings::kvm_segment;
use kvm_ioctls::{VcpuExit, VcpuFd};

use crate::console::Console;
use crate::load::Start;
use crate::options::Result;

#[derive(Debug)]
pub(crate) enum Event {
    Place(String),
    /// The machine has ended, with a code or by a failure.
    Ended(std::result::Result<u8, String>),
}

/// Ports of the first serial line: its data, and its status.
const SERIAL: u16 = 0x3f8;
const SERIAL_STATUS: u16 = SERIAL + 5;
/// The transmitter is empty.
const READY: u8 = 0x60;
/// A byte that is written here ends the machine.
const END: u16 = 0xf4;
/// A byte that is written here yields the vCPU's processor.
const YIELD: u16 = 0xf5;

fn segment(selector: u16, kind: u8) -> kvm_segment {
    kvm_segment {
        limit: u32::MAX,
        selector,
        type_: kind,
        present: 1,
        db: 1,
        s: 1,
        g: 1,
        ..Default::default()
    }
}

/// Lets `vcpu` begin as PVH asks for: 32-bit protected mode, no paging, flat segments, and the
/// address of the start information in EBX.
pub(crate) fn begin_at(vcpu: &VcpuFd, start: Start) -> Result<()> {
    let mut special = vcpu.get_sregs()?;
    // Code that can be read, data that can be written.
    special.cs = segment(0x08, 0xb);
    for data in [&mut special.ds, &mut special.es, &mut special.fs, &mut special.gs] {
        *data = segment(0x10, 3);
    }
    special.ss = segment(0x10, 3);
    special.tr = kvm_segment { limit: 0x67, type_: 0xb, present: 1, ..Default::default() };
    special.cr0 = 0x11;
    special.cr4 = 0;
    special.efer = 0;
    vcpu.set_sregs(&special)?;
    let mut registers = vcpu.get_regs()?;
    registers.rip = start.entry;
    registers.rbx = start.info;
    // The bit that is always set.
    registers.rflags = 2;
    vcpu.set_regs(&registers)?;
    Ok(())
}

fn place(vcpu: &VcpuFd, number: u8) -> String {
    let (Ok(general), Ok(special), Ok(state)) =
        (vcpu.get_regs(), vcpu.get_sregs(), vcpu.get_mp_state())
    else {
        return format!("vCPU {number}: unknown");
    };
    format!(
        "vCPU {number}: RIP {:#x} RSP {:#x} RFLAGS {:#x} CR2 {:#x} CR8 {:#x} state {}",
        general.rip, general.rsp, general.rflags, special.cr2, special.cr8, state.mp_state
    )
}

/// Runs it until the machine ends, and tells how that was.
pub(crate) fn run(mut vcpu: VcpuFd, number: u8, console: &Mutex<Console>, tell: impl Fn(Event)) {
    loop {
        let ended = match vcpu.run() {
            Ok(VcpuExit::IoOut(SERIAL, bytes)) => {
                match console.lock().unwrap_or_else(PoisonError::into_inner).write(bytes) {
                    Ok(()) => continue,
                    Err(error) => Err(error.to_string()),
                }
            }
            Ok(VcpuExit::IoIn(SERIAL_STATUS, byte)) => {
                byte.fill(READY);
                continue;
            }
            Ok(VcpuExit::IoOut(END, bytes)) => Ok(bytes[0]),
            Ok(VcpuExit::IoOut(YIELD, _)) => {
                std::thread::yield_now();
                continue;
            }
            // No other device is there: a bus reads as ones.
            Ok(VcpuExit::IoIn(_, bytes) | VcpuExit::MmioRead(_, bytes)) => {
                bytes.fill(0xff);
                continue;
            }
            Ok(VcpuExit::IoOut(..) | VcpuExit::MmioWrite(..)) => continue,
            Ok(VcpuExit::Shutdown) => Err("a triple fault".to_owned()),
            Ok(other) => Err(format!("{other:?}")),
            // It waits to be started by another vCPU, or is asked where it is.
            Err(error) if error.errno() == libc::EAGAIN => continue,
            Err(error) if error.errno() == libc::EINTR => {
                tell(Event::Place(place(&vcpu, number)));
                continue;
            }
            Err(error) => Err(error.to_string()),
        };
        let ended = ended.map_err(|why| format!("{why}; {}", place(&vcpu, number)));
        return tell(Event::Ended(ended));
    }
}
