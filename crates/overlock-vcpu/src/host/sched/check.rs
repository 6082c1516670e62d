//! Which events can have happened.

use super::yield_to::Policy;
use super::{Error, Event, Scheduler, Standing};
use crate::host::{Nanos, Vcpu};

impl<P: Policy> Scheduler<P> {
    /// Whether `event` can have happened at `now`.
    pub(super) fn check(&self, now: Nanos, event: &Event) -> Result<(), Error> {
        let last = self.now;
        if now < last {
            return Err(Error::Earlier { now, last });
        }
        match *event {
            Event::Stopped { vcpu } => match self.known(vcpu)? {
                Standing::Stopped => Err(Error::Stopped(vcpu)),
                _ => Ok(()),
            },
            Event::Plugged { vcpu } => match self.known(vcpu)? {
                Standing::Stopped => Ok(()),
                _ => Err(Error::Plugged(vcpu)),
            },
            Event::Ipi { from, to } => self.known(from).and(self.known(to)).map(drop),
            Event::Kicked { target: vcpu }
            | Event::Answered { vcpu }
            | Event::InUser { vcpu }
            | Event::CriticalSection { vcpu, .. } => self.known(vcpu).map(drop),
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

    fn known(&self, vcpu: Vcpu) -> Result<Standing, Error> {
        self.standing(vcpu).ok_or(Error::NoVcpu(vcpu))
    }
}
