//! The laboratory, and why it is not available here.

use anyhow::Result;
use overlock_bench::World;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) fn kvm() -> Result<Box<dyn World>> {
    let laboratory = <overlock_vcpu::lab::Laboratory>::open();
    Ok(Box::new(anyhow::Context::context(laboratory, "simulate vCPUs instead: --in sim")?))
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(crate) fn kvm() -> Result<Box<dyn World>> {
    anyhow::bail!("the laboratory needs Linux on x86-64; --in threads and --in sim do not")
}
