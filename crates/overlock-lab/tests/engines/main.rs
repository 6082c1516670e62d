//! The two engines, asked the same questions.

mod failures;
mod interrupts;
mod scheduling;
mod support;
mod workloads;
