//! Which CPU has halted for which lock: a fixed hash table from a lock to the CPU to kick.
//!
//! A lock word has no room for the name of its halted waiter, and must not be touched after the
//! release (F4). So a waiter enters its name here before it sets the mark in the lock word, and the
//! releasing CPU looks the waiter up by the lock's *address* only.
//!
//! # State
//!
//! A bucket is one cache line of 16 entries. An entry is one word: `tag << 16 | node`, or zero. The
//! key (the lock's address and, for a ticket lock, the ticket) hashes to a bucket and a tag. Two
//! keys may share both; then both waiters are kicked, and P4 makes the needless kick harmless. An
//! entry never moves, so a look-up can miss it only if the look-up ran before the entry was
//! written.
//!
//! # Invariants
//!
//! * W1: the CPU that writes an entry (the waiter, or a promoter on its behalf) does so before the
//!   lock word says `HALTED`.
//! * W2: only the waiter that an entry names removes it (or the promoter that wrote it, if the
//!   promotion failed).
//! * W3: a full bucket refuses the entry. The waiter then must not halt indefinitely (F19):
//!   [`insert`] is `#[must_use]`. It naps ([`NAP_NS`]).
//!
//! # Orderings
//!
//! Entries are written and read with `Relaxed` accesses: the `Release` that sets `HALTED` in the
//! lock word publishes them, and the `Acquire` of the releaser that saw `HALTED` makes them visible
//! (W1).
//!
//! # Departures
//!
//! Linux's `pv_hash` (kernel/locking/qspinlock_paravirt.h) keeps the lock's address and a node
//! pointer in two words, has the unlocker remove the entry, and walks the whole table on a miss.
//! With one word per entry, removed by its owner, there is no order between halves to keep, a
//! double insertion (F2) is impossible, and any CPU can kick twice.

use bucket::Bucket;

use crate::platform::Platform;
use crate::slot::NodeId;

pub(crate) mod bucket;

/// How long a CPU naps when no kick would find it: it has no number or no node, the table is full,
/// or a cheap release may have missed its mark. In nanoseconds.
///
/// Linux adds its timer slack to a nap, which is 50 µs unless the thread has asked for another: a
/// nap of 1 µs lasts about 65 µs, and one of 50 µs about 115 µs (the medians of 500 on a virtual
/// machine with 2 CPUs). So much shorter naps would double the looks that a napping CPU spends
/// processor time on, and gain half a nap at most. With longer naps a free lock stays idle for
/// longer if only napping CPUs want it, for half a nap on average. No lock relies on it for more.
pub(crate) const NAP_NS: u64 = 50_000;

/// What a waiter waits for: a lock, or one ticket of a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(u64);

impl Key {
    /// The key of a lock; where each waiter has its own key, also of ticket `ticket`.
    #[inline]
    pub(crate) fn new<T>(lock: *const T, ticket: u32) -> Self {
        // Fibonacci hashing: the multiplier is 2^64 divided by the golden ratio.
        let lock = lock.addr() as u64 ^ (u64::from(ticket) << 48);
        Self(lock.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// 16 bits that two keys of one bucket seldom share.
    const fn tag(self) -> u32 {
        (self.0 >> 32) as u32 & 0xffff
    }

    /// 16 more bits, which two keys of one bucket and tag seldom share.
    pub(crate) const fn second_tag(self) -> u32 {
        (self.0 >> 16) as u32 & 0xffff
    }

    fn bucket<P: Platform>(self) -> &'static Bucket<P::Word> {
        let buckets = P::waiters();
        &buckets[(self.0 >> 48) as usize % buckets.len()]
    }
}

/// Enters `waiter` for `key`. Returns false if the bucket is full (W3): then no CPU can kick the
/// waiter.
#[must_use]
pub(crate) fn insert<P: Platform>(key: Key, waiter: NodeId) -> bool {
    key.bucket::<P>().insert(key.tag(), waiter)
}

/// Removes the entry that [`insert`] made (W2).
pub(crate) fn remove<P: Platform>(key: Key, waiter: NodeId) {
    key.bucket::<P>().remove(key.tag(), waiter);
}

/// The waiters entered for `key`, and occasionally a waiter whose key has the same tag.
///
/// The caller has seen the lock word say `HALTED`, with `Acquire` (W1), or only wants a hint: what
/// it finds may then be out of date.
pub(crate) fn find<P: Platform>(key: Key) -> impl Iterator<Item = NodeId> {
    key.bucket::<P>().find(key.tag())
}
