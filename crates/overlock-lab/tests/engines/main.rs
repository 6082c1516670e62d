// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same questions to both engines.

mod failures;
mod interrupts;
mod scheduling;
mod support;
mod workloads;
