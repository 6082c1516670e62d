//! The ACPI power-management timer: a counter at 3.579545 MHz that every guest knows.
//!
//! Guests that have no better clock read it constantly, from every CPU, and each read is an exit. A
//! lock around the read then becomes the busiest lock of the machine: it took 79 % of all CPU time
//! in one benchmark of 2010 on 32 vCPUs, and in 2025 it kept a guest of 240 vCPUs from booting
//! within half an hour. So the read here need not take any lock: its [rule](read) is a type
//! parameter, and the timer's state is atomic throughout.
//!
//! # State
//! | part | meaning |
//! |---|---|
//! | `base`, `anchor` | the guest's time was `base` when the host's clock was `anchor` |
//! | `rule` | what readers share, if anything |
//! | `events` | status and enable, the interrupt line they drive, and the flips noticed so far |
//!
//! # Life of a flip
//! The count's highest bit changes every 2.34 s (24 bits) or 600 s (32 bits), and each change sets
//! `TMR_STS`, read or not. The embedder asks [`PmTimer::next_flip`] when to wake up and then calls
//! [`PmTimer::service`]. Accesses to the status do the same on their own. The vCPU that notices a
//! flip first sets the status with it.
//!
//! # Invariants
//! - T1: guest time never runs backwards: not between vCPUs (under the rule's condition), not over
//!   wraps (only the count wraps; the time does not), not over save and restore.
//! - T2: each flip is counted once, whichever vCPU sees it first.
//! - T3: once all calls have returned, the interrupt line is high exactly if status and enable are
//!   both set.
//!
//! # Sources
//! - ACPI Specification 6.5, 4.8.3.1 (PM1 event registers) and 4.8.3.3 (power management timer).
//! - X. Song 2010 (see [`read::Published`]); I. Mammedov, "Reinvent BQL-free PIO/MMIO", QEMU 10.2.

mod event;
pub mod read;
mod registers;
mod ticks;
mod timer;

pub use event::{NoSci, SciLine, TMR};
pub use ticks::{FREQUENCY_HZ, Width, start_of, ticks};
pub use timer::{HostClock, PmTimer, TimerState};
