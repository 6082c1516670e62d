//! The scheduler of a simulated host: ours, or one that another program brings.

use overlock_bench::{HostScheduler, RunConfig};
use std::fmt::Debug;

use overlock_vcpu::host::sched::yield_to::{self, Policy, Tally};
use overlock_vcpu::host::sched::{Action, Event, Guest, Scheduler, Standing, Usage};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};

use super::Error;
use super::topology::Topology;

/// A scheduler of a host, ours or one that another program brings, with a yield policy.
pub trait OtherScheduler: Debug {
    /// Adds to `actions` what follows from an event.
    fn on(&mut self, now: u64, event: Event, actions: &mut Vec<Action>);

    fn standing(&self, vcpu: u32) -> Standing;

    fn owner(&self, pcpu: u32) -> Option<u32>;

    /// Whether the owner of this pCPU is being preempted.
    fn is_preempting(&self, pcpu: u32) -> bool;

    /// How many vCPUs wait for a pCPU.
    fn queued(&self) -> u32;

    fn tally(&self) -> &Tally;

    /// What a vCPU has had so far.
    fn usage(&self, now: u64, vcpu: u32) -> Usage;

    fn picked(&self, pcpu: u32) -> u64;

    /// When [`Event::Timer`] is due for this pCPU, if any vCPU waits.
    fn tick(&self, pcpu: u32) -> Option<u64>;

    /// How often a pCPU looks for work in other queues; 0 is never.
    fn look_every_ns(&self) -> u64 {
        0
    }

    /// Lets a pCPU look for work in other queues.
    fn look(&mut self, _now: u64, _pcpu: u32, _actions: &mut Vec<Action>) {}

    /// The pCPU with whose queue the last step of a pause loop's handler attempted something, once.
    fn take_attempt(&mut self) -> Option<u32> {
        None
    }

    /// Takes the locks of two queues for `ns`, as soon as they are free. Returns until when.
    fn locks(&mut self, _own: u32, _theirs: u32, _ns: u64) -> u64 {
        0
    }

    /// Records that a vCPU is in the host, with its pCPU, for a time.
    fn is_in_host(&mut self, _vcpu: u32, _from: u64, _until: u64) {}

    /// Whether the handler of this vCPU's pause loop goes on.
    fn handles(&self, _vcpu: u32) -> bool {
        false
    }

    /// The next step of that handler.
    fn go_on(&mut self, _now: u64, _spinner: u32, _actions: &mut Vec<Action>) {}

    /// Whether a vCPU's pause window doubles with each exit, until it loses its pCPU.
    fn windows_grow(&self) -> bool {
        false
    }

    /// By how much at most the first slices of pCPUs differ; ticks have phases of their own.
    fn phase_ns(&self) -> u64 {
        0
    }

    /// How much longer a vCPU may stay for its critical section.
    fn grace_ns(&self) -> u64 {
        0
    }
}

/// Makes a scheduler for a number of vCPUs and those of a guest, a number of pCPUs and those of a
/// socket, and a yield policy.
pub type MakeScheduler =
    fn(HostScheduler, (u32, u32), (u32, u32), Box<dyn Policy + Send>) -> Box<dyn OtherScheduler>;

/// A span in the machine's units, or the longest possible one.
pub(super) fn ns(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The scheduler that a configuration asks for, with its yield policy.
pub(super) fn scheduler(
    config: &RunConfig<'_>,
    topology: &Topology,
    make: Option<MakeScheduler>,
) -> Result<Box<dyn OtherScheduler>, Error> {
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
        return Ok(make(config.scheduler, vcpus, host, policy));
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
    Ok(Box::new(ours))
}

impl OtherScheduler for Scheduler<Box<dyn Policy + Send>> {
    fn on(&mut self, now: u64, event: Event, actions: &mut Vec<Action>) {
        match Self::on(self, Nanos(now), event) {
            Ok(action) => actions.extend(action),
            Err(why) => unreachable!("the simulated host told its scheduler {event:?}: {why}"),
        }
    }

    fn standing(&self, vcpu: u32) -> Standing {
        Self::standing(self, Vcpu(vcpu)).unwrap_or(Standing::Stopped)
    }

    fn owner(&self, pcpu: u32) -> Option<u32> {
        Self::owner(self, Pcpu(pcpu)).map(|Vcpu(owner)| owner)
    }

    fn is_preempting(&self, pcpu: u32) -> bool {
        Self::is_preempting(self, Pcpu(pcpu))
    }

    fn queued(&self) -> u32 {
        Self::queued(self)
    }

    fn tally(&self) -> &Tally {
        Self::tally(self)
    }

    fn usage(&self, now: u64, vcpu: u32) -> Usage {
        Self::usage(self, Nanos(now), Vcpu(vcpu)).unwrap_or_default()
    }

    fn picked(&self, pcpu: u32) -> u64 {
        self.slice_start(Pcpu(pcpu)).map_or(0, |Nanos(start)| start)
    }

    fn tick(&self, pcpu: u32) -> Option<u64> {
        self.slice_end(Pcpu(pcpu)).map(|Nanos(end)| end)
    }

    fn phase_ns(&self) -> u64 {
        self.config().slice.0
    }

    fn grace_ns(&self) -> u64 {
        self.config().grace.0
    }
}
