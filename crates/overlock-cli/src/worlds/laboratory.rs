// SPDX-License-Identifier: MIT OR Apache-2.0
//! The laboratory's worlds, and why they are not available here.

use crate::worlds::options::Note;
use anyhow::{Context, Result};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use overlock_bench::Engine as _;
use overlock_bench::World;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use overlock_vcpu::lab::{KvmEngine, Laboratory, ThreadsEngine};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) fn kvm() -> Result<Box<dyn World>> {
    KvmEngine::availability().context("use threads as vCPUs instead: --in parked")?;
    Ok(Box::new(<Laboratory<KvmEngine>>::kvm()))
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) fn parked() -> Result<Box<dyn World>> {
    ThreadsEngine::availability()?;
    Ok(Box::new(<Laboratory<ThreadsEngine>>::parked()))
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(crate) fn kvm() -> Result<Box<dyn World>> {
    anyhow::bail!("the laboratory needs Linux on x86-64; --in threads and --in sim do not")
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(crate) fn parked() -> Result<Box<dyn World>> {
    kvm()
}

/// Returns the laboratory: vCPUs of /dev/kvm, or else threads.
pub(crate) fn engine(note: Note) -> Result<Box<dyn World>> {
    kvm().or_else(|error| {
        note(&format!("note: {error:#}; threads serve as vCPUs instead"));
        parked()
    })
}

/// Returns the laboratory's engines, for `doctor`: what each runs on, its world, and why it is not
/// available, if it is not.
pub(crate) fn engines() -> [(&'static str, &'static str, Result<(), String>); 2] {
    let said = |open: Result<Box<dyn World>>| open.map(drop).map_err(|error| format!("{error:#}"));
    [("/dev/kvm", "kvm", said(kvm())), ("threads as vCPUs", "parked", said(parked()))]
}
