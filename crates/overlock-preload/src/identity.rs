//! Who a thread is, to the mutexes that know their owner.
//!
//! An identity is the number of the process ([`choice::process`], upper half), and the *line* of
//! the thread ([`thread::line`]). Mutexes can lie in memory that processes share without having
//! said so, so the identities of two processes differ. In a forked child the thread keeps its line,
//! which no other thread there gets: see [`is_ancestors`].

use crate::{choice, thread};

#[inline]
pub(crate) fn identity() -> u64 {
    u64::from(choice::process()) << 32 | u64::from(thread::line())
}

/// Returns whether an identity can be the calling thread's own from before a fork. If it is found
/// in memory that this process shares with nobody, it is: what the thread has locked before the
/// fork is still its own. If other processes see that memory, it belongs to a thread of one of
/// them.
pub(crate) fn is_ancestors(identity: u64) -> bool {
    let mine = self::identity();
    identity != mine && identity as u32 == mine as u32
}
