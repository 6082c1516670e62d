//! The atomic cell of this world. Each access is a step of the machine, and so a point at which the
//! CPU can be taken away.

use std::panic::Location;
use std::sync::atomic::Ordering::{self, Relaxed};

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
