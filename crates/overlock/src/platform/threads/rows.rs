// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row for each thread: the cache line in which it notes the biased locks that it reads.
//!
//! A row belongs to a thread's number, so the rows in use stay together; a thread keeps the address
//! of its row in thread-local memory, which the sequences' assembly can reach without a call.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use super::rseq;
use crate::slot::{Cpu, MAX_CPUS};

/// Places in a row.
const PLACES: usize = 8;

/// The notes of one thread.
#[repr(align(64))]
struct Row([AtomicUsize; PLACES]);

static ROWS: [Row; MAX_CPUS] = [const { Row([const { AtomicUsize::new(0) }; PLACES]) }; MAX_CPUS];

/// Every row that was ever used is before this one.
static USED: AtomicU32 = AtomicU32::new(0);

/// This thread's row. None before it has taken one.
#[inline(always)]
fn own() -> Option<&'static Row> {
    // SAFETY: null, or the address of a row, which `take` has exposed.
    unsafe { ptr::with_exposed_provenance::<Row>(rseq::row()).as_ref() }
}

/// The index of the place of a lock in each row.
#[inline(always)]
fn place(lock: usize) -> usize {
    // Locks are aligned to four bytes. Fibonacci hashing, as in `waiters.rs`.
    (lock as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - 3)
}
const _: () = assert!(PLACES == 1 << 3);

/// This thread's place for a lock. None before it has taken a row.
#[inline(always)]
pub(super) fn own_place(lock: usize) -> Option<&'static AtomicUsize> {
    own().map(|row| &row.0[place(lock)])
}

/// The places for a lock of all threads.
pub(super) fn places(lock: usize) -> impl Iterator<Item = &'static AtomicUsize> {
    ROWS[..USED.load(Relaxed) as usize].iter().map(move |row| &row.0[place(lock)])
}

/// Gives this thread the row of its number.
pub(super) fn take(cpu: Cpu) {
    // A writer that does not see this yet sees it after its membarrier: no note of this thread is
    // earlier.
    USED.fetch_max(cpu.index() as u32 + 1, Relaxed);
    rseq::set_row((&raw const ROWS[cpu.index()]).expose_provenance());
}

/// Gives the row of this thread back, when it exits. Returns false if it still has notes: a
/// destructor that runs later may release these locks.
pub(super) fn leave() -> bool {
    let is_free = own().is_none_or(|row| row.0.iter().all(|place| place.load(Relaxed) == 0));
    if is_free {
        rseq::set_row(0);
    }
    is_free
}
