// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kernel writes to use Overlock's locks: one platform, and a lock that keeps handlers out.
//!
//! The functions of [`arch`] belong to the kernel; here they are the minimum that compiles on
//! x86-64. `docs/kernels.md` explains each line, and `crates/overlock-boot` has three platforms
//! that boot.

#![no_std]

pub mod arch;
pub mod platform;

use overlock::{Hybrid, Mutex};
use platform::Cores;

/// The kernel's mutex: 4 bytes beside the data.
pub type SpinMutex<T> = Mutex<T, Hybrid<Cores>>;

/// Data that tasks share.
pub static RUN_QUEUE: SpinMutex<u32> = SpinMutex::new(0);

/// Data that interrupt handlers use too: its lock is only ever held with interrupts off.
pub static TIMERS: SpinMutex<u32> = SpinMutex::new(0);

/// Uses `data` with interrupts off, so that no handler of this CPU can ask for it meanwhile.
pub fn with_interrupts_off<T, R>(data: &SpinMutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
    let before = arch::interrupts_off();
    let result = work(&mut data.lock());
    arch::restore(before);
    result
}

/// An example of a task's work.
pub fn schedule() {
    *RUN_QUEUE.lock() += 1;
    with_interrupts_off(&TIMERS, |timers| *timers += 1);
}

/// What the handler of a non-maskable interrupt may do: try the lock (F22).
pub fn in_nmi() -> bool {
    RUN_QUEUE.try_lock().is_some()
}
