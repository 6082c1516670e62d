// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scheduler for the vCPUs of one guest: events with times in, decisions out.
//!
//! A guest has more vCPUs than the host gives it pCPUs, so something decides which of them run. If
//! that is the host's kernel, it knows nothing of the guest's locks, and its policy cannot be
//! changed. This scheduler belongs to the VMM: it can be queried, replaced, tested and run in
//! virtual time.
//!
//! # State
//! Each vCPU is halted, queued, running or stopped ([`Standing`]). Each pCPU has an owner or none,
//! the end of its owner's slice, and a queue of vCPUs that wait for it:
//!
//! | field of a pCPU | meaning |
//! |---|---|
//! | `owner` | the vCPU that is in the guest, about to enter it, or has just left it |
//! | `entered` | since when it owns the pCPU |
//! | `until` | when its slice, or its grace, is over |
//! | `ended` | when the slice ended for which the owner is preempted |
//! | `preempting` | an [`Action::Preempt`] is unanswered |
//! | `graced` | the grace of this slice is used up |
//! | `next` | the boosted vCPU that gets the pCPU after the owner |
//!
//! # Which vCPU runs
//! Each vCPU carries a virtual time: CPU time divided by weight. A pCPU goes to the vCPU that lags
//! most in its own queue, or to one from another queue that lags more by at least
//! [`Config::migrate_lag`] (so load is balanced as far as it is worth a cold cache). A vCPU that
//! wakes lags the waiting ones by no more than one slice, however long it slept, and preempts an
//! owner that is ahead of it by [`Config::wake_lag`]. A boosted vCPU jumps the queue, unless it is
//! already ahead of the one that lags most, waiting or running, by [`Config::yield_lead`].
//!
//! # Slices
//! A slice that follows one that has ended begins when that one *should* have ended, not when its
//! owner was out: a change of owners is part of the slice that needs it. So the rate of preemptions
//! is that of the slices, as with the tick of a kernel, and does not depend on how long an exit
//! takes. An exit that takes more than a quarter of a slice is not charged to the next one.
//!
//! # Lookups
//! No event examines all pCPUs. The idle ones are a set of bits (`pcpus.rs`); the heads of the
//! queues are in a tournament (`tournament.rs`), and so are the owners (`owners.rs`), for each
//! weight in use. A policy may examine every vCPU, but only those that it asks for are judged. Only
//! vCPUs that are restricted to some pCPUs ([`Scheduler::set_affinity`]) are compared one by one.
//!
//! # Invariants
//! - S1: a vCPU owns at most one pCPU; a queued vCPU is in exactly one queue.
//! - S2: no pCPU is idle while a vCPU is queued, unless that vCPU may not run there, or
//!   [`Scheduler::rebalance`] has not been called.
//! - S3: a kick of a vCPU that has not halted yet makes its next halt return at once.
//! - S4: when a vCPU queues, its virtual time is within its cap (twice `yield_lead` and two slices
//!   with their grace) of the time of the vCPU that lags most. So no vCPU waits for ever: while it
//!   waits, each of the others runs only until it is ahead by that much.
//! - S5: a vCPU in a critical section outstays its slice, or a woken vCPU that would preempt it, by
//!   at most [`Config::grace`], once per slice, and pays for it in virtual time.
//! - S6: the indices agree with a scan of all CPUs (`scan.rs`, a test).
//!
//! # Sources
//! Virtual time is that of weighted fair queueing and Linux's CFS, the bound on boosts that of its
//! `wakeup_preempt_entity` test for buddies; the grace is Linux's rseq slice extension (T.
//! Gleixner, 2025) given to a vCPU. All of it is written afresh.

mod affinity;
mod check;
mod choose;
mod config;
mod error;
mod event;
mod handle;
mod judge;
mod owners;
mod pcpus;
mod place;
mod queue;
#[cfg(test)]
mod scan;
mod share;
mod tournament;
mod vcpu;
pub mod yield_to;

use alloc::vec::Vec;

pub use config::{CPUS_MAX, Config, ConfigError};
pub use error::Error;
pub use event::{Action, Event, HINT_WAITERS, Spin, SpinHint, SpinSource};
pub use vcpu::{Guest, Standing, Usage, WEIGHT_DEFAULT};

use crate::{Nanos, Pcpu, Vcpu};
use affinity::Affinity;
use owners::Owners;
use pcpus::PcpuSet;
use queue::RunQueue;
use tournament::Tournament;
use vcpu::{Record, VirtualTime};
use yield_to::{Decision, Notice, Policy, Tally};

/// One pCPU: see the table in the [module documentation](self).
#[derive(Debug)]
struct Slot {
    owner: Option<Vcpu>,
    entered: Nanos,
    until: Nanos,
    ended: Option<Nanos>,
    preempting: bool,
    graced: bool,
    next: Option<Vcpu>,
    queue: RunQueue,
}

/// Exits shorter than this part of a slice are part of the slices.
const LATE: u64 = 4;

impl Slot {
    /// When the slice of an owner that enters `now` begins: with the end of the last one, if that
    /// brought the last owner out.
    fn begin_slice(&mut self, now: Nanos, slice: Nanos) -> Nanos {
        let late = |ended: &Nanos| (now - *ended).0 <= slice.0 / LATE;
        self.ended.take().filter(late).unwrap_or(now)
    }
}

/// The vCPUs of one guest, or several, on their pCPUs.
///
/// Feed it every event with its time, and carry out the action that comes back. No event allocates;
/// [`Scheduler::new`], [`Scheduler::set_weight`] and [`Scheduler::set_affinity`] do.
#[derive(Debug)]
pub struct Scheduler<P> {
    config: Config,
    policy: P,
    vcpus: Vec<Record>,
    slots: Vec<Slot>,
    now: Nanos,
    decision: Decision,
    decided: bool,
    tally: Tally,
    /// How many vCPUs are queued.
    waiting: u32,
    /// When the first of them queued. Slices that ended before that were renewed.
    contested: Nanos,
    /// The head of each queue that has one.
    heads: Tournament<(VirtualTime, Vcpu)>,
    owners: Owners,
    /// The pCPUs without an owner.
    idle: PcpuSet,
    affinity: Affinity,
}

impl<P: Policy> Scheduler<P> {
    /// Makes a scheduler whose vCPUs are all halted; kick those that should start.
    ///
    /// # Errors
    /// If the configuration has no CPUs, too many, or an empty slice.
    pub fn new(config: Config, policy: P) -> Result<Self, ConfigError> {
        config.check()?;
        let count = config.vcpus as usize;
        let slot = || Slot {
            owner: None,
            entered: Nanos::ZERO,
            until: Nanos::ZERO,
            ended: None,
            preempting: false,
            graced: false,
            next: None,
            queue: RunQueue::with_capacity(count),
        };
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
            heads: Tournament::new(config.pcpus as usize),
            owners: Owners::new(config.pcpus, WEIGHT_DEFAULT),
            idle: PcpuSet::full(config.pcpus),
            affinity: Affinity::new(config.vcpus),
        })
    }

    /// Records what happened at `now`, and returns the action to take, if any.
    ///
    /// # Errors
    /// If the event can't have happened: see [`Error`]. Then nothing has changed.
    pub fn on(&mut self, now: Nanos, event: Event) -> Result<Option<Action>, Error> {
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
            Event::Kicked { target, by } => self.wake(target, by),
            Event::Ipi { from, to } => {
                self.policy.notice(self.now, Notice::Ipi { from, to });
                self.wake(to, None)
            }
            Event::Answered { vcpu } => {
                self.policy.notice(self.now, Notice::Answered(vcpu));
                None
            }
            Event::Timer { pcpu } => self.timer(pcpu),
            Event::CriticalSection { vcpu, inside } => self.critical_section(vcpu, inside),
        })
    }

    /// The state of `vcpu`, or `None` if it does not exist.
    #[must_use]
    pub fn standing(&self, vcpu: Vcpu) -> Option<Standing> {
        self.vcpus.get(vcpu.index()).map(|record| record.standing)
    }

    /// Whether `vcpu` could run but has no pCPU: the preempted flag that its guest may see.
    #[must_use]
    pub fn is_preempted(&self, vcpu: Vcpu) -> bool {
        matches!(self.standing(vcpu), Some(Standing::Queued(_)))
    }

    /// How `vcpu` has spent its time up to `now`, or `None` if it does not exist.
    #[must_use]
    pub fn usage(&self, now: Nanos, vcpu: Vcpu) -> Option<Usage> {
        let now = self.now.max(now);
        self.vcpus.get(vcpu.index()).map(|record| record.accounted(now).usage)
    }

    /// The vCPU that owns `pcpu`, if any.
    #[must_use]
    pub fn owner(&self, pcpu: Pcpu) -> Option<Vcpu> {
        self.slots.get(pcpu.index())?.owner
    }

    /// How many vCPUs wait in the queue of `pcpu`.
    #[must_use]
    pub fn waiting(&self, pcpu: Pcpu) -> usize {
        self.slots.get(pcpu.index()).map_or(0, |slot| slot.queue.len())
    }

    /// How many vCPUs wait for a pCPU, in all queues together.
    #[must_use]
    pub const fn queued(&self) -> u32 {
        self.waiting
    }

    /// When [`Event::Timer`] is due for `pcpu`. `None` while the pCPU is idle, while its owner has
    /// been asked to come out, or while no vCPU waits for a pCPU. An embedder may use this alone,
    /// instead of the times in `Run` and `SetTimer`, and so save the timers of a host with room. It
    /// must then check all pCPUs again when [`queued`](Self::queued) is no longer zero, and one of
    /// them when an action names it.
    #[must_use]
    pub fn slice_end(&self, pcpu: Pcpu) -> Option<Nanos> {
        let slot = self.slots.get(pcpu.index())?;
        let due = self.waiting > 0 && slot.owner.is_some() && !slot.preempting;
        due.then(|| self.slice_over(slot))
    }

    /// Since when the owner of `pcpu` has been in its present slice; nothing while it is idle.
    #[must_use]
    pub fn slice_start(&self, pcpu: Pcpu) -> Option<Nanos> {
        let slot = self.slots.get(pcpu.index()).filter(|slot| slot.owner.is_some())?;
        let renewed = self.slice_over(slot).0.saturating_sub(self.config.slice.0);
        Some(slot.entered.max(Nanos(renewed)))
    }

    /// Whether the owner of `pcpu` has been asked to come out: an [`Action::Preempt`] is
    /// unanswered.
    #[must_use]
    pub fn is_preempting(&self, pcpu: Pcpu) -> bool {
        self.slots.get(pcpu.index()).is_some_and(|slot| slot.preempting)
    }

    /// The decision that the last event required, with its reasons, if it required one.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.decided.then_some(&self.decision)
    }

    /// How often each reason has been given since the start.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The policy.
    #[must_use]
    pub const fn policy(&self) -> &P {
        &self.policy
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }
}
