// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row for each thread, in which it notes the biased locks that it reads
//! (`raw/read_write/bias.rs`).
//!
//! A row is a cache line of places. Only its thread makes notes there, by restartable sequences; a
//! writer takes them by a compare-exchange. The place for a lock is found by a hash of its address.
//! A row belongs to a thread's number, so the rows in use stay together; a thread keeps the address
//! of its row in thread-local memory, which the sequences' assembly can reach without a call.
//!
//! Where there are no restartable sequences, no lock is biased.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, fence};

use super::{MAX_CPUS, Threads, registry, rseq};
use crate::platform::{Bias, BiasPace};

/// Readers are noted in rows of their threads while no writer is about: the word of the lock, and
/// its cache line, are left alone.
#[derive(Clone, Copy, Debug)]
pub struct Biased;

/// Places in a row.
const PLACES: usize = 8;

/// The notes of one thread.
#[repr(align(64))]
struct Row([AtomicUsize; PLACES]);

static ROWS: [Row; MAX_CPUS] = [const { Row([const { AtomicUsize::new(0) }; PLACES]) }; MAX_CPUS];

/// Every row that was ever used is before this one.
static USED: AtomicU32 = AtomicU32::new(0);

/// The index of the place of a lock in each row.
#[inline(always)]
fn place(lock: usize) -> usize {
    // Locks are aligned to four bytes. Fibonacci hashing, as in `waiters.rs`.
    (lock as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - 3)
}
const _: () = assert!(PLACES == 1 << 3);

/// This thread's place for a lock. None before its first.
#[inline(always)]
fn own(lock: usize) -> Option<&'static AtomicUsize> {
    let row = core::ptr::with_exposed_provenance::<Row>(rseq::row());
    // SAFETY: null, or the address of a row, which `take_row` has exposed.
    unsafe { row.as_ref() }.map(|row| &row.0[place(lock)])
}

/// Gives this thread the row of its number.
#[cold]
#[inline(never)]
fn take_row() {
    if !rseq::is_armed() {
        return;
    }
    if let Some(cpu) = registry::current() {
        // A writer that does not see this yet sees it after its membarrier: no note of this thread
        // is earlier.
        USED.fetch_max(cpu.index() as u32 + 1, Relaxed);
        rseq::set_row((&raw const ROWS[cpu.index()]).expose_provenance());
    }
}

/// Gives the row of this thread back, when it exits. Returns false if it still has notes: a
/// destructor that runs later may release these locks.
pub(super) fn leave_row() -> bool {
    let row = core::ptr::with_exposed_provenance::<Row>(rseq::row());
    // SAFETY: as in `own`.
    let row = unsafe { row.as_ref() };
    let is_free = row.is_none_or(|row| row.0.iter().all(|place| place.load(Relaxed) == 0));
    if is_free {
        rseq::set_row(0);
    }
    is_free
}

// SAFETY: `enter` and `leave` are restartable sequences, which `membarrier` cuts off; only the
// row's thread runs them. `retract` and `take` are compare-exchanges of one place, so one of them,
// or a sequence before the end of the bias, takes a note. The orderings: on x86-64, which alone has
// the sequences, a load is an Acquire and a store a Release.
unsafe impl Bias<Threads> for Biased {
    const EXISTS: bool = rseq::BUILT;
    type Pace = BiasPace;
    const NEW: BiasPace = BiasPace::new();

    #[inline(always)]
    fn enter(word: &AtomicU32, biased: u32) -> bool {
        match own((&raw const *word).addr()) {
            Some(place) => rseq::note(place, word, biased),
            None => {
                take_row();
                false
            }
        }
    }

    #[inline(always)]
    fn leave(word: &AtomicU32, biased: u32) -> bool {
        own((&raw const *word).addr()).is_some_and(|place| rseq::unnote(place, word, biased))
    }

    #[cold]
    #[inline(never)]
    fn retract(word: *const AtomicU32) -> bool {
        let lock = word.addr();
        // ORDERING: Release, with the Acquire of `take`.
        own(lock).is_some_and(|place| place.compare_exchange(lock, 0, Release, Relaxed).is_ok())
    }

    fn take(word: *const AtomicU32) -> u32 {
        let lock = word.addr();
        let rows = &ROWS[..USED.load(Relaxed) as usize];
        let takes = |row: &&Row| {
            let place = &row.0[place(lock)];
            place.load(Relaxed) == lock && place.compare_exchange(lock, 0, Relaxed, Relaxed).is_ok()
        };
        let taken = rows.iter().filter(takes).count();
        // ORDERING: Acquire, with what has unmade the notes that are not there any more.
        fence(Acquire);
        taken as u32
    }

    #[inline(always)]
    fn pace(kept: &BiasPace) -> Option<&BiasPace> {
        rseq::is_armed().then_some(kept)
    }
}
