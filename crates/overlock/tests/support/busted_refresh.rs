//! Faulty shared values, each with one fault, to show that the models of `Refresh` find it.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use overlock::Refresh;
use overlock::atomic::Atomic;
use overlock::platform::Platform;
use overlock::refresh::Value;

use crate::support::cells::Word;
use crate::support::models::{Depth, Steps};
use crate::support::platform::ByAddress;
use crate::support::platform::worlds::FUTEX;
use crate::support::refreshes::Call::{self, Fresh, Join, Last, Panics, Stops};
use crate::support::refreshes::{Number, Shared, calls};
use crate::support::sites;

type Right = Refresh<Number, ByAddress>;
type Compute<'a> = &'a dyn Fn() -> Number;

/// A right one whose calls are taken for others.
struct Mistaken<const FAULT: u8>(Right);

/// Its `fresh` accepts the refresh that is under way.
const JOINS: u8 = 0;
/// Its `fresh` refreshes nothing, and its `last` waits.
const SWAPPED: u8 = 1;
/// Its `join` accepts what has ended.
const IDLE: u8 = 2;

impl<const FAULT: u8> Shared for Mistaken<FAULT> {
    fn new(cell: &dyn Fn() -> Word) -> Self {
        Self(Shared::new(cell))
    }
    fn join(&self, compute: Compute) -> Number {
        match FAULT {
            IDLE if self.0.last() != Number(0) => self.0.last(),
            _ => self.0.join(compute),
        }
    }
    fn fresh(&self, compute: Compute) -> Number {
        match FAULT {
            JOINS => self.0.join(compute),
            SWAPPED => self.0.last(),
            _ => self.0.fresh(compute),
        }
    }
    fn last(&self) -> Number {
        if FAULT == SWAPPED { self.0.fresh(&|| self.0.last()) } else { self.0.last() }
    }
}

/// It has one copy, which is read while it is being written.
struct Torn([Word; 4]);

impl Shared for Torn {
    fn new(cell: &dyn Fn() -> Word) -> Self {
        Self(std::array::from_fn(|_| cell()))
    }
    fn join(&self, compute: Compute) -> Number {
        let value = compute();
        for (cell, word) in self.0.iter().zip(value.to_words()) {
            cell.store(word, Release);
        }
        value
    }
    fn fresh(&self, compute: Compute) -> Number {
        self.join(compute)
    }
    fn last(&self) -> Number {
        Number::from_words(std::array::from_fn(|i| self.0[i].load(Acquire)))
    }
}

const BUSY: u32 = 1;
const WAITERS: u32 = 2;
const ENDED: u32 = 4;

/// Its refresh ends only if the computation does. With `DEAF`, it first asks whether any CPU waits,
/// and then ends.
struct Naive<const DEAF: bool> {
    word: Word,
    value: Word,
}

impl<const DEAF: bool> Naive<DEAF> {
    fn end(&self, seen: u32) {
        let ended = seen + ENDED;
        let anybody = if DEAF {
            let word = self.word.load(Relaxed);
            self.word.store(ended, Release);
            word
        } else {
            self.word.swap(ended, Release)
        };
        if anybody & WAITERS != 0 {
            ByAddress::kick_every(&raw const self.word);
        }
    }
}

impl<const DEAF: bool> Shared for Naive<DEAF> {
    fn new(cell: &dyn Fn() -> Word) -> Self {
        Self { word: cell(), value: cell() }
    }

    fn join(&self, compute: Compute) -> Number {
        let mut joined = None;
        loop {
            let seen = self.word.load(Acquire);
            if joined.is_some_and(|number| number != seen / ENDED) {
                return self.last();
            }
            if seen & BUSY != 0 {
                joined = Some(seen / ENDED);
                let marked = seen | WAITERS;
                if self.word.compare_exchange(seen, marked, AcqRel, Relaxed).is_ok() {
                    ByAddress::wait(&self.word, marked, None);
                }
            } else if self.word.compare_exchange(seen, seen | BUSY, AcqRel, Relaxed).is_ok() {
                let value = compute();
                self.value.store(value.0, Release);
                self.end(seen);
                return value;
            }
        }
    }

    fn fresh(&self, compute: Compute) -> Number {
        self.join(compute)
    }

    fn last(&self) -> Number {
        Number(self.value.load(Acquire))
    }
}

fn failure<S: Shared>(all: Steps<Call>) -> String {
    sites::reset(None);
    let report = calls::<S>(FUTEX, Some(3), all)(Depth::Bounded);
    report.failure.expect("the model finds what is wrong with the shared value")
}

#[test]
fn every_fault_is_found() {
    for (failure, said) in [
        (failure::<Mistaken<JOINS>>(&[&[Join], &[Fresh]]), "stale: Fresh"),
        (failure::<Mistaken<SWAPPED>>(&[&[Join, Fresh], &[Join]]), "stale: Fresh"),
        (failure::<Mistaken<IDLE>>(&[&[Join], &[Join]]), "stale: Join"),
        // The refresher waits for the reader, and the reader for the refresher.
        (failure::<Mistaken<SWAPPED>>(&[&[Stops], &[Last]]), "exceeded"),
        (failure::<Torn>(&[&[Join, Join], &[Last]]), "a torn value"),
        (failure::<Naive<true>>(&[&[Join], &[Join]]), "deadlock"),
        // Nobody goes on after the panic.
        (failure::<Naive<false>>(&[&[Panics], &[Join]]), "deadlock"),
    ] {
        assert!(failure.contains(said), "{failure}");
    }
}

/// The last subject above, where no computation panics.
#[test]
fn a_naive_shared_value_is_not_found_to_be_wrong() {
    sites::reset(None);
    const ALL: &[&[Call]] = &[&[Join], &[Join, Last]];
    let report = calls::<Naive<false>>(FUTEX, Some(3), ALL)(Depth::Bounded);
    assert_eq!(report.failure, None);
}
