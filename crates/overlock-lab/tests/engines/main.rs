// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two engines, asked the same questions.

mod failures;
mod interrupts;
mod scheduling;
mod support;
mod workloads;
