// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each thread notes the biased locks that it reads (`raw/read_write/bias.rs`) in a row of its own
//! (`rows.rs`).
//!
//! A row is a cache line of places. Only its thread makes notes there, by restartable sequences; a
//! writer takes them by a compare-exchange. The place for a lock is found by a hash of its address.
//!
//! Where there are no restartable sequences, no lock is biased.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, fence};

use super::{Threads, registry, rows, rseq};
use crate::platform::{Bias, BiasPace};

/// Readers are noted in rows of their threads while no writer is about: the word of the lock, and
/// its cache line, are left alone.
#[derive(Clone, Copy, Debug)]
pub struct Biased;

/// Gives this thread a row.
#[cold]
#[inline(never)]
fn take_row() {
    if rseq::is_armed()
        && let Some(cpu) = registry::current()
    {
        rows::take(cpu);
    }
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
        match rows::own_place((&raw const *word).addr()) {
            Some(place) => rseq::note(place, word, biased),
            None => {
                take_row();
                false
            }
        }
    }

    #[inline(always)]
    fn leave(word: &AtomicU32, biased: u32) -> bool {
        rows::own_place((&raw const *word).addr())
            .is_some_and(|place| rseq::unnote(place, word, biased))
    }

    #[cold]
    #[inline(never)]
    fn retract(word: *const AtomicU32) -> bool {
        let lock = word.addr();
        // ORDERING: Release, with the Acquire of `take`.
        rows::own_place(lock)
            .is_some_and(|place| place.compare_exchange(lock, 0, Release, Relaxed).is_ok())
    }

    fn take(word: *const AtomicU32) -> u32 {
        let lock = word.addr();
        let taken = rows::places(lock).filter(|place| {
            place.load(Relaxed) == lock && place.compare_exchange(lock, 0, Relaxed, Relaxed).is_ok()
        });
        let taken = taken.count();
        // ORDERING: Acquire, with what has unmade the notes that are not there any more.
        fence(Acquire);
        taken as u32
    }

    fn cut_off() {
        rseq::cut_off_notes();
    }

    #[inline(always)]
    fn pace(kept: &BiasPace) -> Option<&BiasPace> {
        rseq::gives_bias().then_some(kept)
    }
}
