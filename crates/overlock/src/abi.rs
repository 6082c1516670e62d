//! The slow halves of the locks, for front ends whose fast halves are written in another language.
//!
//! A C header has the uncontended path inline: one read-modify-write on the lock word. The lock's
//! own [`RawLock`] does the same, or has a [cheap release](crate::platform::CheapRelease). Both may
//! be used on one lock, since a read-modify-write overwrites nothing. When the fast path fails, the
//! front end calls into this module. The bits it needs are constants of [`SlowPath`], and its tests
//! compare them with its own.
//!
//! This is a contract between this crate and front ends of the same version only.

use crate::counters::Class;
use crate::platform::Platform;
use crate::raw::queue::{Order, QueueLock};
use crate::raw::word::queue::{LockWord, rmw};
use crate::raw::word::{test_and_set, ticket};
use crate::raw::{RawLock, TestAndSet, Ticket, Width};

/// What a fast path in another language needs to know about a lock.
///
/// | lock | fast acquisition | fast release |
/// |---|---|---|
/// | `TestAndSet` | CAS of the word from 0 to `TAKE`, Acquire | swap in 0, Release |
/// | `Queued`, `Hybrid` | CAS of the word from 0 to `TAKE`, Acquire | CAS that subtracts `TAKE`, if it is set, and clears [`QUEUE_WAKES`], Release |
/// | `Ticket` | CAS of the tail from the head's ticket, which is even, to the next, Relaxed; owner if the head still serves that, Acquire | CAS that adds `TAKE` to the head, if a ticket is out, Release |
///
/// When Rust and another language share a lock, the language that took it must release it: Rust's
/// fast acquisition may leave the counting of a steal to the release.
pub trait SlowPath: RawLock {
    /// What the fast acquisition sets or adds.
    const TAKE: u32;
    /// The bits that tell a fast release to call [`after_release`](Self::after_release) if one of
    /// them was set before.
    const SLOW: u32;

    /// The value of `ticket` when none has been drawn.
    const NO_TICKET: u32 = u32::MAX;

    /// Waits for the lock after the fast acquisition has failed. `ticket` is the one that the fast
    /// path drew, or [`NO_TICKET`](Self::NO_TICKET); a lock without tickets ignores it.
    fn lock_slow_path(&self, ticket: u32);

    /// What is left to do when a lock has just been released: kicks its waiter, for example.
    ///
    /// `before` is the value that the fast release found in the cell it changed. The lock's memory
    /// may be gone: only the address of `lock` is used.
    fn after_release(lock: *const Self, before: u32);
}

/// What a fast release of `Queued` and `Hybrid` clears besides `TAKE`.
pub const QUEUE_WAKES: u32 = rmw::WAKES;

impl<P: Platform, C: Class> SlowPath for TestAndSet<P, C> {
    const TAKE: u32 = test_and_set::FlagWord::HELD.bits();
    const SLOW: u32 = test_and_set::SLOW;

    fn lock_slow_path(&self, _ticket: u32) {
        self.lock_slow(None);
    }

    fn after_release(lock: *const Self, _before: u32) {
        Self::kick(lock);
    }
}

impl<P: Platform, C: Class, W: Width> SlowPath for Ticket<P, C, W> {
    const TAKE: u32 = ticket::rmw::DRAW;
    const SLOW: u32 = ticket::rmw::SLOW;

    fn lock_slow_path(&self, ticket: u32) {
        self.lock_slow((ticket != Self::NO_TICKET).then_some(ticket));
    }

    fn after_release(lock: *const Self, before: u32) {
        Self::kick(lock, ticket::Head::new(before));
    }
}

impl<P: Platform, O: Order, C: Class> SlowPath for QueueLock<P, O, C> {
    const TAKE: u32 = rmw::RELEASE;
    const SLOW: u32 = rmw::SLOW;

    fn lock_slow_path(&self, _ticket: u32) {
        self.lock_slow(None);
    }

    fn after_release(lock: *const Self, before: u32) {
        // The word is the only field with a size.
        Self::after_release(lock.cast(), LockWord::new(before));
    }
}
