//! The errors of a scheduler.

use core::fmt;

use crate::host::{Nanos, Pcpu, Vcpu};

/// Why an event can't have happened, or a setting can't be. The scheduler is as it was before.
///
/// [`NoVcpu`](Self::NoVcpu) can be a guest's doing: it may kick and interrupt by any number. The
/// others are the embedder's, or the sign of a race in it: two threads that report for one vCPU, or
/// a clock that was read before the scheduler was locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedError {
    /// There is no such vCPU.
    NoVcpu(Vcpu),
    /// There is no such pCPU.
    NoPcpu(Pcpu),
    /// This vCPU owns no pCPU, so it can't come out of the guest.
    NotOwner(Vcpu),
    Stopped(Vcpu),
    /// This vCPU has not stopped, so it can't be plugged.
    Plugged(Vcpu),
    /// The clock went back.
    Earlier {
        /// The time of this event.
        now: Nanos,
        /// The time of the last one.
        last: Nanos,
    },
}

impl fmt::Display for SchedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVcpu(vcpu) => write!(f, "{vcpu} does not exist"),
            Self::NoPcpu(pcpu) => write!(f, "{pcpu} does not exist"),
            Self::NotOwner(vcpu) => write!(f, "{vcpu} owns no pCPU"),
            Self::Stopped(vcpu) => write!(f, "{vcpu} has stopped already"),
            Self::Plugged(vcpu) => write!(f, "{vcpu} has not stopped"),
            Self::Earlier { now, last } => {
                write!(f, "the clock went back from {} ns to {} ns", last.0, now.0)
            }
        }
    }
}

impl core::error::Error for SchedError {}
