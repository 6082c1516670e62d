// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events can have happened: the errors of a scheduler.

use core::fmt;

use super::yield_to::Policy;
use super::{Event, Scheduler, Standing};
use crate::{Nanos, Pcpu, Vcpu};

/// Why an event can't have happened, or a setting can't be. The scheduler is as it was before.
///
/// [`NoVcpu`](Self::NoVcpu) can be a guest's doing: it may kick and interrupt by any number. The
/// others are the embedder's, or the sign of a race in it: two threads that report for one vCPU, or
/// a clock that was read before the scheduler was locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no such vCPU.
    NoVcpu(Vcpu),
    /// There is no such pCPU.
    NoPcpu(Pcpu),
    /// This vCPU owns no pCPU, so it can't come out of the guest.
    NotOwner(Vcpu),
    /// This vCPU has stopped already.
    Stopped(Vcpu),
    /// This vCPU has not stopped, so it can't be plugged.
    Plugged(Vcpu),
    /// This vCPU may run on no pCPU at all.
    Nowhere(Vcpu),
    /// The clock went back.
    Earlier {
        /// The time of this event.
        now: Nanos,
        /// The time of the last one.
        last: Nanos,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVcpu(vcpu) => write!(f, "{vcpu} does not exist"),
            Self::NoPcpu(pcpu) => write!(f, "{pcpu} does not exist"),
            Self::NotOwner(vcpu) => write!(f, "{vcpu} owns no pCPU"),
            Self::Stopped(vcpu) => write!(f, "{vcpu} has stopped already"),
            Self::Plugged(vcpu) => write!(f, "{vcpu} has not stopped"),
            Self::Nowhere(vcpu) => write!(f, "{vcpu} may run on no pCPU; name at least one"),
            Self::Earlier { now, last } => {
                write!(f, "the clock went back from {} ns to {} ns", last.0, now.0)
            }
        }
    }
}

impl core::error::Error for Error {}

impl<P: Policy> Scheduler<P> {
    /// Whether `event` can have happened at `now`.
    pub(super) fn check(&self, now: Nanos, event: &Event) -> Result<(), Error> {
        self.not_earlier(now)?;
        match *event {
            Event::Stopped { vcpu } => match self.known(vcpu)? {
                Standing::Stopped => Err(Error::Stopped(vcpu)),
                _ => Ok(()),
            },
            Event::Plugged { vcpu } => match self.known(vcpu)? {
                Standing::Stopped => Ok(()),
                _ => Err(Error::Plugged(vcpu)),
            },
            Event::Kicked { target, by } => {
                by.map_or(Ok(Standing::Halted), |by| self.known(by))?;
                self.known(target).map(drop)
            }
            Event::Ipi { from, to } => self.known(from).and(self.known(to)).map(drop),
            Event::Answered { vcpu } | Event::CriticalSection { vcpu, .. } => {
                self.known(vcpu).map(drop)
            }
            Event::Timer { pcpu } if pcpu.index() < self.slots.len() => Ok(()),
            Event::Timer { pcpu } => Err(Error::NoPcpu(pcpu)),
            Event::Halted { vcpu }
            | Event::LongSpin { spin: super::Spin { vcpu, .. } }
            | Event::Yielded { vcpu }
            | Event::YieldedTo { vcpu, .. }
            | Event::Preempted { vcpu } => match self.known(vcpu)? {
                Standing::Running(_) => Ok(()),
                _ => Err(Error::NotOwner(vcpu)),
            },
        }
    }

    pub(super) fn not_earlier(&self, now: Nanos) -> Result<(), Error> {
        let last = self.now;
        if now < last { Err(Error::Earlier { now, last }) } else { Ok(()) }
    }

    pub(super) fn known(&self, vcpu: Vcpu) -> Result<Standing, Error> {
        self.standing(vcpu).ok_or(Error::NoVcpu(vcpu))
    }
}
