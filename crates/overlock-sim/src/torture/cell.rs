// SPDX-License-Identifier: MIT OR Apache-2.0
//! The atomic cell of this world. Each access is a step of the machine, and so a point at which the
//! CPU can be taken away.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::Ordering::{self, Relaxed};

use overlock::atomic::{Atomic, ConstAtomic};
use overlock::platform::LEVELS;

use crate::engine::{Access, Observer, Touch};
use crate::torture::arena::Arena;
use crate::torture::machine::calls::{self, Injected, Word};

impl<T: Copy + Into<u32>> Word<T> {
    /// The two steps of a cheap release (P11): a look, and a store. `new` computes the stored value
    /// from the values at the look and at the store. The store happens unless the sequence was cut
    /// off in between.
    #[track_caller]
    fn sequence(&self, new: impl Fn(T, T) -> Option<T>) -> bool {
        calls::begin_sequence();
        let seen = self.act(Access::Load, Relaxed, |_| None);
        new(seen, seen).is_some() && self.commit(|found| new(seen, found))
    }

    /// The last step of a sequence: stores what `new` makes of the cell's value, unless the
    /// sequence was cut off.
    #[track_caller]
    pub(crate) fn commit(&self, new: impl Fn(T) -> Option<T>) -> bool {
        let (address, site) = (self.address(), Location::caller());
        calls::step_onto(site, Some(Arena::offset(address)));
        if calls::is_cut_off() {
            return false;
        }
        let found = self.peek();
        let Some(stored) = new(found) else { return false };
        self.poke(stored);
        let touch = Touch { address, access: Access::Store, order: Ordering::Release, site };
        Injected::sees(&touch, (), found.into(), Some(stored.into()));
        true
    }
}

impl Word<u32> {
    /// Sets the lowest bit if the lowest byte is zero.
    #[track_caller]
    pub(crate) fn set_lowest_bit(&self) -> bool {
        let is_free = |word| word & 0xff == 0;
        let take = |word| is_free(word).then_some(word | 1);
        is_free(self.act(Access::ReadModifyWrite, Ordering::Acquire, take))
    }

    /// Stores a zero in the low byte if the upper half was zero at the look.
    #[track_caller]
    pub(crate) fn clear_low_byte(&self) -> bool {
        self.sequence(|seen, found| (seen >> 16 == 0).then_some(found & !0xff))
    }
}

impl Word<u16> {
    /// Stores the sum of `n` and the value at the look, unless one of the bits `unless` was set
    /// then. This loses what other CPUs wrote in between.
    #[track_caller]
    pub(crate) fn add_unless(&self, n: u16, unless: u16) -> bool {
        self.sequence(|seen, _| (seen & unless == 0).then_some(seen.wrapping_add(n)))
    }
}

/// The 32-bit cell of a platform.
pub(crate) trait Cell32: ConstAtomic<u32> + Debug {
    /// Cell number `index` of a slot, holding zero.
    fn of_slot(index: usize) -> Self;

    /// A cell with the value that it has before a run.
    fn starting_at(value: u32) -> Self;

    /// The cell itself, which has the same address as this.
    fn word(&self) -> &Word<u32>;

    /// The number that is written in place of `value`.
    fn number(&self, value: u32) -> u32;
}

impl Cell32 for Word<u32> {
    fn of_slot(_: usize) -> Self {
        Self::ZERO
    }

    fn starting_at(value: u32) -> Self {
        Self::holding(value)
    }

    fn word(&self) -> &Word<u32> {
        self
    }

    fn number(&self, value: u32) -> u32 {
        value
    }
}

/// Numbers that differ from those of the source.
pub(crate) trait Numbers: Debug + Send + Sync + 'static {
    /// The number that is written in place of a queue node's `state`.
    fn of(state: u32) -> u32 {
        state
    }

    /// The number that is written in place of a lock's first `word`.
    fn of_word(word: u32) -> u32 {
        word
    }
}

/// A cell that uses the numbers of `N`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Renumbered<N> {
    word: Word<u32>,
    /// Nonzero if this is a state. It is as wide as the cell, so that there is no padding between
    /// cells.
    is_state: u32,
    numbers: PhantomData<N>,
}

/// How many cells a queue node has.
const NODE_CELLS: usize = 4;

impl<N: Numbers> Renumbered<N> {
    const fn new(word: Word<u32>, is_state: bool) -> Self {
        Self { word, is_state: is_state as u32, numbers: PhantomData }
    }
}

impl<N: Numbers> Cell32 for Renumbered<N> {
    fn of_slot(index: usize) -> Self {
        // The nodes come first, and the first cell of each is its state.
        Self::new(Word::ZERO, index < LEVELS * NODE_CELLS && index.is_multiple_of(NODE_CELLS))
    }

    fn starting_at(value: u32) -> Self {
        Self::new(Word::holding(value), false)
    }

    fn word(&self) -> &Word<u32> {
        &self.word
    }

    fn number(&self, value: u32) -> u32 {
        match Arena::lock_at(Arena::offset(self.word.address())) {
            Some((_, 0)) => N::of_word(value),
            _ if self.is_state != 0 => N::of(value),
            _ => value,
        }
    }
}

// SAFETY: each method is that of `Word`, but the state of a node or the word of a lock is numbered
// wrongly on purpose. That confuses waiters and their wakers; who holds a lock stays as it is.
unsafe impl<N: Numbers> Atomic<u32> for Renumbered<N> {
    fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }
    fn store(&self, value: u32, order: Ordering) {
        self.word.store(self.number(value), order);
    }
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.word.swap(self.number(value), order)
    }
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.word.fetch_add(value, order)
    }
    fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.word.fetch_sub(value, order)
    }
    fn fetch_or(&self, value: u32, order: Ordering) -> u32 {
        self.word.fetch_or(value, order)
    }
    fn fetch_and(&self, value: u32, order: Ordering) -> u32 {
        self.word.fetch_and(value, order)
    }
    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        let (current, new) = (self.number(current), self.number(new));
        self.word.compare_exchange(current, new, success, failure)
    }
}

// SAFETY: it holds zero.
unsafe impl<N: Numbers> ConstAtomic<u32> for Renumbered<N> {
    const ZERO: Self = Self::new(Word::ZERO, false);
}
