#![doc = include_str!("../README.md")]

mod engine;
pub mod hosts;
mod torture;

pub use overlock_results::{Rng, seed_of};
pub use overlock_vcpu::host::sched::yield_to::NAMES as POLICIES;
pub use torture::{
    Breach, CPUS, Fault, FaultPlan, Faults, Property, Subject, TortureReport, injections, run,
    subject, subjects, torture,
};
