// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler of a simulated host: ours, or one that another program brings.

use overlock_bench::{Config, HostScheduler};
use std::fmt::Debug;

use overlock_vcpu::host::sched::yield_to::{self, Policy, Tally};
use overlock_vcpu::host::sched::{Action, Event, Guest, Scheduler, Standing, Usage};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};

use super::Error;
use super::topology::Topology;

/// A scheduler that another program brings. It takes the events and gives the actions of ours,
/// under the same yield policies.
pub trait OtherScheduler: Debug {
    /// Adds to `actions` what follows from an event.
    fn on(&mut self, now: u64, event: Event, actions: &mut Vec<Action>);

    fn standing(&self, vcpu: u32) -> Standing;

    /// The vCPU that has this pCPU.
    fn owner(&self, pcpu: u32) -> Option<u32>;

    /// Whether the owner of this pCPU is being preempted.
    fn is_preempting(&self, pcpu: u32) -> bool;

    /// How many vCPUs wait for a pCPU.
    fn queued(&self) -> u32;

    /// What the yields have come to.
    fn tally(&self) -> &Tally;

    /// What a vCPU has had so far.
    fn usage(&self, now: u64, vcpu: u32) -> Usage;

    /// When the owner of this pCPU was picked.
    fn picked(&self, pcpu: u32) -> u64;

    /// When [`Event::Timer`] is due for this pCPU.
    fn tick(&self, pcpu: u32) -> Option<u64>;

    /// How often a pCPU looks for work in other queues.
    fn look_every_ns(&self) -> u64;

    /// Lets a pCPU look for work in other queues.
    fn look(&mut self, now: u64, pcpu: u32, actions: &mut Vec<Action>);

    /// The pCPU with whose queue the last step of a pause loop's handler attempted something, once.
    fn take_attempt(&mut self) -> Option<u32>;

    /// Takes the locks of two queues for `ns`, as soon as they are free. Returns until when.
    fn locks(&mut self, own: u32, theirs: u32, ns: u64) -> u64;

    /// Records that a vCPU is in the host, with its pCPU, for a time.
    fn is_in_host(&mut self, vcpu: u32, from: u64, until: u64);

    /// Whether the handler of this vCPU's pause loop goes on.
    fn handles(&self, vcpu: u32) -> bool;

    /// The next step of that handler.
    fn go_on(&mut self, now: u64, spinner: u32, actions: &mut Vec<Action>);

    /// Whether a vCPU's pause window doubles with each exit, until it loses its pCPU.
    fn windows_grow(&self) -> bool;
}

/// Makes a scheduler for a number of vCPUs and those of a guest, a number of pCPUs and those of a
/// socket, and a yield policy.
pub type MakeScheduler =
    fn(HostScheduler, (u32, u32), (u32, u32), Box<dyn Policy + Send>) -> Box<dyn OtherScheduler>;

/// A scheduler, with a yield policy.
#[derive(Debug)]
pub(super) enum Scheduling {
    Ours(Box<Scheduler<Box<dyn Policy + Send>>>),
    Other(Box<dyn OtherScheduler>),
}

use Scheduling::{Other, Ours};

/// A span in the machine's units, or the longest possible one.
pub(super) fn ns(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Scheduling {
    pub(super) fn new(
        config: &Config<'_>,
        topology: &Topology,
        make: Option<MakeScheduler>,
    ) -> Result<Self, Error> {
        let wrong = |what: String| Error::Config(what);
        let policy = yield_to::by_name(config.policy, config.vcpus).ok_or_else(|| {
            let (policy, known) = (config.policy, yield_to::NAMES.join(", "));
            wrong(format!("no yield policy is called {policy}; there are {known}"))
        })?;
        let guest = config.vcpus_of_guest();
        if config.scheduler != HostScheduler::Overlock {
            let socket = topology.pcpus() / topology.sockets.max(1);
            let (vcpus, host) = ((config.vcpus, guest), (config.pcpus, socket));
            let make = make.ok_or_else(|| {
                wrong("Linux's schedulers of that time are in the program overlock-papers".into())
            })?;
            return Ok(Other(make(config.scheduler, vcpus, host, policy)));
        }
        let spans = overlock_vcpu::host::sched::Config {
            slice: Nanos(ns(config.slice)),
            grace: Nanos(ns(config.critical)),
            ..overlock_vcpu::host::sched::Config::new(config.vcpus, config.pcpus)
        };
        let mut ours = Scheduler::new(spans, policy).map_err(|error| wrong(error.to_string()))?;
        for vcpu in 0..config.vcpus {
            let told = ours.set_guest(Vcpu(vcpu), Guest(vcpu / guest));
            told.map_err(|error| wrong(error.to_string()))?;
        }
        Ok(Ours(Box::new(ours)))
    }

    /// Adds to `actions` what follows from an event.
    pub(super) fn on(&mut self, now: u64, event: Event, actions: &mut Vec<Action>) {
        match self {
            Ours(ours) => match ours.on(Nanos(now), event) {
                Ok(action) => actions.extend(action),
                Err(why) => unreachable!("the simulated host told its scheduler {event:?}: {why}"),
            },
            Other(other) => other.on(now, event, actions),
        }
    }

    pub(super) fn standing(&self, vcpu: u32) -> Standing {
        match self {
            Ours(ours) => ours.standing(Vcpu(vcpu)).unwrap_or(Standing::Stopped),
            Other(other) => other.standing(vcpu),
        }
    }

    pub(super) fn owner(&self, pcpu: u32) -> Option<u32> {
        match self {
            Ours(ours) => ours.owner(Pcpu(pcpu)).map(|Vcpu(owner)| owner),
            Other(other) => other.owner(pcpu),
        }
    }

    /// How many vCPUs wait for a pCPU.
    pub(super) fn queued(&self) -> u32 {
        match self {
            Ours(ours) => ours.queued(),
            Other(other) => other.queued(),
        }
    }

    pub(super) fn is_preempting(&self, pcpu: u32) -> bool {
        match self {
            Ours(ours) => ours.is_preempting(Pcpu(pcpu)),
            Other(other) => other.is_preempting(pcpu),
        }
    }

    /// When the slice of the owner of `pcpu` is to be looked at, if any vCPU waits.
    pub(super) fn slice_end(&self, pcpu: u32) -> Option<u64> {
        match self {
            Ours(ours) => ours.slice_end(Pcpu(pcpu)).map(|Nanos(end)| end),
            Other(other) => other.tick(pcpu),
        }
    }

    pub(super) fn slice_start(&self, pcpu: u32) -> Option<u64> {
        match self {
            Ours(ours) => ours.slice_start(Pcpu(pcpu)).map(|Nanos(start)| start),
            Other(other) => Some(other.picked(pcpu)),
        }
    }

    pub(super) fn usage(&self, now: u64, vcpu: u32) -> Usage {
        match self {
            Ours(ours) => ours.usage(Nanos(now), Vcpu(vcpu)).unwrap_or_default(),
            Other(other) => other.usage(now, vcpu),
        }
    }

    pub(super) fn tally(&self) -> &Tally {
        match self {
            Ours(ours) => ours.tally(),
            Other(other) => other.tally(),
        }
    }

    /// By how much at most the first slices of pCPUs differ. Those of another scheduler
    /// end at ticks, which have phases of their own.
    pub(super) fn phase_ns(&self) -> u64 {
        match self {
            Ours(ours) => ours.config().slice.0,
            Other(_) => 0,
        }
    }

    /// How much longer a vCPU may stay for its critical section.
    pub(super) fn grace_ns(&self) -> u64 {
        match self {
            Ours(ours) => ours.config().grace.0,
            Other(_) => 0,
        }
    }
}
