//! The words of the locks, as types whose methods are their transitions.
//!
//! No other file has a mask of a lock word. Every method is pure. The locks change a word by a CAS
//! from one value to another, or by one of the read-modify-writes that a module `rmw` names.

pub(crate) mod condvar;
pub(crate) mod queue;
pub(crate) mod read_write;
pub(crate) mod test_and_set;
pub(crate) mod ticket;
