//! Moving vCPUs on and off their pCPUs, and into and out of the queues.
//!
//! Each function here takes the state from one that keeps the scheduler's invariants to another
//! that does, except [`vacate`](Scheduler::vacate), whose callers fill the pCPU at once.

use super::judge::standard;
use super::scheduler::Slot;
use super::vcpu::VirtualTime;
use super::yield_to::{Notice, Policy};
use super::{Action, Scheduler, Standing};
use crate::host::{Nanos, Pcpu, Vcpu};

impl<P: Policy> Scheduler<P> {
    pub(super) fn owned(&self, vcpu: Vcpu) -> Option<Pcpu> {
        match self.standing(vcpu) {
            Some(Standing::Running(pcpu)) => Some(pcpu),
            _ => None,
        }
    }

    /// Sends the owner of `pcpu` back in; if it was about to be preempted anyway, preempts it.
    pub(super) fn resume(&mut self, vcpu: Vcpu, pcpu: Pcpu) -> Action {
        let slot = &self.slots[pcpu.index()];
        if slot.preempting {
            let next = self.pick(pcpu);
            return self.replace(vcpu, pcpu, next);
        }
        let until = self.slice_over(slot);
        let record = &mut self.vcpus[vcpu.index()];
        (record.spinning, record.in_user) = (false, false);
        self.policy.notice(self.now, Notice::Runs(vcpu));
        Action::Run { vcpu, pcpu, until }
    }

    /// Makes `next` take over `pcpu` from its owner, which queues; without a `next` the owner
    /// stays.
    pub(super) fn replace(&mut self, vcpu: Vcpu, pcpu: Pcpu, next: Option<Vcpu>) -> Action {
        let Some(next) = next else {
            let slot = &mut self.slots[pcpu.index()];
            (slot.next, slot.preempting) = (None, false);
            return self.resume(vcpu, pcpu);
        };
        self.vacate(vcpu, pcpu, Standing::Queued(pcpu));
        self.queue(vcpu, pcpu);
        self.enter(next, pcpu)
    }

    pub(super) fn vacate(&mut self, vcpu: Vcpu, pcpu: Pcpu, to: Standing) {
        let record = &mut self.vcpus[vcpu.index()];
        record.account(self.now);
        record.standing = to;
        self.clear(pcpu);
    }

    /// Records that `pcpu` has no owner any more.
    pub(super) fn clear(&mut self, pcpu: Pcpu) {
        let slot = &mut self.slots[pcpu.index()];
        (slot.owner, slot.preempting) = (None, false);
    }

    /// Lets a waiting vCPU in on `pcpu`, which has no owner, or leaves the pCPU idle.
    pub(super) fn fill(&mut self, pcpu: Pcpu) -> Action {
        match self.pick(pcpu) {
            Some(vcpu) => self.enter(vcpu, pcpu),
            None => {
                self.slots[pcpu.index()].next = None;
                Action::Idle { pcpu }
            }
        }
    }

    /// Makes `vcpu`, which is queued somewhere, the owner of `pcpu`.
    pub(super) fn enter(&mut self, vcpu: Vcpu, pcpu: Pcpu) -> Action {
        if let Standing::Queued(from) = self.vcpus[vcpu.index()].standing {
            self.dequeue(vcpu, from);
        }
        let record = &mut self.vcpus[vcpu.index()];
        record.account(self.now);
        (record.standing, record.woken) = (Standing::Running(pcpu), false);
        record.home = pcpu;
        let slot = &mut self.slots[pcpu.index()];
        slot.owner = Some(vcpu);
        slot.entered = self.now;
        slot.until = slot.begin_slice(self.now, self.config.slice) + self.config.slice;
        slot.graced = false;
        slot.next = None;
        self.resume(vcpu, pcpu)
    }

    /// Puts `vcpu` in the queue of `pcpu`. Its virtual time is kept within its cap of those that
    /// wait.
    ///
    /// The cap is what two boosts and two slices with their grace can add to a vCPU's lead. A
    /// larger lead comes only from CPU time that no other vCPU wanted, or from weights that the
    /// pCPUs cannot honour (three quarters of two pCPUs for one vCPU); no vCPU loses by that, and
    /// it is forgiven.
    pub(super) fn queue(&mut self, vcpu: Vcpu, pcpu: Pcpu) {
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

    /// Puts `vcpu` in the queue of `pcpu` with the virtual time that it has.
    pub(super) fn enqueue(&mut self, vcpu: Vcpu, pcpu: Pcpu) {
        let record = &mut self.vcpus[vcpu.index()];
        record.standing = Standing::Queued(pcpu);
        record.home = pcpu;
        let queue = &mut self.slots[pcpu.index()].queue;
        queue.insert(record.time, vcpu);
        if self.waiting == 0 {
            self.contested = self.now;
        }
        self.waiting += 1;
    }

    pub(super) fn dequeue(&mut self, vcpu: Vcpu, pcpu: Pcpu) {
        let queue = &mut self.slots[pcpu.index()].queue;
        queue.remove(self.vcpus[vcpu.index()].time, vcpu);
        self.waiting -= 1;
    }

    /// When the slice of the owner of `slot` is over.
    ///
    /// Slices that ended while no vCPU waited were renewed, one after the other, without a timer.
    pub(super) fn slice_over(&self, slot: &Slot) -> Nanos {
        let (end, slice) = (slot.until, self.config.slice);
        if end >= self.contested {
            return end;
        }
        let missed = (self.contested - end).0.div_ceil(slice.0);
        end + Nanos(slice.0.saturating_mul(missed))
    }

    pub(super) fn preempt(&mut self, vcpu: Vcpu, pcpu: Pcpu) -> Option<Action> {
        self.slots[pcpu.index()].preempting = true;
        Some(Action::Preempt { vcpu, pcpu })
    }

    pub(super) fn set_timer(&mut self, pcpu: Pcpu, span: Nanos, graced: bool) -> Action {
        let slot = &mut self.slots[pcpu.index()];
        slot.until = self.now + span;
        slot.graced = graced;
        Action::SetTimer { pcpu, at: slot.until }
    }
}
