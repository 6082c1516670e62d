//! `Shared`: threads of several processes that map the same memory. Linux.
//!
//! The clauses are answered as for [`Threads`](super::Threads), except these:
//!
//! | clause | answer |
//! |---|---|
//! | P0 | Releases are read-modify-writes. |
//! | P4 | The futex is a shared one: the kernel finds the waiters of every process by the page behind the address. |
//! | P7, P8 | Numbers, slots and the table belong to this process and mean nothing to another. So only locks that halt on their own word work, because they need none of these ([`KICKS_BY_ADDRESS`](Platform::KICKS_BY_ADDRESS)). |

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use super::threads::{clock, futex};
use super::{Platform, ReadModifyWrite};
use crate::slot::{Cpu, Slot};
use crate::waiters::bucket::Bucket;

/// Threads of several processes that share the memory in which a lock lies. For
/// [`TestAndSet`](crate::TestAndSet).
///
/// Such a lock is not robust: if a process dies with the lock, or while it waits, the lock stays
/// taken or other waiters may sleep on (the dead waiter may have been the one that was kicked). A
/// timed acquisition notices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared;

static SLOT: Slot<AtomicU32> = Slot::new();
static BUCKETS: [Bucket<AtomicU32>; 1] = [Bucket::new()];

// SAFETY: the tables of this file and of `Threads` answer the contract clause by clause.
unsafe impl Platform for Shared {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;
    type Release = ReadModifyWrite;

    const WAITS: bool = true;
    const KICKS_BY_ADDRESS: bool = true;

    fn nap(ns: u64) {
        futex::nap(ns);
    }

    fn cpu() -> Option<Cpu> {
        None
    }

    fn slot(_cpu: Cpu) -> &'static Slot<AtomicU32> {
        &SLOT
    }

    fn waiters() -> &'static [Bucket<AtomicU32>] {
        &BUCKETS
    }

    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        Self::wait_as(word, expected, deadline_ns, u32::MAX);
    }

    fn wait_as(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>, classes: u32) {
        futex::wait_as(word, expected, deadline_ns, classes, futex::Scope::Shared);
    }

    fn kick(_word: *const AtomicU32, _cpu: Cpu) {}

    fn kick_any_of(word: *const AtomicU32, classes: u32) -> bool {
        futex::wake_of(word, 1, classes, futex::Scope::Shared)
    }

    fn kick_every_of(word: *const AtomicU32, classes: u32) -> bool {
        futex::wake_of(word, i32::MAX, classes, futex::Scope::Shared)
    }

    fn now_ns() -> u64 {
        clock::now_on(libc::CLOCK_MONOTONIC)
    }
}
