//! The timer's bit of the PM1 event block: status, enable, and the interrupt they produce.
//!
//! # State
//! One word holds both bits and the number of flips of the count's highest bit noticed so far. So
//! noticing a flip and setting the status is one step, which happens exactly once, and the effect
//! of each change on the interrupt line is known exactly:
//!
//! | bits | name | changed by |
//! |---|---|---|
//! | 0 | `TMR_STS` | set by each new flip; cleared when the guest writes a one |
//! | 1 | `TMR_EN` | the guest |
//! | 2 to 63 | flips | the vCPU that notices another flip; never decreases |
//!
//! The line (the SCI) is high while both bits are set. Even with 24 bits, there are fewer than 2³⁵
//! flips in all time (2⁶⁴ ns).
//!
//! # The line follows the word
//! There is no lock, so two vCPUs can change the word in one order and move the line in the other.
//! So a vCPU that changes the level moves the line, loads the word again, and moves the line again
//! until both agree:
//!
//! ```text
//!        vCPU A                        vCPU B
//!   word: low → high
//!                                 word: high → low
//!                                 [F] fence
//!                                 line := low
//!   [F] fence
//!   line := high
//!   [F] fence
//!   word?  low: once more
//!   line := low
//! ```
//!
//! E1: once all calls have returned, the line agrees with the word. Suppose the last move of the
//! line was A's, to x, and the word's last change of level was B's, to y ≠ x. A loaded the word
//! after its move and saw x, so it did not yet see B's change. Of A's fence between move and load,
//! and B's between change and move, one comes first. If B's did, A would have seen the change. So
//! A's comes first: then B moved the line after A did, and A's was not the last move.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
    fence,
};

/// `TMR_STS` in the status register, `TMR_EN` in the enable register.
pub const TMR: u16 = 1 << 0;

const STATUS: u64 = 1 << 0;
const ENABLE: u64 = 1 << 1;
const FLIPS_SHIFT: u32 = 2;

/// The interrupt line that the timer drives: level-triggered, usually interrupt 9.
pub trait SciLine {
    /// Sets the line's level. Setting the level that it already has does nothing.
    fn set_level(&self, high: bool);
}

impl<F: Fn(bool)> SciLine for F {
    fn set_level(&self, high: bool) {
        self(high);
    }
}

/// No interrupt line: for guests that only read the count.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSci;

impl SciLine for NoSci {
    fn set_level(&self, _: bool) {}
}

/// Status, enable and flips, and the line they drive.
#[derive(Debug)]
pub(super) struct EventBlock<S> {
    word: AtomicU64,
    sci: S,
}

impl<S: SciLine> EventBlock<S> {
    /// Makes the block, and sets the line to the resulting level.
    pub(super) fn new(flips: u64, status: bool, enable: bool, sci: S) -> Self {
        let bits = if status { STATUS } else { 0 } | if enable { ENABLE } else { 0 };
        sci.set_level(high(bits));
        Self { word: AtomicU64::new(flips << FLIPS_SHIFT | bits), sci }
    }

    pub(super) fn status(&self) -> bool {
        self.word.load(Relaxed) & STATUS != 0
    }

    pub(super) fn enable(&self) -> bool {
        self.word.load(Relaxed) & ENABLE != 0
    }

    /// Records that there have been `flips`, which sets the status if any is new. Returns how many
    /// are.
    pub(super) fn note(&self, flips: u64) -> u64 {
        let noted = |word: u64| {
            let new = flips > word >> FLIPS_SHIFT;
            new.then_some(flips << FLIPS_SHIFT | word & ENABLE | STATUS)
        };
        // Relaxed, here and below: the word publishes no other data.
        match self.word.fetch_update(Relaxed, Relaxed, noted) {
            Ok(old) => {
                self.follow(old, old | STATUS);
                flips - (old >> FLIPS_SHIFT)
            }
            Err(_) => 0,
        }
    }

    pub(super) fn clear_status(&self) {
        let old = self.word.fetch_and(!STATUS, Relaxed);
        self.follow(old, old & !STATUS);
    }

    pub(super) fn set_enable(&self, enable: bool) {
        if enable {
            let old = self.word.fetch_or(ENABLE, Relaxed);
            self.follow(old, old | ENABLE);
        } else {
            let old = self.word.fetch_and(!ENABLE, Relaxed);
            self.follow(old, old & !ENABLE);
        }
    }

    /// Moves the line if the change from `old` to `new` has changed its level.
    fn follow(&self, old: u64, new: u64) {
        if high(old) == high(new) {
            return;
        }
        let mut level = high(new);
        loop {
            // ORDERING: SeqCst, between the change (or the last load) and the move: see E1.
            fence(SeqCst);
            self.sci.set_level(level);
            // ORDERING: SeqCst, between the move and the load: see E1.
            fence(SeqCst);
            let look = high(self.word.load(Relaxed));
            if look == level {
                return;
            }
            level = look;
        }
    }
}

fn high(word: u64) -> bool {
    word & (STATUS | ENABLE) == STATUS | ENABLE
}
