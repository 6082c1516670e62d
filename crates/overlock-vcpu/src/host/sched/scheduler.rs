//! The scheduler's state, and the way of an event into it. What an event leads to is in
//! `handle.rs`.

use alloc::vec::Vec;

use super::config::{Config, ConfigError};
use super::error::SchedError;
use super::event::{Action, Event};
use super::queue::RunQueue;
use super::vcpu::{Record, Standing, Usage};
use super::yield_to::{Decision, Notice, Policy, Tally};
use crate::host::{Nanos, Pcpu, Vcpu};

/// One pCPU: see the table in the [module documentation](super).
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) owner: Option<Vcpu>,
    pub(super) entered: Nanos,
    pub(super) until: Nanos,
    pub(super) ended: Option<Nanos>,
    pub(super) preempting: bool,
    pub(super) graced: bool,
    pub(super) next: Option<Vcpu>,
    pub(super) queue: RunQueue,
}

/// Exits shorter than this part of a slice are part of the slices.
pub(super) const LATE: u64 = 4;

impl Slot {
    /// When the slice of an owner that enters `now` begins: with the end of the last one, if that
    /// brought the last owner out.
    pub(super) fn begin_slice(&mut self, now: Nanos, slice: Nanos) -> Nanos {
        let late = |ended: &Nanos| (now - *ended).0 <= slice.0 / LATE;
        self.ended.take().filter(late).unwrap_or(now)
    }
}

/// The vCPUs of one guest, or several, on their pCPUs.
///
/// Feed it every event with its time, and carry out the action that comes back. No event allocates;
/// [`Scheduler::new`] does.
#[derive(Debug)]
pub struct Scheduler<P> {
    pub(super) config: Config,
    pub(super) policy: P,
    pub(super) vcpus: Vec<Record>,
    pub(super) slots: Vec<Slot>,
    pub(super) now: Nanos,
    pub(super) decision: Decision,
    pub(super) decided: bool,
    pub(super) tally: Tally,
    pub(super) waiting: u32,
    /// When the first of them queued. Slices that ended before that were renewed.
    pub(super) contested: Nanos,
}

impl<P: Policy> Scheduler<P> {
    /// Makes a scheduler whose vCPUs are all halted; kick those that should start.
    ///
    /// # Errors
    /// If the configuration has no CPUs, too many, or an empty slice.
    pub fn new(config: Config, policy: P) -> Result<Self, ConfigError> {
        config.check()?;
        let count = config.vcpus as usize;
        let slot = || Slot { queue: RunQueue::with_capacity(count), ..Slot::default() };
        Ok(Self {
            config,
            policy,
            vcpus: (0..config.vcpus).map(|n| Record::new(Pcpu(n % config.pcpus))).collect(),
            slots: (0..config.pcpus).map(|_| slot()).collect(),
            now: Nanos::ZERO,
            decision: Decision::new(config.vcpus),
            decided: false,
            tally: Tally::default(),
            waiting: 0,
            contested: Nanos::ZERO,
        })
    }

    /// Records what happened at `now`, and returns the action to take, if any.
    ///
    /// # Errors
    /// If the event can't have happened: see [`SchedError`]. Then nothing has changed.
    pub fn on(&mut self, now: Nanos, event: Event) -> Result<Option<Action>, SchedError> {
        self.check(now, &event)?;
        self.now = now;
        self.decided = false;
        Ok(match event {
            Event::Halted { vcpu } => self.halted(vcpu),
            Event::LongSpin { spin } => self.long_spin(&spin),
            Event::Yielded { vcpu } => self.yielded(vcpu),
            Event::YieldedTo { vcpu, to } => self.yielded_to(vcpu, to),
            Event::Preempted { vcpu } => self.preempted(vcpu),
            Event::Stopped { vcpu } => self.stopped(vcpu),
            Event::Plugged { vcpu } => self.plugged(vcpu),
            Event::Kicked { target } => self.wake(target),
            Event::Ipi { from, to } => {
                self.policy.notice(self.now, Notice::Ipi { from, to });
                self.wake(to)
            }
            Event::Answered { vcpu } => {
                self.policy.notice(self.now, Notice::Answered(vcpu));
                None
            }
            Event::InUser { vcpu } => {
                self.vcpus[vcpu.index()].in_user = true;
                None
            }
            Event::Timer { pcpu } => self.timer(pcpu),
            Event::CriticalSection { vcpu, inside } => self.critical_section(vcpu, inside),
        })
    }

    /// The state of `vcpu`, or `None` if it does not exist.
    pub fn standing(&self, vcpu: Vcpu) -> Option<Standing> {
        self.vcpus.get(vcpu.index()).map(|record| record.standing)
    }

    /// Whether `vcpu` could run but has no pCPU: the preempted flag that its guest may see.
    pub fn is_preempted(&self, vcpu: Vcpu) -> bool {
        matches!(self.standing(vcpu), Some(Standing::Queued(_)))
    }

    /// How `vcpu` has spent its time up to `now`, or `None` if it does not exist.
    pub fn usage(&self, now: Nanos, vcpu: Vcpu) -> Option<Usage> {
        let now = self.now.max(now);
        self.vcpus.get(vcpu.index()).map(|record| record.accounted(now).usage)
    }

    /// The vCPU that owns `pcpu`, if any.
    pub fn owner(&self, pcpu: Pcpu) -> Option<Vcpu> {
        self.slots.get(pcpu.index())?.owner
    }

    /// How many vCPUs wait in the queue of `pcpu`.
    pub fn waiting(&self, pcpu: Pcpu) -> usize {
        self.slots.get(pcpu.index()).map_or(0, |slot| slot.queue.len())
    }

    /// How many vCPUs wait for a pCPU, in all queues together.
    pub const fn queued(&self) -> u32 {
        self.waiting
    }

    /// When [`Event::Timer`] is due for `pcpu`. `None` while the pCPU is idle, while its owner has
    /// been asked to come out, or while no vCPU waits for a pCPU. An embedder may use this alone,
    /// instead of the times in `Run` and `SetTimer`, and so save the timers of a host with room. It
    /// must then check all pCPUs again when [`queued`](Self::queued) is no longer zero, and one of
    /// them when an action names it.
    pub fn slice_end(&self, pcpu: Pcpu) -> Option<Nanos> {
        let slot = self.slots.get(pcpu.index())?;
        let due = self.waiting > 0 && slot.owner.is_some() && !slot.preempting;
        due.then(|| self.slice_over(slot))
    }

    /// Since when the owner of `pcpu` has been in its present slice; nothing while it is idle.
    pub fn slice_start(&self, pcpu: Pcpu) -> Option<Nanos> {
        let slot = self.slots.get(pcpu.index()).filter(|slot| slot.owner.is_some())?;
        let renewed = self.slice_over(slot).0.saturating_sub(self.config.slice.0);
        Some(slot.entered.max(Nanos(renewed)))
    }

    /// Whether the owner of `pcpu` has been asked to come out: an [`Action::Preempt`] is
    /// unanswered.
    pub fn is_preempting(&self, pcpu: Pcpu) -> bool {
        self.slots.get(pcpu.index()).is_some_and(|slot| slot.preempting)
    }

    /// The decision that the last event required, with its reasons, if it required one.
    pub fn decision(&self) -> Option<&Decision> {
        self.decided.then_some(&self.decision)
    }

    /// How often each reason has been given since the start.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    pub const fn policy(&self) -> &P {
        &self.policy
    }

    pub const fn config(&self) -> &Config {
        &self.config
    }
}
