//! How each event is handled.
//!
//! An event from a pCPU's owner ends in a move of [`place`](super::place): the owner goes back in,
//! or another vCPU replaces it. Any other event at most asks for a preemption, or moves a timer.

use super::judge::{Judge, standard};
use super::scheduler::LATE;
use super::vcpu::VirtualTime;
use super::yield_to::{Cause, Chosen, Missed, Notice, Outcome, Policy, Ruling, View};
use super::{Action, Scheduler, Spin, Standing};
use crate::host::{Nanos, Pcpu, Vcpu};

impl<P: Policy> Scheduler<P> {
    pub(super) fn halted(&mut self, vcpu: Vcpu) -> Option<Action> {
        let pcpu = self.owned(vcpu)?;
        let record = &mut self.vcpus[vcpu.index()];
        if core::mem::take(&mut record.kicked) {
            return Some(self.resume(vcpu, pcpu));
        }
        self.policy.notice(self.now, Notice::Worked(vcpu));
        self.vacate(vcpu, pcpu, Standing::Halted);
        Some(self.fill(pcpu))
    }

    pub(super) fn preempted(&mut self, vcpu: Vcpu) -> Option<Action> {
        let pcpu = self.owned(vcpu)?;
        if !self.slots[pcpu.index()].preempting {
            return Some(self.resume(vcpu, pcpu));
        }
        if self.earns_grace(vcpu, pcpu) {
            self.slots[pcpu.index()].preempting = false;
            let slot = &mut self.slots[pcpu.index()];
            (slot.graced, slot.until) = (true, self.now + self.config.grace);
            return Some(self.resume(vcpu, pcpu));
        }
        self.policy.notice(self.now, Notice::Worked(vcpu));
        let next = self.pick(pcpu);
        Some(self.replace(vcpu, pcpu, next))
    }

    pub(super) fn stopped(&mut self, vcpu: Vcpu) -> Option<Action> {
        let pcpu = match self.standing(vcpu) {
            None | Some(Standing::Stopped) => return None,
            Some(Standing::Running(pcpu)) => Some(pcpu),
            Some(Standing::Queued(pcpu)) => {
                self.dequeue(vcpu, pcpu);
                None
            }
            Some(Standing::Halted) => None,
        };
        self.policy.notice(self.now, Notice::Answered(vcpu));
        let record = &mut self.vcpus[vcpu.index()];
        record.account(self.now);
        (record.standing, record.kicked) = (Standing::Stopped, false);
        (record.spinning, record.critical, record.woken) = (false, false, false);
        let pcpu = pcpu?;
        self.clear(pcpu);
        Some(self.fill(pcpu))
    }

    pub(super) fn plugged(&mut self, vcpu: Vcpu) -> Option<Action> {
        let now = self.now;
        let record = self.vcpus.get_mut(vcpu.index())?;
        (record.standing, record.since, record.begun) = (Standing::Halted, now, false);
        None
    }

    pub(super) fn long_spin(&mut self, spin: &Spin) -> Option<Action> {
        let vcpu = spin.vcpu;
        let pcpu = self.owned(vcpu)?;
        self.vcpus[vcpu.index()].spinning = true;
        self.begin_decision(vcpu, Cause::Spin(spin.source));
        let limit = self.limit();
        let judge = Judge { vcpus: &self.vcpus, giver: vcpu, limit };
        let view = View::live(self.now, self.config.pcpus, self.waiting, &judge);
        self.decision.truth = spin.awaited(&view);
        let verdict = self.policy.on_spin(spin, &view, &mut self.decision.trace);
        let outcome = match verdict {
            Ruling::To(to, why) => self.directed(vcpu, pcpu, limit, (to, why)),
            Ruling::Plain(why) => self.plain(vcpu, pcpu, limit, why),
            Ruling::Stay(why) => Outcome::Stayed { why },
        };
        Some(self.carry_out(vcpu, pcpu, outcome))
    }

    pub(super) fn yielded(&mut self, vcpu: Vcpu) -> Option<Action> {
        let pcpu = self.owned(vcpu)?;
        let next = self.pick(pcpu);
        Some(self.replace(vcpu, pcpu, next))
    }

    pub(super) fn yielded_to(&mut self, vcpu: Vcpu, to: Vcpu) -> Option<Action> {
        let pcpu = self.owned(vcpu)?;
        self.begin_decision(vcpu, Cause::Request);
        let limit = self.limit();
        let outcome = self.directed(vcpu, pcpu, limit, (to, Chosen::Named));
        Some(self.carry_out(vcpu, pcpu, outcome))
    }

    /// Gives the pCPU of `vcpu` away according to `outcome`.
    fn carry_out(&mut self, vcpu: Vcpu, pcpu: Pcpu, outcome: Outcome) -> Action {
        self.end_decision(outcome);
        match outcome {
            Outcome::Directed { to, .. } | Outcome::Plain { to, .. } => {
                self.replace(vcpu, pcpu, Some(to))
            }
            Outcome::Stayed { .. } => self.resume(vcpu, pcpu),
        }
    }

    /// The outcome of a yield by `giver` to `to`.
    fn directed(
        &mut self,
        giver: Vcpu,
        pcpu: Pcpu,
        limit: Option<VirtualTime>,
        (to, why): (Vcpu, Chosen),
    ) -> Outcome {
        match self.judge(giver, limit).unfit(to) {
            None => Outcome::Directed { to, why },
            Some(unfit) => {
                self.decision.trace.skip(to, unfit);
                self.plain(giver, pcpu, limit, Missed::TargetUnfit)
            }
        }
    }

    /// The outcome of an undirected yield by `giver`. The giver's share has the same protection as
    /// in a directed one.
    fn plain(&self, giver: Vcpu, pcpu: Pcpu, limit: Option<VirtualTime>, why: Missed) -> Outcome {
        match self.pick(pcpu) {
            None => Outcome::Stayed { why: Missed::NobodyWaits },
            Some(to) if self.judge(giver, limit).ahead(to) => {
                Outcome::Stayed { why: Missed::AheadOfShare }
            }
            Some(to) => Outcome::Plain { to, why },
        }
    }

    pub(super) fn wake(&mut self, target: Vcpu) -> Option<Action> {
        let record = self.vcpus.get_mut(target.index())?;
        let mut idle = None;
        match record.standing {
            Standing::Stopped => return None,
            Standing::Running(_) => {
                record.kicked = true;
                return None;
            }
            Standing::Queued(_) => record.kicked |= !record.woken,
            Standing::Halted => {
                let home = record.home;
                idle = self.idle(home);
                // A sleeping vCPU saves up no more than one slice, relative to the waiting or else
                // running ones.
                let level = self.least().or_else(|| self.least_running(|_| true));
                let credit = standard(self.config.slice);
                let record = &mut self.vcpus[target.index()];
                record.time = record.time.max(level.map_or(record.time, |t| t.minus(credit)));
                record.account(self.now);
                (record.begun, record.woken) = (true, true);
                self.queue(target, idle.unwrap_or(home));
            }
        }
        if let Some(pcpu) = idle {
            return Some(self.fill(pcpu));
        }
        self.wake_preempt(target)
    }

    /// Preempts the owner that is furthest ahead, if `target` lags enough behind it.
    fn wake_preempt(&mut self, target: Vcpu) -> Option<Action> {
        let Some(Standing::Queued(home)) = self.standing(target) else { return None };
        let (time, owner, pcpu) = self.furthest()?;
        let lagging = self.vcpus[target.index()].time;
        if time <= lagging.plus(standard(self.config.wake_lag)) {
            return None;
        }
        self.dequeue(target, home);
        self.enqueue(target, pcpu);
        if self.earns_grace(owner, pcpu) {
            return Some(self.set_timer(pcpu, self.config.grace, true));
        }
        self.preempt(owner, pcpu)
    }

    pub(super) fn timer(&mut self, pcpu: Pcpu) -> Option<Action> {
        let now = self.now;
        let slot = self.slots.get(pcpu.index())?;
        let vcpu = slot.owner.filter(|_| !slot.preempting)?;
        let at = self.slice_over(slot);
        if now < at {
            return Some(Action::SetTimer { pcpu, at });
        }
        let record = &mut self.vcpus[vcpu.index()];
        record.account(now);
        // An owner stays while it lags, but not for what the last exit took more than this one.
        let exit = Nanos(self.config.slice.0 / LATE);
        let time = record.time.plus(VirtualTime::of(exit, record.weight));
        let other = self.pick(pcpu);
        let lags = |other: Vcpu| self.vcpus[other.index()].time <= time;
        if !other.is_some_and(lags) {
            return Some(self.set_timer(pcpu, self.config.slice, false));
        }
        if self.earns_grace(vcpu, pcpu) {
            return Some(self.set_timer(pcpu, self.config.grace, true));
        }
        self.slots[pcpu.index()].ended = Some(at);
        self.preempt(vcpu, pcpu)
    }

    /// Whether the owner of `pcpu` may stay a little longer because of its critical section.
    fn earns_grace(&self, vcpu: Vcpu, pcpu: Pcpu) -> bool {
        let graced = self.slots[pcpu.index()].graced;
        self.vcpus[vcpu.index()].critical && !graced && self.config.grace > Nanos::ZERO
    }

    pub(super) fn critical_section(&mut self, vcpu: Vcpu, inside: bool) -> Option<Action> {
        let record = self.vcpus.get_mut(vcpu.index())?;
        record.critical = inside;
        let Standing::Running(pcpu) = record.standing else { return None };
        let slot = &self.slots[pcpu.index()];
        // The grace was for the critical section alone: once the vCPU leaves it, the slice is over.
        let overdue = !inside && slot.graced && !slot.preempting;
        if overdue { self.preempt(vcpu, pcpu) } else { None }
    }

    fn begin_decision(&mut self, vcpu: Vcpu, cause: Cause) {
        self.decision.at = self.now;
        self.decision.vcpu = vcpu;
        self.decision.cause = cause;
        self.decision.truth = None;
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
