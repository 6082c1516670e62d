//! The first serial port, as QEMU emulates it, and how to end QEMU.

use super::io::{inb, outb};

const COM1: u16 = 0x3f8;
/// The transmitter takes another byte.
const READY: u8 = 1 << 5;
/// Where `-device isa-debug-exit,iobase=0xf4` listens.
const DEBUG_EXIT: u16 = 0xf4;

pub fn write(bytes: &[u8]) {
    for &byte in bytes {
        // SAFETY: the port of a device that has no access to memory.
        unsafe {
            while inb(COM1 + 5) & READY == 0 {
                core::hint::spin_loop();
            }
            outb(COM1, byte);
        }
    }
}

/// Ends QEMU; its exit code is `code * 2 + 1`.
pub fn exit(code: u8) -> ! {
    // SAFETY: a device that has no access to memory.
    unsafe { outb(DEBUG_EXIT, code) };
    loop {
        core::hint::spin_loop();
    }
}
