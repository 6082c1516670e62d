// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's door: how a vCPU finds its own record and calls its host. A vCPU of KVM and a parked
//! thread differ in nothing else.

use std::sync::atomic::AtomicU32;

use overlock_bench::Verbs;

use super::abi::{Call, VcpuRecord};

/// The way in which a vCPU finds its record and calls its host.
///
/// # Safety
/// `record` returns the record of the calling vCPU, whenever a program that an engine of this world
/// runs calls it.
pub unsafe trait Door: Verbs<Word = AtomicU32> {
    /// Returns the record of the calling vCPU.
    #[doc(hidden)]
    fn record() -> Record;

    /// Calls the host with two arguments.
    #[doc(hidden)]
    fn call(number: CallNumber, arguments: [u64; 2]);
}

/// The record of a vCPU, opaque outside this crate.
#[derive(Clone, Copy, Debug)]
pub struct Record(pub(crate) &'static VcpuRecord);

/// A hypercall, opaque outside this crate.
#[derive(Clone, Copy, Debug)]
pub struct CallNumber(pub(crate) Call);
