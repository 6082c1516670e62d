//! The memory of a run.

use overlock::atomic::ConstAtomic as _;
use overlock::platform::{Bucket, LEVELS, Slot};

use crate::engine;
use crate::torture::arena::Arena;
use crate::torture::conditions::Conditions;

pub(crate) type Word<T> = engine::Word<T, Injected>;

/// What accesses of cells come to: each is a step of the machine, and the oracles see it.
#[derive(Debug)]
pub(crate) struct Injected;

/// The entry of a waiter for a lock that no run has.
const FOREIGN: u32 = 0xffff_0007;

/// How many cells a queue node has, of which the first is its state.
const NODE_CELLS: u32 = 4;

/// Where the slots and the table of a run lie.
pub(crate) struct Memory {
    pub(crate) slots: Vec<&'static Slot<Word<u32>>>,
    pub(crate) table: &'static [Bucket<Word<u32>>],
    pub(crate) table_offset: u32,
    /// The entries of the table, for the oracle of residues: their offsets and first contents.
    pub(crate) table_entries: Vec<(u32, u32)>,
    /// The offsets of the states of queue nodes.
    pub(crate) states: Vec<u32>,
}

impl Memory {
    /// Puts a slot for each CPU and the table of waiters into the arena.
    pub(crate) fn lay_out(arena: &mut Arena, world: &Conditions) -> Self {
        let mut states = Vec::new();
        let mut slot = || {
            // The nodes come first. Numbers in the cells tell where each of them has its place.
            let mut made = 0;
            let slot = arena.put(Slot::<Word<u32>>::with(|| {
                made += 1;
                Word::holding(made)
            }));
            let first = Arena::offset(std::ptr::from_ref(slot).addr());
            for offset in (first..first + size_of_val(slot) as u32).step_by(4) {
                let number = Arena::peek(offset);
                if number % NODE_CELLS == 1 && number <= LEVELS as u32 * NODE_CELLS {
                    states.push(offset);
                }
            }
            Arena::clear(first, size_of_val(slot));
            slot
        };
        let slots = (0..world.cpus).map(|_| slot()).collect();
        let mut entry = 0;
        let table = arena.put_all(world.buckets, || {
            Bucket::<Word<u32>>::with(|| {
                let foreign = entry % Bucket::<Word<u32>>::ENTRIES < world.foreign;
                entry += 1;
                if foreign { Word::holding(FOREIGN) } else { Word::ZERO }
            })
        });
        let table_offset = Arena::offset(table.as_ptr().addr());
        let cells = |bucket| {
            let entries = 0..Bucket::<Word<u32>>::ENTRIES;
            entries.map(move |entry| bucket * size_of::<Bucket<Word<u32>>>() + entry * 4)
        };
        let offsets = (0..world.buckets).flat_map(cells).map(|at| table_offset + at as u32);
        let table_entries: Vec<_> = offsets.map(|at| (at, Arena::peek(at))).collect();
        let foreign = table_entries.iter().filter(|&&(_, contents)| contents == FOREIGN).count();
        assert_eq!(foreign, world.buckets * world.foreign, "each entry has a place in the list");
        Self { slots, table, table_offset, table_entries, states }
    }

    pub(crate) fn slot(&self, cpu: usize) -> std::ops::Range<u32> {
        let first = Arena::offset(std::ptr::from_ref(self.slots[cpu]).addr());
        first..first + size_of::<Slot<Word<u32>>>() as u32
    }
}
