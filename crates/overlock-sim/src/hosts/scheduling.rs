// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler of a simulated host: ours, or Linux's.

use overlock_bench::{Config, HostScheduler};
use overlock_vcpu::host::sched::yield_to::{self, Policy, Tally};
use overlock_vcpu::host::sched::{Action, Event, Guest, Scheduler, Standing, Usage};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};

use super::Error;
use super::cfs::Cfs;

use super::topology::Topology;

/// A scheduler, with a yield policy.
#[derive(Debug)]
pub(super) enum Scheduling {
    Ours(Box<Scheduler<Box<dyn Policy + Send>>>),
    Linux(Box<Cfs>),
}

use Scheduling::{Linux, Ours};

/// A span in the machine's units, or the longest possible one.
pub(super) fn ns(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Scheduling {
    pub(super) fn new(config: &Config<'_>, topology: &Topology) -> Result<Self, Error> {
        let wrong = |what: String| Error::Config(what);
        let policy = yield_to::by_name(config.policy, config.vcpus).ok_or_else(|| {
            let (policy, known) = (config.policy, yield_to::NAMES.join(", "));
            wrong(format!("no yield policy is called {policy}; there are {known}"))
        })?;
        let guest = config.vcpus_of_guest();
        if config.scheduler != HostScheduler::Overlock {
            let socket = topology.pcpus() / topology.sockets.max(1);
            let (vcpus, host) = ((config.vcpus, guest), (config.pcpus, socket));
            let is_2012 = config.scheduler == HostScheduler::Linux35;
            return Ok(Linux(Box::new(Cfs::new(vcpus, host, is_2012, policy))));
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
            Linux(linux) => linux.on(now, event, actions),
        }
    }

    pub(super) fn standing(&self, vcpu: u32) -> Standing {
        match self {
            Ours(ours) => ours.standing(Vcpu(vcpu)).unwrap_or(Standing::Stopped),
            Linux(linux) => linux.standing(vcpu),
        }
    }

    pub(super) fn owner(&self, pcpu: u32) -> Option<u32> {
        match self {
            Ours(ours) => ours.owner(Pcpu(pcpu)).map(|Vcpu(owner)| owner),
            Linux(linux) => linux.owner(pcpu),
        }
    }

    /// How many vCPUs wait for a pCPU.
    pub(super) fn queued(&self) -> u32 {
        match self {
            Ours(ours) => ours.queued(),
            Linux(linux) => linux.queued(),
        }
    }

    pub(super) fn is_preempting(&self, pcpu: u32) -> bool {
        match self {
            Ours(ours) => ours.is_preempting(Pcpu(pcpu)),
            Linux(linux) => linux.is_preempting(pcpu),
        }
    }

    /// When the slice of the owner of `pcpu` is to be looked at, if any vCPU waits.
    pub(super) fn slice_end(&self, pcpu: u32) -> Option<u64> {
        match self {
            Ours(ours) => ours.slice_end(Pcpu(pcpu)).map(|Nanos(end)| end),
            Linux(linux) => linux.tick(pcpu),
        }
    }

    pub(super) fn slice_start(&self, pcpu: u32) -> Option<u64> {
        match self {
            Ours(ours) => ours.slice_start(Pcpu(pcpu)).map(|Nanos(start)| start),
            Linux(linux) => Some(linux.picked(pcpu)),
        }
    }

    pub(super) fn usage(&self, now: u64, vcpu: u32) -> Usage {
        match self {
            Ours(ours) => ours.usage(Nanos(now), Vcpu(vcpu)).unwrap_or_default(),
            Linux(linux) => linux.usage(now, vcpu),
        }
    }

    pub(super) fn tally(&self) -> &Tally {
        match self {
            Ours(ours) => ours.tally(),
            Linux(linux) => linux.tally(),
        }
    }

    /// By how much at most the first slices of pCPUs differ. Those of Linux end at ticks, which
    /// have phases of their own.
    pub(super) fn phase_ns(&self) -> u64 {
        match self {
            Ours(ours) => ours.config().slice.0,
            Linux(_) => 0,
        }
    }

    /// How much longer a vCPU may stay for its critical section.
    pub(super) fn grace_ns(&self) -> u64 {
        match self {
            Ours(ours) => ours.config().grace.0,
            Linux(_) => 0,
        }
    }
}
