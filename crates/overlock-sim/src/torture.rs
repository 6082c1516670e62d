//! The locks in virtual time while CPUs are taken away at any step, with oracles that see every
//! access.

mod arena;
mod cell;
mod conditions;
mod failure;
mod faults;
mod injections;
mod kind;
mod lock_model;
mod machine;
mod memory;
mod plan;
mod platform;
mod run;
mod script;
mod subject;
mod subjects;
mod trace;

pub use conditions::CPUS;
pub use failure::{Breach, Property};
pub use faults::{Fault, Faults};
pub use injections::injections;
pub use plan::FaultPlan;
pub use run::{TortureReport, run, torture};
pub use subject::Subject;
pub use subjects::{subject, subjects};
