//! The performance simulator: experiments on hosts that one need not have, in virtual time.
//!
//! It implements the same world as the laboratory, so the same experiment files run in it. The
//! locks are those of `overlock`, the scheduler and the yield policies those of
//! `overlock_vcpu::host`; only the cost of everything is modelled. A run is a function of host,
//! experiment and seed.
//!
//! # What costs what
//! Each figure is a field of `[costs]` in a host's file, in nanoseconds, with its source.
//!
//! | figure | charged for |
//! |---|---|
//! | `hit`, `rmw` | an access to a line that the pCPU has; `rmw` for a locked one |
//! | `smt`, `cluster`, `socket`, `remote`, `memory` | the transfer of a line, by distance; a line serves one request at a time |
//! | `share` | one more reader of a shared line: how long it delays the next |
//! | `acquire`, `release`, `full` | the ordering of an access, or a fence |
//! | `pause` | one pause of a spin loop |
//! | `clock`, `notes` | a reading of the clock; a workload's bookkeeping after each critical section |
//! | `call` | a kick, an interrupt to others, a reported spin, a yield, to the host and back |
//! | `kick` | a kick, beyond its call, if the host has to wake a sleeping vCPU's thread for it |
//! | `halt`, `wake`, `switch`, `evict` | giving a pCPU up; waking up on an idle one; a change of vCPUs on one; being preempted |
//! | `interrupt` | from an interrupt to the handler of a running vCPU |
//! | `port`, `device` | a read of the PM timer: the exit, and its emulation |
//!
//! A host schedules as ours does, or by a scheduler that another program brings:
//! [`OtherScheduler`].
//!
//! `background` takes pCPUs away without the scheduler's knowledge, as other load on the host does.
//!
//! # What is not modelled
//! The instructions of locks and workloads beyond their accesses (they are in `hit` and `notes`);
//! store buffers, except that stores do not wait and locked instructions wait for them; caches with
//! a size; frequency and thermal effects; contention for the interconnect as a whole; how hardware
//! arbitrates between requests for one line (here in the order of arrival, which hardware does not
//! promise, and after the pCPU that has it); the traffic that
//! failed compare-and-swaps cause for CPUs that only load, and that of a lock's timings. A spinner
//! exceeds its budget by at most an eighth.

mod calibrate;
mod coherence;
mod error;
mod host_profile;
mod machine;
mod memory;
mod platform;
mod scheduling;
mod simulation;
mod spin;
mod timer;
mod topology;

pub use calibrate::calibrate;
pub use error::Error;
pub use host_profile::{Background, Costs, Figure, HostProfile, Kind};
pub use machine::Counts;
pub use machine::calls::Timed;
pub use platform::{OnHost, Simulated};
pub use scheduling::{MakeScheduler, OtherScheduler};
pub use simulation::{More, Setup, Simulation, Simulator};
pub use topology::Topology;
