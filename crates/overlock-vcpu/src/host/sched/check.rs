//! Which events can have happened.

use super::yield_to::Policy;
use super::{Event, SchedError, Scheduler, Standing};
use crate::host::{Nanos, Vcpu};

impl<P: Policy> Scheduler<P> {
    pub(super) fn check(&self, now: Nanos, event: &Event) -> Result<(), SchedError> {
        let last = self.now;
        if now < last {
            return Err(SchedError::Earlier { now, last });
        }
        match *event {
            Event::Stopped { vcpu } => match self.known(vcpu)? {
                Standing::Stopped => Err(SchedError::Stopped(vcpu)),
                _ => Ok(()),
            },
            Event::Plugged { vcpu } => match self.known(vcpu)? {
                Standing::Stopped => Ok(()),
                _ => Err(SchedError::Plugged(vcpu)),
            },
            Event::Ipi { from, to } => self.known(from).and(self.known(to)).map(drop),
            Event::Kicked { target: vcpu }
            | Event::Answered { vcpu }
            | Event::InUser { vcpu }
            | Event::CriticalSection { vcpu, .. } => self.known(vcpu).map(drop),
            Event::Timer { pcpu } if pcpu.index() < self.slots.len() => Ok(()),
            Event::Timer { pcpu } => Err(SchedError::NoPcpu(pcpu)),
            Event::Halted { vcpu }
            | Event::LongSpin { spin: super::Spin { vcpu, .. } }
            | Event::Yielded { vcpu }
            | Event::YieldedTo { vcpu, .. }
            | Event::Preempted { vcpu } => match self.known(vcpu)? {
                Standing::Running(_) => Ok(()),
                _ => Err(SchedError::NotOwner(vcpu)),
            },
        }
    }

    fn known(&self, vcpu: Vcpu) -> Result<Standing, SchedError> {
        self.standing(vcpu).ok_or(SchedError::NoVcpu(vcpu))
    }
}
