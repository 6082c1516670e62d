//! The bare machine: processors, their interrupt controllers, a clock, a serial line.
//!
//! One identity-mapped address space; interrupts on stacks of their own (the compiled `core` of a
//! hosted target may use the red zone below the stack pointer, which an interrupt on the same stack
//! would overwrite).

pub mod apic;
pub mod clock;
pub mod halt;
pub mod interrupts;
pub mod io;
pub mod segments;
pub mod serial;
pub mod start;
