//! The loop in which vCPUs read and write under one lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Profile;
use super::shelf::Shelf;
use super::tally::{Moment, Tally, add};
use crate::vcpus::locks::read_write::ReadWrite;
use crate::{Program, Vcpu, Verbs};

/// One read in so many is timed.
const TIMED: u64 = 16;

/// The lock, on a line of its own.
#[repr(align(128))]
struct Held<L>(L);

/// The waits of one vCPU that wanted to write.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Writes {
    longest_ns: AtomicU64,
    /// When the wait that is going on began; 0 is none.
    since_ns: AtomicU64,
}

/// A profile of which a percentage of the operations reads.
pub(crate) struct Readers<'a, L> {
    profile: &'a Profile,
    percent: u8,
    lock: Shelf<Held<L>>,
    tallies: Vec<Tally>,
    writes: Vec<Writes>,
}

impl<'a, L: ReadWrite> Readers<'a, L> {
    pub(crate) fn new<W: Verbs>(profile: &'a Profile, percent: u8, vcpus: u32) -> Self {
        Self {
            profile,
            percent,
            lock: Shelf::new::<W>(1, || Held(L::NEW)),
            tallies: (0..vcpus).map(|_| Tally::default()).collect(),
            writes: (0..vcpus).map(|_| Writes::default()).collect(),
        }
    }

    /// Takes the lock to read. One wait in [`TIMED`] is timed: readings of the clock take longer
    /// than many a section.
    fn read<W: Verbs>(&self, tally: &Tally, operations: u64) -> Waited {
        let start = operations.is_multiple_of(TIMED).then(|| tally.begin::<W>());
        self.lock[0].0.read();
        start.map(|start| (start, Moment::now::<W>()))
    }

    /// Takes the lock to write. What is not taken at once is timed.
    fn write<W: Verbs>(&self, tally: &Tally, writes: &Writes) -> Waited {
        let lock = &self.lock[0].0;
        (!lock.try_write()).then(|| {
            let start = tally.begin::<W>();
            writes.since_ns.store(start.now_ns, Relaxed);
            lock.write();
            (start, Moment::now::<W>())
        })
    }

    pub(crate) fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// The longest wait of one that wanted to write, in a run that has ended then.
    pub(crate) fn write_stall_ns(&self, ended_ns: u64) -> u64 {
        let waits = self.writes.iter().map(|writes| {
            let since = writes.since_ns.load(Relaxed);
            let going_on = if since == 0 { 0 } else { ended_ns.saturating_sub(since) };
            writes.longest_ns.load(Relaxed).max(going_on)
        });
        waits.max().unwrap_or(0)
    }
}

/// When a wait began, and when it ended.
type Waited = Option<(Moment, Moment)>;

impl<W: Verbs, L: ReadWrite> Program<W> for Readers<'_, L> {
    fn run(&self, vcpu: Vcpu<W>) {
        let own = vcpu.number() as usize;
        let (tally, writes, lock) = (&self.tallies[own], &self.writes[own], &self.lock[0].0);
        let mut random = fastrand::Rng::with_seed(u64::from(vcpu.number()));
        let mut operations = 0_u64;
        while !vcpu.stopping() {
            operations += 1;
            vcpu.work_ns(self.profile.think_ns);
            let reads = random.u8(..100) < self.percent;
            let waited = if reads {
                self.read::<W>(tally, operations)
            } else {
                self.write::<W>(tally, writes)
            };
            vcpu.enter_critical();
            vcpu.work_ns(self.profile.section_ns);
            if reads {
                lock.leave();
            } else {
                lock.leave_written();
            }
            vcpu.leave_critical();
            add(&tally.operations, 1);
            let Some((start, taken)) = waited else {
                tally.took_at_once();
                continue;
            };
            let ns = tally.end(start, taken);
            if !reads {
                writes.since_ns.store(0, Relaxed);
                writes.longest_ns.fetch_max(ns, Relaxed);
            }
        }
    }
}
