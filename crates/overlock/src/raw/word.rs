//! The words of the locks, as types whose methods are their transitions.
//!
//! No other file has a mask of a lock word. Every method is pure. The locks change a word by a CAS
//! from one value to another, or by one of the read-modify-writes that a module `rmw` names.

/// Lets values of a cell become a type of their own, and such values become numbers again.
macro_rules! bits {
    ($name:ident) => {
        impl $name {
            #[inline(always)]
            pub(crate) const fn new(bits: u32) -> Self {
                Self(bits)
            }

            #[inline(always)]
            pub(crate) const fn bits(self) -> u32 {
                self.0
            }
        }
    };
}

pub(crate) mod condvar;
pub(crate) mod queue;
pub(crate) mod read_write;
pub(crate) mod test_and_set;
pub(crate) mod ticket;
