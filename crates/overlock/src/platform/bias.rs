// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the readers of a biased read-write lock are noted, and when a lock is biased
//! (`raw/read_write/bias.rs`).

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::Platform;

/// How many readers the word counts until the next may look at the clock: so the look costs each
/// less than a nanosecond. Any value is correct.
const EVERY: u32 = 64;
/// For how many times the length of its end a bias is not given again: writers lose a tenth of
/// their time at the most. Any value is correct.
const PAYS: u64 = 10;

/// Where readers of a biased lock are noted (P12): [`Unbiased`] if nowhere.
///
/// # Safety
/// `enter` and `leave` store in two steps (P11): once `cut_off` has returned to a CPU, none that
/// missed what that CPU wrote before can still store. Each CPU calls them for itself. A note
/// is taken by one of `leave`, `retract` and `take`. An operation that returns false has changed
/// nothing. The load of `word` is an Acquire; what unmakes a note is a Release, and `take` comes
/// after it if it does not find the note.
pub unsafe trait Bias<P: Platform>: Send + Sync + 'static {
    /// Whether locks are ever biased.
    const EXISTS: bool;
    /// What a lock keeps for it.
    type Pace: Send + Sync + 'static;
    /// A new lock's.
    const NEW: Self::Pace;

    /// Notes that this CPU reads the lock of `word`, if `word` has the bit `biased` and the CPU has
    /// a free place. It may refuse for no reason.
    fn enter(word: &P::Word, biased: u32) -> bool;

    /// Unmakes a note of this CPU, if there is one and `word` has the bit. It may refuse for no
    /// reason.
    fn leave(word: &P::Word, biased: u32) -> bool;

    /// Unmakes a note of this CPU by a read-modify-write, if there is one.
    fn retract(word: *const P::Word) -> bool;

    /// Cuts off the notes that are being made and unmade, as [`CheapRelease::membarrier`] does; but
    /// it does not fail.
    ///
    /// [`CheapRelease::membarrier`]: super::CheapRelease::membarrier
    fn cut_off();

    /// Takes the notes of all CPUs. Returns how many there were.
    fn take(word: *const P::Word) -> u32;

    /// The lock's memory of when to be biased.
    fn pace(kept: &Self::Pace) -> Option<&BiasPace>;
}

/// Readers are counted in the word of the lock.
#[derive(Clone, Copy, Debug)]
pub struct Unbiased;

// SAFETY: it makes no notes.
unsafe impl<P: Platform> Bias<P> for Unbiased {
    const EXISTS: bool = false;
    type Pace = ();
    const NEW: () = ();

    #[inline(always)]
    fn enter(_word: &P::Word, _biased: u32) -> bool {
        false
    }

    #[inline(always)]
    fn leave(_word: &P::Word, _biased: u32) -> bool {
        false
    }

    #[inline(always)]
    fn retract(_word: *const P::Word) -> bool {
        false
    }

    fn cut_off() {}

    fn take(_word: *const P::Word) -> u32 {
        0
    }

    #[inline(always)]
    fn pace((): &()) -> Option<&BiasPace> {
        None
    }
}

/// When a lock may next be biased. It takes no part in the lock's protocol.
#[derive(Debug)]
pub struct BiasPace {
    /// How many readers are still to come before the next looks.
    readers: AtomicU32,
    /// Not before this time, in units of 1,024 ns, of which this is the low half; zero: at once.
    until: AtomicU32,
}

impl BiasPace {
    /// That of a lock which may be biased at once.
    #[expect(clippy::new_without_default, reason = "made in a constant, never by default")]
    pub const fn new() -> Self {
        Self { readers: AtomicU32::new(0), until: AtomicU32::new(0) }
    }

    /// Whether a reader that the word has counted should look.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        let left = self.readers.load(Relaxed);
        // Two CPUs that write at once lose a step.
        self.readers.store(left.wrapping_sub(1), Relaxed);
        left == 0
    }

    /// Whether the lock may be biased at this time.
    pub(crate) fn allows(&self, now_ns: u64) -> bool {
        self.readers.store(EVERY, Relaxed);
        let until = self.until.load(Relaxed);
        let left = until.wrapping_sub(units(now_ns));
        until == 0 || left == 0 || left > LONGEST
    }

    /// A bias has ended, which took from one time to the other, in nanoseconds.
    pub(crate) fn ended(&self, began_ns: u64, now_ns: u64) {
        let pays_ns = now_ns.saturating_sub(began_ns).saturating_mul(PAYS);
        let pays_ns = pays_ns.min(u64::from(LONGEST - 1) << 10);
        self.until.store(units(now_ns.saturating_add(pays_ns)) + 1, Relaxed);
        self.readers.store(EVERY, Relaxed);
    }
}

/// No bias is withheld for longer: a second, in units of 1,024 ns. More is a clock that has
/// wrapped.
const LONGEST: u32 = 1 << 20;

/// A time in units of 1,024 ns: the low half, which wraps after 73 minutes.
const fn units(ns: u64) -> u32 {
    (ns >> 10) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bias_is_withheld_for_a_while_and_no_longer() {
        const HOUR: u64 = 3_600_000_000_000;
        for now_ns in [0, 1 << 41, u64::from(u32::MAX) << 10, 1 << 50] {
            assert!(BiasPace::new().allows(now_ns), "a new lock, {now_ns}");
            let pace = BiasPace::new();
            pace.ended(now_ns, now_ns + 10_000);
            assert!(!pace.allows(now_ns + 10_000));
            assert!(!pace.allows(now_ns + 100_000));
            assert!(pace.allows(now_ns + 120_000));
            assert!(pace.allows(now_ns + HOUR / 2) && pace.allows(now_ns + HOUR));
            pace.ended(now_ns, now_ns + HOUR);
            assert!(pace.allows(now_ns + HOUR + 2_000_000_000), "a second is the most");
        }
    }
}
