// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scheduler for the vCPUs of one guest: events with times in, decisions out.
//!
//! A guest has more vCPUs than the host gives it pCPUs. Somebody decides who runs; where that is
//! the host's kernel, it knows nothing of the guest's locks, and its policy cannot be changed. This
//! one belongs to the VMM: it can be asked, replaced, tested and run in virtual time.
//!
//! # State
//! Each vCPU is halted, queued, running or stopped ([`Standing`]). Each pCPU has an owner or none,
//! the end of its owner's slice, and a queue of vCPUs that wait for it:
//!
//! | field of a pCPU | meaning |
//! |---|---|
//! | `owner` | the vCPU in the guest, or about to enter or having just left it |
//! | `until` | when its slice, or its grace, is over |
//! | `preempting` | a [`Action::Preempt`] is out, and its answer not yet in |
//! | `graced` | the grace of this slice is used up |
//! | `next` | the vCPU that gets the pCPU after the owner, by a boost |
//!
//! # Who runs
//! Each vCPU carries a virtual time: CPU time divided by weight. A pCPU goes to the vCPU that lags
//! most in its own queue, or to one from another queue that lags more by at least
//! [`Config::migrate_lag`] (so that load balances as far as it is worth a cold cache). A vCPU that
//! wakes lags those that wait by no more than one slice, however long it slept, and preempts an
//! owner that is ahead of it by [`Config::wake_lag`]. A boosted vCPU jumps the queue, unless it is already ahead of the one that
//! lags most by [`Config::yield_lead`].
//!
//! # Invariants
//! - S1: a vCPU owns at most one pCPU; a queued vCPU is in exactly one queue.
//! - S2: no pCPU is idle while a vCPU is queued.
//! - S3: a kick to a vCPU that has not halted yet makes its next halt return at once.
//! - S4: when a vCPU queues, its virtual time is within its cap (twice `yield_lead` and two slices
//!   with their grace) of the time of the one that lags most. So none waits for ever: while it waits,
//!   each of the others is let in only until it is as far ahead.
//! - S5: a vCPU in a critical section outstays its slice by at most [`Config::grace`], and pays for
//!   it in virtual time.
//!
//! # Sources
//! Virtual time is that of weighted fair queueing and Linux's CFS, the bound on boosts that of its
//! `wakeup_preempt_entity` test for buddies; the grace is Linux's rseq slice extension (T.
//! Gleixner, 2025) given to a vCPU. All of it is written afresh.

mod config;
mod event;
mod queue;
mod vcpu;
pub mod yield_to;

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;

pub use config::{CPUS_MAX, Config, ConfigError};
pub use event::{Action, Event, HINT_WAITERS, Spin, SpinHint, SpinSource};
pub use vcpu::{Standing, Usage, WEIGHT_DEFAULT};

use crate::{Nanos, Pcpu, Vcpu};
use queue::RunQueue;
use vcpu::{Record, VirtualTime};
use yield_to::{
    Candidate, Cause, Chosen, Decision, Missed, Notice, Outcome, Policy, Skipped, Tally, Verdict,
    View,
};

/// One pCPU: see the table in the [module documentation](self).
#[derive(Debug)]
struct Slot {
    owner: Option<Vcpu>,
    until: Nanos,
    preempting: bool,
    graced: bool,
    next: Option<Vcpu>,
    queue: RunQueue,
}

/// The vCPUs of one guest on their pCPUs.
///
/// Feed it every event with its time, and carry out the action that comes back. It allocates only
/// in [`Scheduler::new`].
#[derive(Debug)]
pub struct Scheduler<P> {
    config: Config,
    policy: P,
    vcpus: Vec<Record>,
    slots: Vec<Slot>,
    now: Nanos,
    decision: Decision,
    decided: bool,
    candidates: Vec<Candidate>,
    tally: Tally,
    ignored: u64,
}

impl<P: Policy> Scheduler<P> {
    /// Makes a scheduler whose vCPUs are all halted; kick those that are to start.
    ///
    /// # Errors
    /// If the configuration has no CPUs, too many, or an empty slice.
    pub fn new(config: Config, policy: P) -> Result<Self, ConfigError> {
        config.check()?;
        let count = config.vcpus as usize;
        let slot = || Slot {
            owner: None,
            until: Nanos::ZERO,
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
            candidates: vec![Candidate { unfit: None, spinning: false }; count],
            tally: Tally::default(),
            ignored: 0,
        })
    }

    /// Takes note of what happened at `now`, and says what is to be done, if anything.
    ///
    /// A `now` before that of an earlier event counts as the earlier one's.
    pub fn on(&mut self, now: Nanos, event: Event) -> Option<Action> {
        self.now = self.now.max(now);
        self.decided = false;
        match event {
            Event::Halted(vcpu) => self.halted(vcpu),
            Event::LongSpin(spin) => self.long_spin(&spin),
            Event::Yielded(vcpu) => {
                let pcpu = self.owned(vcpu)?;
                let next = self.pick(pcpu);
                Some(self.replace(vcpu, pcpu, next))
            }
            Event::Preempted(vcpu) => self.preempted(vcpu),
            Event::Stopped(vcpu) => {
                let pcpu = self.owned(vcpu)?;
                self.vacate(vcpu, pcpu, Standing::Stopped);
                Some(self.fill(pcpu))
            }
            Event::Kicked { target, by } => self.wake(target, by),
            Event::Ipi { from, to } => {
                if self.knows(from) && self.knows(to) {
                    self.policy.notice(self.now, Notice::Ipi { from, to });
                }
                self.wake(to, None)
            }
            Event::Timer(pcpu) => self.timer(pcpu),
            Event::CriticalSection { vcpu, inside } => self.critical_section(vcpu, inside),
        }
    }

    /// Gives `vcpu` this weight: its share of CPU time against the others' from now on.
    ///
    /// A vCPU that does not exist has none.
    pub fn set_weight(&mut self, vcpu: Vcpu, weight: NonZeroU32) {
        let now = self.now;
        if let Some(record) = self.vcpus.get_mut(vcpu.index()) {
            record.account(now);
            record.weight = weight;
        }
    }

    /// Where `vcpu` is; nothing if it does not exist.
    #[must_use]
    pub fn standing(&self, vcpu: Vcpu) -> Option<Standing> {
        self.vcpus.get(vcpu.index()).map(|record| record.standing)
    }

    /// Whether `vcpu` could run but has no pCPU: the preempted flag that its guest may see.
    #[must_use]
    pub fn is_preempted(&self, vcpu: Vcpu) -> bool {
        matches!(self.standing(vcpu), Some(Standing::Queued(_)))
    }

    /// How `vcpu` has spent its time up to `now`; nothing if it does not exist.
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

    /// How many vCPUs wait on the queue of `pcpu`.
    #[must_use]
    pub fn waiting(&self, pcpu: Pcpu) -> usize {
        self.slots.get(pcpu.index()).map_or(0, |slot| slot.queue.len())
    }

    /// The decision that the last event called for, with its reasons, if it called for one.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.decided.then_some(&self.decision)
    }

    /// How often each reason was given since the start.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How many events could not be true and were ignored.
    #[must_use]
    pub const fn ignored(&self) -> u64 {
        self.ignored
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

/// What becomes of each event.
impl<P: Policy> Scheduler<P> {
    fn halted(&mut self, vcpu: Vcpu) -> Option<Action> {
        let pcpu = self.owned(vcpu)?;
        let record = &mut self.vcpus[vcpu.index()];
        if core::mem::take(&mut record.kicked) {
            return Some(self.resume(vcpu, pcpu));
        }
        self.policy.notice(self.now, Notice::Worked(vcpu));
        self.vacate(vcpu, pcpu, Standing::Halted);
        Some(self.fill(pcpu))
    }

    fn preempted(&mut self, vcpu: Vcpu) -> Option<Action> {
        let pcpu = self.owned(vcpu)?;
        if !self.slots[pcpu.index()].preempting {
            return Some(self.resume(vcpu, pcpu));
        }
        self.policy.notice(self.now, Notice::Worked(vcpu));
        let next = self.pick(pcpu);
        Some(self.replace(vcpu, pcpu, next))
    }

    fn long_spin(&mut self, spin: &Spin) -> Option<Action> {
        let vcpu = spin.vcpu;
        let pcpu = self.owned(vcpu)?;
        self.vcpus[vcpu.index()].spinning = true;
        self.begin_decision(vcpu, Cause::Spin(spin.source), spin.truth);
        let limit = self.limit();
        for n in 0..self.config.vcpus {
            let unfit = self.unfit(Vcpu(n), vcpu, limit);
            let spinning = self.vcpus[Vcpu(n).index()].spinning;
            self.candidates[Vcpu(n).index()] = Candidate { unfit, spinning };
        }
        let view = View::new(self.now, self.config.pcpus, &self.candidates);
        let verdict = self.policy.on_spin(spin, &view, &mut self.decision.trace);
        let (next, outcome) = match verdict {
            Verdict::To(to, why) => match self.unfit(to, vcpu, limit) {
                None => (Some(to), Outcome::Directed { to, why }),
                Some(unfit) => {
                    self.decision.trace.skip(to, unfit);
                    self.plain(pcpu, Missed::TargetUnfit)
                }
            },
            Verdict::Plain(why) => self.plain(pcpu, why),
            Verdict::Stay(why) => (None, Outcome::Stayed { why }),
        };
        self.end_decision(outcome);
        Some(match next {
            Some(_) => self.replace(vcpu, pcpu, next),
            None => self.resume(vcpu, pcpu),
        })
    }

    /// Whom an undirected yield of `pcpu` goes to.
    fn plain(&self, pcpu: Pcpu, why: Missed) -> (Option<Vcpu>, Outcome) {
        match self.pick(pcpu) {
            Some(to) => (Some(to), Outcome::Plain { to, why }),
            None => (None, Outcome::Stayed { why: Missed::NobodyWaits }),
        }
    }

    fn wake(&mut self, target: Vcpu, by: Option<Vcpu>) -> Option<Action> {
        let Some(record) = self.vcpus.get_mut(target.index()) else {
            self.ignored += 1;
            return None;
        };
        let mut idle = None;
        match record.standing {
            Standing::Stopped => return None,
            Standing::Running(_) => {
                record.kicked = true;
                return None;
            }
            Standing::Queued(_) => record.kicked = true,
            Standing::Halted => {
                let home = record.home;
                idle = self.idle(home);
                // Who sleeps saves up no more than one slice, against those that wait or else run.
                let level = self.least().or_else(|| self.least_running());
                let credit = standard(self.config.slice);
                let record = &mut self.vcpus[target.index()];
                record.time = record.time.max(level.map_or(record.time, |t| t.minus(credit)));
                record.since = self.now;
                self.queue(target, idle.unwrap_or(home));
            }
        }
        if let Some(pcpu) = idle {
            return Some(self.fill(pcpu));
        }
        match by {
            Some(by) if self.policy.boosts_kicked() => self.boost(target, by),
            _ => None,
        }
        .or_else(|| self.wake_preempt(target))
    }

    /// Has `by`, which kicks, hand over its pCPU to `target`, which is queued.
    fn boost(&mut self, target: Vcpu, by: Vcpu) -> Option<Action> {
        let Some(Standing::Running(pcpu)) = self.standing(by) else { return None };
        if self.slots[pcpu.index()].preempting {
            return None;
        }
        self.begin_decision(by, Cause::Kick, None);
        if let Some(unfit) = self.unfit(target, by, self.limit()) {
            self.decision.trace.skip(target, unfit);
            self.end_decision(Outcome::Stayed { why: Missed::TargetUnfit });
            return None;
        }
        self.end_decision(Outcome::Directed { to: target, why: Chosen::KickedHead });
        self.slots[pcpu.index()].next = Some(target);
        self.preempt(by, pcpu)
    }

    /// Preempts the owner that is furthest ahead, if `target` lags enough behind it.
    fn wake_preempt(&mut self, target: Vcpu) -> Option<Action> {
        let Some(Standing::Queued(home)) = self.standing(target) else { return None };
        let mut furthest: Option<(VirtualTime, Vcpu, Pcpu)> = None;
        for (n, slot) in (0..).zip(&self.slots) {
            let Some(owner) = slot.owner.filter(|_| !slot.preempting) else { continue };
            let time = self.vcpus[owner.index()].accounted(self.now).time;
            if furthest.is_none_or(|(most, ..)| time > most) {
                furthest = Some((time, owner, Pcpu(n)));
            }
        }
        let (time, owner, pcpu) = furthest?;
        let lagging = self.vcpus[target.index()].time;
        if time <= lagging.plus(standard(self.config.wake_lag)) {
            return None;
        }
        self.slots[home.index()].queue.remove(target);
        self.enqueue(target, pcpu);
        self.preempt(owner, pcpu)
    }

    fn timer(&mut self, pcpu: Pcpu) -> Option<Action> {
        let now = self.now;
        let Some(slot) = self.slots.get(pcpu.index()) else {
            self.ignored += 1;
            return None;
        };
        let vcpu = slot.owner.filter(|_| !slot.preempting)?;
        let (at, graced) = (slot.until, slot.graced);
        if now < at {
            return Some(Action::SetTimer { pcpu, at });
        }
        self.vcpus[vcpu.index()].account(now);
        let time = self.vcpus[vcpu.index()].time;
        let other = self.pick(pcpu);
        let lags = |other: Vcpu| self.vcpus[other.index()].time <= time;
        if !other.is_some_and(lags) {
            return Some(self.set_timer(pcpu, self.config.slice, false));
        }
        if self.vcpus[vcpu.index()].critical && !graced && self.config.grace > Nanos::ZERO {
            return Some(self.set_timer(pcpu, self.config.grace, true));
        }
        self.preempt(vcpu, pcpu)
    }

    fn critical_section(&mut self, vcpu: Vcpu, inside: bool) -> Option<Action> {
        let Some(record) = self.vcpus.get_mut(vcpu.index()) else {
            self.ignored += 1;
            return None;
        };
        record.critical = inside;
        let Standing::Running(pcpu) = record.standing else { return None };
        let slot = &self.slots[pcpu.index()];
        // The grace was for the section alone: once it is left, the slice is over.
        let overdue = !inside && slot.graced && !slot.preempting;
        if overdue { self.preempt(vcpu, pcpu) } else { None }
    }
}

/// Moving vCPUs on and off their pCPUs.
impl<P: Policy> Scheduler<P> {
    fn knows(&self, vcpu: Vcpu) -> bool {
        vcpu.index() < self.vcpus.len()
    }

    /// The pCPU that `vcpu` owns; if it owns none, the event that says so is ignored.
    fn owned(&mut self, vcpu: Vcpu) -> Option<Pcpu> {
        if let Some(Standing::Running(pcpu)) = self.standing(vcpu) {
            return Some(pcpu);
        }
        self.ignored += 1;
        None
    }

    /// Sends the owner of `pcpu` back in, or, if it was to be preempted anyway, does that.
    fn resume(&mut self, vcpu: Vcpu, pcpu: Pcpu) -> Action {
        let slot = &self.slots[pcpu.index()];
        if slot.preempting {
            let next = self.pick(pcpu);
            return self.replace(vcpu, pcpu, next);
        }
        let until = slot.until;
        self.vcpus[vcpu.index()].spinning = false;
        self.policy.notice(self.now, Notice::Runs(vcpu));
        Action::Run { vcpu, pcpu, until }
    }

    /// Has `next` take over `pcpu` from its owner, which queues; without a `next` the owner stays.
    fn replace(&mut self, vcpu: Vcpu, pcpu: Pcpu, next: Option<Vcpu>) -> Action {
        let Some(next) = next else {
            let slot = &mut self.slots[pcpu.index()];
            slot.preempting = false;
            slot.next = None;
            return self.resume(vcpu, pcpu);
        };
        self.vacate(vcpu, pcpu, Standing::Queued(pcpu));
        self.queue(vcpu, pcpu);
        self.enter(next, pcpu)
    }

    /// Takes the owner off `pcpu`.
    fn vacate(&mut self, vcpu: Vcpu, pcpu: Pcpu, to: Standing) {
        let record = &mut self.vcpus[vcpu.index()];
        record.account(self.now);
        record.standing = to;
        let slot = &mut self.slots[pcpu.index()];
        slot.owner = None;
        slot.preempting = false;
    }

    /// Lets somebody in on `pcpu`, which has no owner, or leaves it idle.
    fn fill(&mut self, pcpu: Pcpu) -> Action {
        match self.pick(pcpu) {
            Some(vcpu) => self.enter(vcpu, pcpu),
            None => {
                self.slots[pcpu.index()].next = None;
                Action::Idle { pcpu }
            }
        }
    }

    /// Makes `vcpu`, which is queued somewhere, the owner of `pcpu`.
    fn enter(&mut self, vcpu: Vcpu, pcpu: Pcpu) -> Action {
        let record = &mut self.vcpus[vcpu.index()];
        if let Standing::Queued(from) = record.standing {
            self.slots[from.index()].queue.remove(vcpu);
        }
        record.account(self.now);
        record.standing = Standing::Running(pcpu);
        record.home = pcpu;
        let slot = &mut self.slots[pcpu.index()];
        slot.owner = Some(vcpu);
        slot.until = self.now + self.config.slice;
        slot.graced = false;
        slot.next = None;
        self.resume(vcpu, pcpu)
    }

    /// Puts `vcpu` on the queue of `pcpu`, its time no further than its cap from those that wait.
    ///
    /// The cap is what two boosts and two slices with their grace can add to a vCPU's lead. More comes only from CPU time that nobody wanted, or weights that the pCPUs cannot honour
    /// (three quarters of two pCPUs for one vCPU); that is nobody's loss, and forgiven.
    fn queue(&mut self, vcpu: Vcpu, pcpu: Pcpu) {
        let least = self.least();
        let slice = self.config.slice + self.config.grace;
        let record = &mut self.vcpus[vcpu.index()];
        if let Some(least) = least {
            let turn = VirtualTime::of(slice, record.weight);
            let lead = standard(self.config.yield_lead);
            let cap = lead.plus(lead).plus(turn).plus(turn);
            record.time = record.time.clamp(least.minus(cap), least.plus(cap));
        }
        self.enqueue(vcpu, pcpu);
    }

    fn enqueue(&mut self, vcpu: Vcpu, pcpu: Pcpu) {
        let record = &mut self.vcpus[vcpu.index()];
        record.standing = Standing::Queued(pcpu);
        record.home = pcpu;
        self.slots[pcpu.index()].queue.insert(record.time, vcpu);
    }

    fn preempt(&mut self, vcpu: Vcpu, pcpu: Pcpu) -> Option<Action> {
        self.slots[pcpu.index()].preempting = true;
        Some(Action::Preempt { vcpu, pcpu })
    }

    fn set_timer(&mut self, pcpu: Pcpu, span: Nanos, graced: bool) -> Action {
        let slot = &mut self.slots[pcpu.index()];
        slot.until = self.now + span;
        slot.graced = graced;
        Action::SetTimer { pcpu, at: slot.until }
    }
}

/// Choosing.
impl<P: Policy> Scheduler<P> {
    /// Who should have `pcpu` next, among those that wait.
    fn pick(&self, pcpu: Pcpu) -> Option<Vcpu> {
        let slot = &self.slots[pcpu.index()];
        if let Some(next) = slot.next.filter(|&next| self.is_preempted(next)) {
            return Some(next);
        }
        let most = self.slots.iter().filter_map(|slot| slot.queue.first()).min();
        match (slot.queue.first(), most) {
            (Some((here, local)), Some((there, remote))) => {
                let worth = here > there.plus(standard(self.config.migrate_lag));
                Some(if worth { remote } else { local })
            }
            (_, most) => most.map(|(_, remote)| remote),
        }
    }

    /// The virtual time of the vCPU that lags most of those that wait.
    fn least(&self) -> Option<VirtualTime> {
        self.slots.iter().filter_map(|slot| slot.queue.first()).map(|(time, _)| time).min()
    }

    /// The virtual time of the vCPU that lags most of those that run.
    fn least_running(&self) -> Option<VirtualTime> {
        let owners = self.slots.iter().filter_map(|slot| slot.owner);
        owners.map(|owner| self.vcpus[owner.index()].accounted(self.now).time).min()
    }

    /// An idle pCPU, `home` if that is one.
    fn idle(&self, home: Pcpu) -> Option<Pcpu> {
        let idle = |pcpu: &Pcpu| self.slots[pcpu.index()].owner.is_none();
        Some(home).filter(idle).or_else(|| (0..self.config.pcpus).map(Pcpu).find(idle))
    }

    /// The virtual time beyond which nobody is boosted: `yield_lead` ahead of the one that lags
    /// most of all that wait or run.
    ///
    /// The running ones count too, or they could fall back a little each time they run. But one
    /// that has a pCPU to itself and lags all the same has more weight than a pCPU can honour, and
    /// must not bar the others for ever: it counts as at most `yield_lead` behind those that wait.
    fn limit(&self) -> Option<VirtualTime> {
        let lead = standard(self.config.yield_lead);
        let waiting = self.least()?;
        let running = self.least_running().unwrap_or(waiting);
        Some(waiting.min(running.max(waiting.minus(lead))).plus(lead))
    }

    /// Why `vcpu` cannot have the pCPU of `giver`, if it cannot, for a [limit](Self::limit).
    fn unfit(&self, vcpu: Vcpu, giver: Vcpu, limit: Option<VirtualTime>) -> Option<Skipped> {
        if vcpu == giver {
            return Some(Skipped::Itself);
        }
        let Some(record) = self.vcpus.get(vcpu.index()) else { return Some(Skipped::Unknown) };
        match record.standing {
            Standing::Halted => Some(Skipped::Halted),
            Standing::Running(_) => Some(Skipped::Running),
            Standing::Stopped => Some(Skipped::Stopped),
            Standing::Queued(_) => {
                limit.is_some_and(|limit| record.time > limit).then_some(Skipped::AheadOfShare)
            }
        }
    }

    fn begin_decision(&mut self, vcpu: Vcpu, cause: Cause, truth: Option<Vcpu>) {
        self.decision.at = self.now;
        self.decision.vcpu = vcpu;
        self.decision.cause = cause;
        self.decision.truth = truth;
        self.decision.trace.clear();
    }

    fn end_decision(&mut self, outcome: Outcome) {
        if let Outcome::Directed { to, .. } = outcome {
            self.decision.trace.unskip(to);
        }
        self.decision.outcome = outcome;
        self.decided = true;
        self.tally.count(&self.decision);
    }
}

/// The virtual time that `span` is worth to a vCPU of the default weight.
fn standard(span: Nanos) -> VirtualTime {
    VirtualTime::of(span, WEIGHT_DEFAULT)
}
