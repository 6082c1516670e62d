//! Threads that wait for a condition which other threads make true.
//!
//! Threads of a *group* share a lock with two condition variables and a few counts:
//! * ping-pong: groups of two (the last of three, if the number is odd), whose members take turns.
//!   All wait on the first condition variable.
//! * producers and consumers: one group with a buffer of [`PLACES`] places. Producers wait on the
//!   first, consumers on the second.
//! * broadcast: one group. The first thread waits on the first condition variable until all others
//!   have come, and then releases all, which wait on the second.
//!
//! Half of the notifications are made with the lock held and half after its release, at random:
//! programs do both.
//!
//! At the end all are ready whatever the counts say, and the coordinator notifies all until they
//! have left. So a thread that sleeps through a notification has stalled until then, and is seen.

use super::{Place, Shared, Stamped, Worker, start};
use crate::threads::run::RunSpec;
use crate::threads::sample::Sampling;
use crate::threads::steps::STEPS;
use crate::threads::subject::{Monitor, Notify};
use crate::threads::watch::Progress;
use overlock_results::Run;
use overlock_results::Task;
use overlock_results::{Rng, seed_of};
use std::cell::Cell;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The places of the producers' buffer.
const PLACES: u64 = 16;

/// The threads that share a lock. The counts are ordered by it.
#[repr(align(128))]
struct Group<M> {
    monitor: M,
    counter: AtomicU64,
    /// Turns taken, full places, or broadcasts made.
    count: AtomicU64,
    /// Threads that have come since the last broadcast.
    come: AtomicU64,
}

impl<M: Monitor> Place for Group<M> {
    fn updates(&self) -> u64 {
        self.counter.load(Relaxed)
    }

    fn wake(&self) {
        self.monitor.notify(Notify::All(0));
        self.monitor.notify(Notify::All(1));
    }
}

#[derive(Clone, Copy, Debug)]
struct Member {
    task: Task,
    group: usize,
    /// Its number in the group, of `of`.
    number: u64,
    of: u64,
}

impl Member {
    fn new(task: Task, index: usize, threads: usize) -> Self {
        if task != Task::PingPong {
            return Self { task, group: 0, number: index as u64, of: threads as u64 };
        }
        let group = (index / 2).min(groups(task, threads) - 1);
        let first = 2 * group;
        let is_last = group + 1 == groups(task, threads);
        let of = if is_last { threads - first } else { 2 };
        Self { task, group, number: (index - first) as u64, of: of as u64 }
    }

    /// The condition variable on which it waits before its operation `entered`.
    fn side(self, entered: u64) -> usize {
        let is_second = match self.task {
            // A lone thread produces and consumes by turns.
            Task::ProducerConsumer if self.of == 1 => entered % 2 == 1,
            Task::ProducerConsumer => self.number % 2 == 1,
            Task::Broadcast => self.number > 0,
            _ => false,
        };
        usize::from(is_second)
    }

    /// Whether the counts let it in; `seen` is the number of broadcasts that it has answered.
    fn is_ready<M>(self, group: &Group<M>, side: usize, seen: u64) -> bool {
        let (count, come) = (group.count.load(Relaxed), group.come.load(Relaxed));
        match (self.task, side) {
            (Task::ProducerConsumer, 0) => count < PLACES,
            (Task::ProducerConsumer, _) => count > 0,
            (Task::Broadcast, 0) => come + 1 == self.of,
            (Task::Broadcast, _) => count != seen,
            _ => count % self.of == self.number,
        }
    }

    /// Changes the counts, and returns whom to notify.
    fn update<M>(self, group: &Group<M>, side: usize, seen: &mut u64) -> Notify {
        let add = |count: &AtomicU64, change: u64| {
            let sum = count.load(Relaxed).wrapping_add(change);
            count.store(sum, Relaxed);
            sum
        };
        match (self.task, side) {
            (Task::ProducerConsumer, 0) => {
                add(&group.count, 1);
                Notify::One(1)
            }
            (Task::ProducerConsumer, _) => {
                add(&group.count, u64::MAX);
                Notify::One(0)
            }
            (Task::Broadcast, 0) => {
                group.come.store(0, Relaxed);
                add(&group.count, 1);
                Notify::All(1)
            }
            (Task::Broadcast, _) => {
                *seen = group.count.load(Relaxed);
                let come = add(&group.come, 1);
                if come + 1 == self.of { Notify::One(0) } else { Notify::None }
            }
            _ => {
                add(&group.count, 1);
                match self.of {
                    1 => Notify::None,
                    2 => Notify::One(0),
                    _ => Notify::All(0),
                }
            }
        }
    }
}

fn groups(task: Task, threads: usize) -> usize {
    if task == Task::PingPong { (threads / 2).max(1) } else { 1 }
}

pub(crate) fn run<M: Monitor>(spec: &RunSpec) -> io::Result<Run> {
    let group = || Group::<M> {
        monitor: M::new(),
        counter: AtomicU64::new(0),
        count: AtomicU64::new(0),
        // The first broadcast waits for no thread.
        come: AtomicU64::new(spec.threads as u64 - 1),
    };
    let groups = (0..groups(spec.task, spec.threads)).map(|_| group()).collect();
    start(spec, groups, work_loop::<M>)
}

fn work_loop<M: Monitor>(shared: &Shared<Vec<Group<M>>>, index: usize) {
    let spec = &shared.spec;
    let member = Member::new(spec.task, index, spec.threads);
    let group = &shared.cells[member.group];
    let mut rng = Rng::new(seed_of(spec.seed, index as u64));
    let factor = if index == 0 { spec.uneven } else { 1 };
    let mixes: Vec<_> = spec.mixes.iter().map(|mix| mix.holding(factor).draw(&mut rng)).collect();
    let mut worker = Worker::new(shared, index);
    let mut sampling = Sampling::new(spec.spacing, &mut rng);
    let (mut at, mut seen) = (0, 0);
    shared.gate.wait();
    for (turn, steps) in mixes.iter().enumerate() {
        while shared.signal.mix.load(Relaxed) == turn {
            let step = steps[at];
            at = (at + 1) % STEPS;
            let stamped = sampling.is_due();
            let side = member.side(worker.entered);
            let asked = stamped.then(|| worker.clock.now());
            worker.record.set(Progress::waiting(worker.entered, false));
            worker.entered += 1;
            let is_over = Cell::new(false);
            let ready = || {
                is_over.set(shared.signal.mix.load(Relaxed) >= mixes.len());
                is_over.get() || member.is_ready(group, side, seen)
            };
            let section = |worker: &mut Worker<'_>, seen: &mut u64| {
                let granted = stamped.then(|| worker.clock.now());
                worker.record.set(Progress::running(worker.entered));
                let updates = group.counter.load(Relaxed);
                worker.chain.spend(step.cs);
                group.counter.store(updates + 1, Relaxed);
                let notify = match is_over.get() {
                    true => Notify::None,
                    false => member.update(group, side, seen),
                };
                if step.reads {
                    group.monitor.notify(notify);
                }
                (granted, notify)
            };
            let mut answered = seen;
            let (granted, notify) =
                group.monitor.enter(side, ready, || section(&mut worker, &mut answered));
            seen = answered;
            if !step.reads {
                group.monitor.notify(notify);
            }
            if let (Some(asked), Some(granted)) = (asked, granted) {
                worker.stamped(Stamped { asked, granted, writes: false });
            }
            worker.chain.spend(step.ncs);
        }
    }
    worker.finish();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_a_place_in_a_group() {
        for threads in 1..9 {
            let of = |index| Member::new(Task::PingPong, index, threads);
            let mut sizes = vec![0; groups(Task::PingPong, threads)];
            for index in 0..threads {
                assert_eq!(of(index).number, sizes[of(index).group], "{threads}, {index}");
                sizes[of(index).group] += 1;
            }
            for index in 0..threads {
                assert_eq!(of(index).of, sizes[of(index).group], "{threads}, {index}");
            }
            assert!(sizes.iter().all(|size| *size >= 2 || threads == 1), "{sizes:?}");
        }
    }
}
