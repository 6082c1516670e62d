// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timer as a device of rust-vmm's `vm-device`.
//!
//! # Registers
//! At the offsets of Intel's PIIX4 and ICH9, whose block is usually at port 0x600:
//!
//! | offset | size | register |
//! |---|---|---|
//! | 0 | 2 | PM1 status; writing a one clears |
//! | 2 | 2 | PM1 enable |
//! | 4 | 2 | PM1 control: not this device's |
//! | 8 | 4 | the count; writes are ignored |
//!
//! Register the device for the ranges you want it to answer, together or apart: it goes by the
//! absolute port. What it does not know reads as all ones, as on a bus where nobody answers, and
//! ignores writes. The count must be read in one piece; the others may be accessed in parts.
//!
//! It implements `DevicePio`, which takes `&self`, and not `MutDevicePio`: that no lock is needed
//! around it is in its type.

use core::ops::Deref;

use vm_device::DevicePio;
use vm_device::bus::{PioAddress, PioAddressOffset};

use super::read::ReadRule;
use super::{Clock, PmTimer, SciLine};

const EVENTS_SIZE: u16 = 4;
const COUNT_OFFSET: u16 = 8;

/// A timer at its ports. `T` is a reference of any kind to a [`PmTimer`]: an `Arc`, usually.
#[derive(Clone, Debug)]
pub struct PmPorts<T> {
    block: u16,
    timer: T,
}

impl<T> PmPorts<T> {
    /// Puts `timer` at the block of ports that starts at `block`.
    pub const fn new(block: u16, timer: T) -> Self {
        Self { block, timer }
    }

    /// The offset in the block of a port.
    fn offset(&self, base: PioAddress, offset: PioAddressOffset) -> u16 {
        base.0.wrapping_add(offset).wrapping_sub(self.block)
    }
}

impl<C, R, S, T> DevicePio for PmPorts<T>
where
    C: Clock,
    R: ReadRule,
    S: SciLine,
    T: Deref<Target = PmTimer<C, R, S>>,
{
    fn pio_read(&self, base: PioAddress, offset: PioAddressOffset, data: &mut [u8]) {
        let at = self.offset(base, offset);
        data.fill(0xff);
        if at == COUNT_OFFSET {
            if let Ok(data) = <&mut [u8; 4]>::try_from(data) {
                *data = self.timer.count().to_le_bytes();
            }
        } else if let Some(range) = lanes(at, data.len()) {
            let (status, enable) = (self.timer.status(), self.timer.enable());
            let bytes = (u32::from(enable) << 16 | u32::from(status)).to_le_bytes();
            data.copy_from_slice(&bytes[range]);
        }
    }

    fn pio_write(&self, base: PioAddress, offset: PioAddressOffset, data: &[u8]) {
        let Some(range) = lanes(self.offset(base, offset), data.len()) else { return };
        // The timer's bits are all in the low bytes of their registers.
        let byte = |lane: usize| range.clone().position(|at| at == lane).map(|at| data[at]);
        if let Some(ones) = byte(0) {
            self.timer.clear_status(ones.into());
        }
        if let Some(bits) = byte(2) {
            self.timer.set_enable(bits.into());
        }
    }
}

/// The bytes of status and enable that an access touches, if it is within them.
fn lanes(at: u16, len: usize) -> Option<core::ops::Range<usize>> {
    let end = usize::from(at).checked_add(len)?;
    (end <= usize::from(EVENTS_SIZE)).then_some(usize::from(at)..end)
}
