//! Do threads that are born, die and sweep at once get numbers of their own? Every
//! interleaving with up to three preemptions.

use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Relaxed};

use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;

use crate::cell::{Cell, cells};

#[path = "../../src/numbers/table.rs"]
mod table;

use table::Table;

cells!(u32 => AtomicU32, u64 => AtomicU64);

/// A cell in which the last of two owners wins.
struct Careless(AtomicU64);

impl Cell<u64> for Careless {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
    fn compare_exchange(&self, current: u64, new: u64, _success: Ordering) -> Result<u64, u64> {
        self.0.store(new, Relaxed);
        Ok(current)
    }
}

const GONE: std::ops::Range<u64> = 1..10;

struct Memory<O> {
    used: AtomicU32,
    free: AtomicU32,
    owners: Vec<O>,
}

impl<O: Cell<u64>> Memory<O> {
    fn table(&self) -> Table<'_, AtomicU32, O> {
        Table { used: &self.used, free: &self.free, owners: &self.owners }
    }
}

#[derive(Clone, Copy)]
enum Verb {
    Take,
    Sweep,
}

/// Runs the threads on a table whose first numbers have the given owners, and of which `free` are
/// said to be free; afterwards, no two threads have the same number.
fn explore<O: Cell<u64> + Send + Sync + 'static>(
    owners: &'static [u64],
    free: u32,
    verbs: &'static [Verb],
    cell: fn(u64) -> O,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let size = owners.len() + verbs.len();
        let owner = |index| cell(owners.get(index).copied().unwrap_or(0));
        let memory = Arc::new(Memory {
            used: AtomicU32::new(owners.len() as u32),
            free: AtomicU32::new(free),
            owners: (0..size).map(owner).collect(),
        });
        let threads: Vec<_> = (10..)
            .zip(verbs)
            .map(|(me, verb)| {
                let memory = Arc::clone(&memory);
                thread::spawn(move || match verb {
                    Verb::Take => memory.table().take(me, size as u32).map(|index| (index, me)),
                    Verb::Sweep => {
                        memory.table().sweep(|who| GONE.contains(&who));
                        None
                    }
                })
            })
            .collect();
        for thread in threads {
            if let Some((index, me)) = thread.join().expect("no thread panics") {
                assert_eq!(memory.owners[index].load(Relaxed), me, "a number of two threads");
            }
        }
        let free = memory.free.load(Relaxed);
        assert!(free as usize <= size, "{free} numbers are said to be free");
    });
}

/// A thread that looks for a returned number sees one that another is about to take.
#[test]
fn a_new_number_is_not_taken_twice() {
    explore(&[], 1, &[Verb::Take, Verb::Take], AtomicU64::new);
}

#[test]
fn a_returned_number_is_not_taken_twice() {
    explore(&[0], 1, &[Verb::Take, Verb::Take], AtomicU64::new);
    explore(&[0, 0], 2, &[Verb::Take, Verb::Take], AtomicU64::new);
}

#[test]
fn numbers_stay_apart_while_others_are_given_back() {
    explore(&[1], 0, &[Verb::Take, Verb::Take, Verb::Sweep], AtomicU64::new);
    explore(&[1, 0], 1, &[Verb::Take, Verb::Take, Verb::Sweep], AtomicU64::new);
}

#[test]
#[should_panic(expected = "a number of two threads")]
fn a_table_that_overwrites_owners_is_noticed() {
    explore(&[0], 1, &[Verb::Take, Verb::Take], |owner| Careless(AtomicU64::new(owner)));
}
