// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timer as a device of rust-vmm's `vm-device`: its [registers](super::registers) at a block.
//!
//! Register the device for the ranges that it should answer, together or apart: it uses the
//! absolute port. It implements `DevicePio`, which takes `&self`, and not `MutDevicePio`: its type
//! shows that no lock is needed around it.

use core::ops::Deref;

use vm_device::DevicePio;
use vm_device::bus::{PioAddress, PioAddressOffset};

use super::event::SciLine;
use super::read::ReadRule;
use super::timer::{Clock, PmTimer};

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

    /// The offset of a port in the block.
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
        self.timer.read(self.offset(base, offset), data);
    }

    fn pio_write(&self, base: PioAddress, offset: PioAddressOffset, data: &[u8]) {
        self.timer.write(self.offset(base, offset), data);
    }
}
