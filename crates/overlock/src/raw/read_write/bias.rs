// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers without a shared line: while no writer is about, a reader writes only a line of its own.
//!
//! Readers that count themselves in one word take its cache line from each other, so two of them
//! are slower than one. A *biased* lock (`BIASED` in its word) lets a CPU note in a row of its own
//! that it reads. The writer pays: it ends the bias, waits for the notes that are being made, and
//! takes all notes into the word.
//!
//! ```text
//!   reader                                 queue head, which wants to write
//!   sequence: BIASED?                      A   CAS word: BIASED -> FOLDING
//!             my place is free?            B   cuts sequences off (membarrier)
//!             my place = lock              C   for each row: CAS place: lock -> free, n += 1
//!                                          D   RMW word: r += n, without FOLDING
//! ```
//!
//! The note is made, and unmade, in two steps like a cheap release (P11, P12). If its look came
//! before A, then by the time B returns it has either stored, and C finds that, or been cut off and
//! never stores. If it came after A, it refuses, and the reader goes to the word, which admits no
//! newcomer while it says `FOLDING`.
//!
//! A reader that leaves and can't unmake its note in a sequence, because the bias has ended or it
//! was cut off, takes the note back by a CAS of its place. Either that or C comes first. If C does,
//! the word counts this reader, perhaps not yet, and it leaves as any other; a count below zero
//! lasts until D. No CPU has halted before D (R6), so a reader that takes its note back kicks no
//! CPU, and touches nothing afterwards (F4).
//!
//! # When
//!
//! A reader that the word has counted gives the lock its bias, every `EVERY` such readers at
//! most, and not until ten times as long as the end of the last bias took has passed since: so
//! writers lose a small part of their time, however often they come (Dice and Kogan's rule).
//!
//! # Invariants
//!
//! * B1: a place in a row names a lock only while the CPU of the row reads that lock, so a lock
//!   that is not held can be moved or freed.
//! * B2: `BIASED` is set only by a CPU that has the queue and reads the lock, from a word with no
//!   more than readers; it is cleared only by the queue head.
//!
//! # Orderings
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | B-O1 | setting `BIASED` | Relaxed: a read-modify-write, it continues the release sequence of the last writer's release | the look of the sequence (P12), an Acquire: a reader sees what that writer did |
//! | B-O2 | D | Release | R-O1: a writer comes after the readers whose notes were unmade, or taken, before D |
//!
//! # Costs
//!
//! A lock has 8 bytes more. `Threads` has a row of 64 bytes for each thread that reads a biased
//! lock, in a table of zeros of 1 MiB, of which the pages that are used take memory. A thread that
//! reads more locks at a time than its row has places counts itself in the word. The end of a bias
//! costs a system call, which interrupts the other running threads, and a look at a line for each
//! thread.
//!
//! # Sources
//!
//! D. Dice, A. Kogan, "BRAVO: Biased Locking for Reader-Writer Locks", USENIX ATC 2019: the bias,
//! the places found by a hash of thread and lock, the rule. There the reader's note is an atomic
//! read-modify-write, here it is a restartable sequence. Linux kernel/locking/percpu-rwsem.c: a
//! barrier on all CPUs on the writer's side.

use core::sync::atomic::Ordering::{Relaxed, Release};

use super::RawRwLock;
use crate::atomic::Atomic;
use crate::counters::Class;
use crate::platform::{Bias, BiasPace, Platform};
use crate::raw::RawLock;
use crate::raw::word::read_write::{BIASED, RwWord, Want, rmw, update};

impl<P: Platform, C: Class, B: Bias<P>> RawRwLock<P, C, B> {
    /// Reads the lock without the word, if it is biased.
    #[inline(always)]
    pub(super) fn enters_by_bias(&self) -> bool {
        B::EXISTS && self.look().is_biased() && B::enter(&self.word, BIASED)
    }

    /// Leaves the lock, if this CPU entered it without the word.
    #[inline(always)]
    pub(super) fn leaves_by_bias(&self) -> bool {
        if !B::EXISTS {
            return false;
        }
        let seen = self.look();
        seen.is_biased() && B::leave(&self.word, BIASED)
            || seen.may_have_notes() && B::retract(&raw const self.word)
    }

    /// Gives the lock its bias, if it is time: for a reader that the word has just counted.
    #[inline(always)]
    pub(super) fn may_be_biased(&self) {
        if B::pace(&self.pace).is_some_and(BiasPace::is_due) {
            self.bias();
        }
    }

    #[cold]
    #[inline(never)]
    fn bias(&self) {
        let Some(pace) = B::pace(&self.pace) else { return };
        if !pace.allows(P::now_ns()) {
            return;
        }
        let _trace = self.trace();
        if self.queue.try_lock() {
            // A reader without a free place is counted by the word of a biased lock, too (B2).
            if !self.look().is_biased() {
                // A place that names this lock now (B1) was left behind by a lock that was here
                // before, whose guard was forgotten.
                B::take(&raw const self.word);
                // B-O1.
                let _ = update(&self.word, Relaxed, RwWord::biased);
            }
            // SAFETY: taken above.
            unsafe { self.queue.unlock() };
        }
    }

    /// Ends the bias, so that the word counts all readers. For the queue head.
    #[cold]
    #[inline(never)]
    pub(super) fn end_bias(&self) {
        let began_ns = P::now_ns();
        let folds = |seen: RwWord| seen.is_biased().then(|| seen.folding());
        if update(&self.word, Relaxed, folds).is_err() {
            return;
        }
        B::cut_off();
        self.fold();
        if let Some(pace) = B::pace(&self.pace) {
            pace.ended(began_ns, P::now_ns());
        }
    }

    /// Takes all notes into the word, which says `FOLDING`.
    pub(super) fn fold(&self) {
        let readers = B::take(&raw const self.word);
        let folded = rmw::folded(readers);
        // ORDERING: Release, B-O2.
        let before = self.word.fetch_add(folded, Release);
        let after = RwWord::new(before.wrapping_add(folded));
        Self::kick_for(&raw const self.word, RwWord::new(before), after);
    }

    /// Takes a lock that is biased, if it has room and no CPU waits, without waiting longer than
    /// the end of the bias takes. Returns whether it did.
    #[inline]
    pub(super) fn try_take_biased(&self, want: Want) -> bool {
        Self::must_end_bias(self.look(), want) && self.end_bias_and_try(want)
    }

    #[cold]
    #[inline(never)]
    fn end_bias_and_try(&self, want: Want) -> bool {
        let _trace = self.trace();
        self.queue.try_lock() && {
            self.end_bias();
            // SAFETY: taken above.
            unsafe { self.queue.unlock() };
            self.try_take(want)
        }
    }

    /// Whether one that wants the lock has to end its bias first.
    pub(super) fn must_end_bias(seen: RwWord, want: Want) -> bool {
        B::EXISTS && want != Want::Read && seen.is_biased()
    }
}
