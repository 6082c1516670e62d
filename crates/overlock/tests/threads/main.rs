//! The locks on threads: one question a module.

#![cfg(feature = "threads")]

mod support {
    pub(crate) mod alone;
    pub(crate) mod family;
    pub(crate) mod likeness;
    pub(crate) mod oracle;
    pub(crate) mod skip;
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(crate) mod step;
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(crate) mod stepped;
}

mod adversity;
mod busted;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod code_budget;
mod condvar;
mod conformance;
mod contract;
mod crowd;
mod family;
mod fork;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod fork_steps;
mod give_up;
mod mixed_releases;
mod read_write;
mod refresh;
mod signals;
