//! Time, and what is planned.

use super::heap::Heap;

#[derive(Clone, Copy, Debug)]
enum Plan<E> {
    /// A CPU continues, unless its plans have changed since.
    Cpu {
        cpu: u32,
        stamp: u32,
    },
    Event(E),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Due<E> {
    Cpu(u32),
    Event(E),
    /// A plan that is no longer valid.
    Void,
}

/// The engine's part of a machine.
#[derive(Debug)]
pub(crate) struct Core<E> {
    /// The machine's time, in nanoseconds.
    pub(crate) now: u64,
    /// The CPU whose coroutine runs, or ran last.
    pub(crate) current: u32,
    /// The time of the first plan.
    horizon: u64,
    heap: Heap<Plan<E>>,
    /// The stamp of each CPU's valid plan.
    stamps: Vec<u32>,
}

impl<E: Copy> Core<E> {
    pub(crate) fn new(cpus: usize) -> Self {
        let (heap, stamps) = (Heap::default(), vec![0; cpus]);
        Self { now: 0, current: 0, horizon: 0, heap, stamps }
    }

    #[inline]
    pub(crate) fn add(&mut self, at: u64, event: E) {
        self.put(at, Plan::Event(event));
    }

    /// Plans for `cpu` to continue, which replaces its previous plan.
    #[inline]
    pub(crate) fn plan(&mut self, cpu: u32, at: u64) {
        self.withdraw(cpu);
        self.put(at, Plan::Cpu { cpu, stamp: self.stamps[cpu as usize] });
    }

    /// Makes the plan of `cpu` void.
    #[inline]
    pub(crate) fn withdraw(&mut self, cpu: u32) {
        let stamp = &mut self.stamps[cpu as usize];
        *stamp = stamp.wrapping_add(1);
    }

    #[inline]
    fn put(&mut self, at: u64, plan: Plan<E>) {
        self.horizon = self.horizon.min(at);
        self.heap.add(at, plan);
    }

    /// Lets time pass until the first plan, which is due.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Due<E>> {
        let (at, plan) = self.heap.pop()?;
        self.now = self.now.max(at);
        self.horizon = self.heap.first();
        Some(match plan {
            Plan::Cpu { cpu, stamp } if self.stamps[cpu as usize] == stamp => Due::Cpu(cpu),
            Plan::Cpu { .. } => Due::Void,
            Plan::Event(event) => Due::Event(event),
        })
    }

    /// Whether it is the turn of the current CPU, whose clock says `at`; time then passes until
    /// `at`. If others are due at this very moment, it is still this CPU's turn.
    #[inline]
    pub(crate) fn has_turn(&mut self, at: u64) -> bool {
        let ready = at < self.horizon || at == self.now;
        if ready {
            self.now = self.now.max(at);
        }
        ready
    }

    /// Whether nothing is planned before `at`.
    #[inline]
    pub(crate) fn is_free_until(&self, at: u64) -> bool {
        at < self.horizon
    }

    /// Lets others run as soon as time passes for the current CPU.
    pub(crate) fn interrupt(&mut self) {
        self.horizon = 0;
    }

    /// How many plans have been made so far.
    pub(crate) const fn planned(&self) -> u64 {
        self.heap.added
    }

    /// The events that are planned, in no order.
    pub(crate) fn coming(&self) -> impl Iterator<Item = &E> {
        self.heap.all().filter_map(|plan| match plan {
            Plan::Event(event) => Some(event),
            Plan::Cpu { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_plan_of_a_cpu_makes_the_old_one_void() {
        let mut core = Core::<char>::new(2);
        core.plan(0, 10);
        core.plan(1, 20);
        core.plan(0, 30);
        core.add(25, 'e');
        let due: Vec<String> = std::iter::from_fn(|| core.next())
            .map(|due| match due {
                Due::Cpu(cpu) => format!("cpu {cpu}"),
                Due::Event(event) => event.to_string(),
                Due::Void => "void".into(),
            })
            .collect();
        assert_eq!(due, ["void", "cpu 1", "e", "cpu 0"]);
        assert_eq!((core.now, core.planned()), (30, 4));
    }

    #[test]
    fn a_cpu_has_its_turn_before_the_first_plan_and_at_the_present_moment() {
        let mut core = Core::<()>::new(1);
        core.add(5, ());
        core.add(10, ());
        core.next();
        assert!(core.has_turn(9) && core.has_turn(9), "nothing else is due before 10");
        assert!(!core.has_turn(10), "the event at 10 was planned earlier");
        core.next();
        assert!(core.has_turn(10), "the event has happened");
        core.plan(0, 10);
        assert!(core.has_turn(10), "due at this moment, but the CPU already runs");
        core.interrupt();
        assert!(!core.has_turn(11));
    }
}
