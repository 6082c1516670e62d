//! Whether threads wait or only spin. Waiting is on until it is switched off; it can't be switched
//! off once a thread may halt, because a release would then forget to kick that thread.
//!
//! ```text
//!   ON -- set(false) --> OFF
//!    |
//!    | fix: the first thread takes a number, or is about to halt
//!    v
//!   FIXED (on)
//! ```
//!
//! Where a waiter leaves its number behind, it takes that number first and asks afterwards. A
//! waiter that halts on the lock's own word ([`park`](crate::park)) needs no number, so halting
//! fixes the answer, too, and where waiting has been switched off it returns at once. So a thread
//! that has halted has fixed the answer, and a CPU that finds waiting off knows that no thread ever
//! halts. All accesses are to one word, so `Relaxed` suffices.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// See the [module documentation](self).
pub(super) struct Waiting(AtomicU8);

/// The answer for this process.
pub(super) static WAITING: Waiting = Waiting::new();

const ON: u8 = 0;
const OFF: u8 = 1;
const FIXED: u8 = 2;

impl Waiting {
    /// Waiting is on.
    const fn new() -> Self {
        Self(AtomicU8::new(ON))
    }

    /// Whether threads wait.
    #[inline(always)]
    pub(super) fn get(&self) -> bool {
        self.0.load(Relaxed) != OFF
    }

    /// Fixes the answer if waiting is on: a thread may halt from here on. Returns whether threads
    /// wait.
    pub(super) fn fix(&self) -> bool {
        // The load keeps halts, of which there are many, from writing a word that all CPUs read.
        match self.0.load(Relaxed) {
            ON => self.0.compare_exchange(ON, FIXED, Relaxed, Relaxed) != Err(OFF),
            state => state == FIXED,
        }
    }

    /// Switches waiting off if `on` is false. Returns whether `on` is in effect from here on.
    pub(super) fn set(&self, on: bool) -> bool {
        if on {
            return self.get();
        }
        matches!(self.0.compare_exchange(ON, OFF, Relaxed, Relaxed), Ok(_) | Err(OFF))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_off_for_good() {
        let waiting = Waiting::new();
        assert!(waiting.set(true) && waiting.get());
        assert!(waiting.set(false) && waiting.set(false) && !waiting.get());
        assert!(!waiting.fix() && !waiting.set(true) && !waiting.get());
    }

    #[test]
    fn it_stays_on_once_a_thread_may_halt() {
        let waiting = Waiting::new();
        assert!(waiting.fix() && waiting.fix() && waiting.get());
        assert!(!waiting.set(false) && waiting.set(true) && waiting.get());
    }
}
