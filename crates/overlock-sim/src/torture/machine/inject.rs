//! What hits a CPU at a step: the faults of a plan, and random ones.

use std::panic::Location;

use super::{AtStep, Status, TorturedMachine, gap};
use crate::torture::failure::Property;
use crate::torture::faults::{Fault, InjectedFault};
use crate::torture::trace::What;

/// How many visits to a call site count as new steps of a victim; after those, only a visit whose
/// number is a power of two counts.
const VISITS: u32 = 4;

impl TorturedMachine {
    /// What happens to the current CPU before its next access, from `site` and perhaps at `offset`.
    pub(super) fn hit(&mut self, site: &'static Location<'static>, offset: Option<u32>) -> AtStep {
        self.tally.steps += 1;
        if self.tally.steps >= self.steps_most {
            if self.draining {
                self.fail(None, Property::Progress, "the run does not come to an end".into());
                return AtStep::Suspend;
            }
            self.draining = true;
            // All CPUs only have to finish: this limit is far more than that takes, even for
            // waiters that spin through other CPUs' slices.
            self.steps_most = 2 * self.steps_most + 20_000_000;
        }
        match self.injected(site) {
            Some(InjectedFault::Away(ns)) => {
                self.stopped = self.script.filter(|script| script.stops).map(|_| self.cpu());
                return self.take_away(ns);
            }
            Some(InjectedFault::Interrupt) => return AtStep::Interrupt,
            None => {}
        }
        let cpu = &self.cpus[self.cpu()];
        if self.world.pcpus < self.world.cpus
            && self.core.now >= cpu.slice_end
            && !self.ready.is_empty()
        {
            self.note_fault(Fault::Slice);
            self.add(self.cpu(), What::Ready);
            self.lose(Status::Ready);
            return AtStep::Suspend;
        }
        if self.draining {
            return AtStep::Nothing;
        }
        let reaches = self.world.reach_one_in != 0 && offset.is_some_and(|at| self.is_others(at));
        let lost = reaches && self.rng.one_in(self.world.reach_one_in);
        self.until_away -= 1;
        if self.until_away == 0 || lost {
            self.until_away = gap(&mut self.rng, self.world.away_one_in);
            let ns = self.world.away.draw(&mut self.rng);
            return self.take_away(ns);
        }
        self.until_interrupt -= 1;
        if self.until_interrupt == 0 {
            self.until_interrupt = gap(&mut self.rng, self.world.interrupt_one_in);
            if usize::from(self.cpus[self.cpu()].level) + 1 < self.world.levels {
                return AtStep::Interrupt;
            }
        }
        AtStep::Nothing
    }

    /// Whether there is a cell of another CPU's slot at this offset.
    fn is_others(&self, offset: u32) -> bool {
        let slots = self.memory.slot(0).start..self.memory.table_offset;
        slots.contains(&offset) && !self.memory.slot(self.cpu()).contains(&offset)
    }

    fn take_away(&mut self, ns: u64) -> AtStep {
        self.note_fault(Fault::Away);
        self.add(self.cpu(), What::Away { ns });
        self.lose(Status::Away { until: self.core.now + ns });
        AtStep::Suspend
    }

    /// The fault that the plan injects into the current CPU at this step, if any.
    fn injected(&mut self, site: &'static Location<'static>) -> Option<InjectedFault> {
        let next = self.injected_faults.last()?;
        let cpu = &self.cpus[self.cpu()];
        if next.cpu != self.cpu() || cpu.rounds > 0 || cpu.ops.is_empty() {
            return None;
        }
        let visits = self.visits.entry((site.file(), site.line(), site.column())).or_default();
        *visits += 1;
        if *visits > VISITS && !visits.is_power_of_two() {
            return None;
        }
        self.eligible += 1;
        if self.eligible > next.step {
            self.injected_faults.pop().map(|next| next.what)
        } else {
            None
        }
    }
}
