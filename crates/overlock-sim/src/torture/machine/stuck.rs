//! Whether CPUs get on: no waiter sleeps in vain, no lock stays free, and no operation lasts.

use super::{AUDITS, CpuState, Status, TorturedMachine};
use crate::torture::conditions::Verb;
use crate::torture::failure::Property;
use crate::torture::kind::{Layout, Role, Survives};
use crate::torture::lock_model::{NO_STEALING, STEALS, tail};

impl TorturedMachine {
    /// Whether all CPUs involved with some lock have halted, with no CPU left to wake them.
    pub(super) fn check_wakeups(&mut self) {
        for lock in 0..self.locks.len() {
            let is_lost = || self.ops_of(lock).any(|(cpu, op)| self.has_room(cpu, op));
            if self.locks[lock].owner.is_none() && self.all_sleep(lock) && is_lost() {
                let text = "all waiters of the free lock have halted, and no kick is on its way";
                return self.fail(Some(lock), Property::LostWakeup, text.into());
            }
        }
    }

    fn all_sleep(&self, lock: usize) -> bool {
        let mut anybody = false;
        for (cpu, state) in self.cpus.iter().enumerate() {
            for (index, op) in state.ops.iter().enumerate() {
                if op.lock != lock {
                    continue;
                }
                let innermost = index + 1 == state.ops.len() && op.level == state.level;
                match state.status {
                    Status::Halted { offset, .. }
                        if innermost && op.verb.is_some() && !self.is_being_kicked(cpu, offset) =>
                    {
                        anybody = true;
                    }
                    _ => return false,
                }
            }
        }
        anybody
    }

    /// Checks whether some lock is stuck, or some CPU that should have given up is still waiting.
    pub(super) fn audit(&mut self) {
        self.plan_audit();
        for lock in 0..self.locks.len() {
            let owed = if self.is_owed(lock) { self.locks[lock].owed + 1 } else { 0 };
            self.locks[lock].owed = owed;
            if owed > AUDITS {
                let text = format!(
                    "no CPU that could take the free lock has done so for {} ns",
                    self.world.stuck_ns
                );
                return self.fail(Some(lock), Property::Progress, text);
            }
        }
        for cpu in 0..self.cpus.len() {
            if let Some((lock, oracle, text)) = self.is_overdue(cpu) {
                return self.fail(Some(lock), oracle, format!("cpu {cpu} {text}"));
            }
        }
    }

    /// A CPU is back that a script has stopped for so long that those which keep coming should have
    /// finished, unless it held the lock.
    pub(super) fn check_stop(&mut self, cpu: usize) {
        let (model, now) = (&self.locks[0], self.core.now);
        let Some(op) = self.cpus[cpu].op().filter(|op| !op.is_release()) else { return };
        let holds = model.owner == Some(cpu)
            || model.readers.contains(&cpu)
            || model.upgradable == Some(cpu)
            || model.taker.is_some_and(|(taker, at)| taker == cpu && at >= op.began)
            || self.is_held_by_word(0);
        let has_finished = |other: &CpuState| other.status == Status::Done;
        let may_sleep = |other: &CpuState| match (other.status, model.kind.promise.survives) {
            (Status::Halted { .. }, Survives::Everybody) => true,
            (Status::Halted { until, .. }, _) if model.kind.role == Role::Lock => {
                other.op().is_some_and(|op| until - now <= now - op.began)
            }
            _ => false,
        };
        let keeps_coming = |&other: &usize| self.script.is_some_and(|of| of.keeps_coming(other));
        let mut others = (0..self.cpus.len()).filter(|&other| other != cpu).filter(keeps_coming);
        let get_through = others.clone().any(|other| has_finished(&self.cpus[other]));
        let is_late = |other: &CpuState| !(has_finished(other) || get_through && may_sleep(other));
        if let Some(late) = others.find(|&other| is_late(&self.cpus[other])).filter(|_| !holds) {
            let text = format!("cpu {late} has not got through while cpu {cpu} was stopped");
            self.fail(Some(0), Property::Progress, text);
        }
    }

    /// Whether a CPU that is running still works on an operation that should be over.
    fn is_overdue(&self, cpu: usize) -> Option<(usize, Property, &'static str)> {
        let state = &self.cpus[cpu];
        let op = state.op().filter(|_| !state.is_away())?;
        let deadline = op.deadline.map(|at| at.saturating_sub(state.skew));
        let taken = self.locks[op.lock].taker.filter(|&(taker, at)| taker == cpu && at >= op.began);
        let (due, oracle, text) = match (op.verb, taken, deadline) {
            (None, ..) => (op.began, Property::Progress, "does not get through with its release"),
            (_, Some((_, at)), _) => {
                (at, Property::Progress, "has taken the lock but does not get to work")
            }
            // It has waited and asks for the lock again; or it needs a list that another CPU may
            // have taken away with it.
            (Some(Verb::Lock | Verb::Wait | Verb::Notify), None, _) => return None,
            (Some(Verb::Last), ..) => {
                (op.began, Property::Progress, "only reads, and does not get through")
            }
            (_, _, Some(at)) => {
                (at, Property::Deadline, "has not given up long after its deadline")
            }
            _ => return None,
        };
        let late = self.core.now > due.max(state.since) + self.world.stuck_ns;
        late.then_some((op.lock, oracle, text))
    }

    /// Whether some CPU should take a lock now, according to the lock's promise.
    fn is_owed(&self, lock: usize) -> bool {
        let model = &self.locks[lock];
        let promise = model.kind.promise;
        if model.owner.is_some() || !model.is_free() {
            return false;
        }
        // The CPUs with an operation on this lock: (CPU, releases, is away, runs)
        let involved: Vec<(usize, bool, bool, bool)> = self
            .cpus
            .iter()
            .enumerate()
            .flat_map(|(cpu, state)| state.ops.iter().map(move |op| (cpu, state, op)))
            .filter(|(_, _, op)| op.lock == lock)
            .map(|(cpu, state, op)| {
                let interrupted = op.level != state.level;
                let runs = state.status == Status::Running && !interrupted;
                (cpu, op.is_release(), state.is_away() || interrupted, runs)
            })
            .collect();
        if involved.iter().all(|(.., away, _)| !away) {
            return self.ops_of(lock).any(|(cpu, op)| self.has_room(cpu, op));
        }
        if promise.layout == Layout::ReadWrite {
            return self.is_owed_to_the_running(lock);
        }
        let releaser_away = involved.iter().any(|(_, releases, away, _)| *releases && *away);
        let newcomer_away = involved
            .iter()
            .any(|(cpu, releases, away, _)| !releases && *away && model.place(*cpu).is_none());
        let newcomer_runs = involved
            .iter()
            .any(|(cpu, releases, _, runs)| !releases && *runs && model.place(*cpu).is_none());
        let first = model.first().and_then(|first| {
            involved.iter().find(|(cpu, releases, ..)| *cpu == first && !releases)
        });
        let first_can = first
            .is_some_and(|(_, _, away, runs)| *runs || !away && !releaser_away && !newcomer_away);
        match promise.survives {
            Survives::Nobody => false,
            Survives::AllButFirst => first_can,
            Survives::AllButDeclared | Survives::AllWithOthersBehind => {
                // Without a queue, it is closed to those that have not halted.
                let is_full = tail(model.word) != 0 && model.word & STEALS == STEALS;
                let open = model.word & NO_STEALING == 0 && !is_full;
                let ends = promise.survives == Survives::AllWithOthersBehind;
                let behind = |&(cpu, releases, away, _): &(usize, bool, bool, bool)| {
                    !releases && !away && model.place(cpu).is_some() && model.first() != Some(cpu)
                };
                let another_can =
                    if open { newcomer_runs } else { ends && involved.iter().any(behind) };
                first_can || another_can
            }
            Survives::Everybody => involved.iter().any(|(_, releases, _, runs)| !releases && *runs),
        }
    }
}
