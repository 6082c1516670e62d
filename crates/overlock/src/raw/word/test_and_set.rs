//! The word of a test-and-set lock.
//!
//! | bit | name | meaning |
//! |---|---|---|
//! | 0 | `LOCKED` | The lock is held. |
//! | 1 | `WAITERS` | A waiter may have halted. A waiter sets it before it halts; a waiter that has halted also sets it when it takes the lock, because it can't know whether it was the last. The release clears it. |

/// A value of a test-and-set lock's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlagWord(u32);
bits!(FlagWord);

const LOCKED: u32 = 1;
const WAITERS: u32 = 2;

impl FlagWord {
    /// The lock is free and has no waiters.
    pub(crate) const FREE: Self = Self(0);
    /// The lock is held, and no waiter has halted.
    pub(crate) const HELD: Self = Self(LOCKED);
    /// The lock is held, and its release has to kick.
    pub(crate) const AWAITED: Self = Self(LOCKED | WAITERS);

    #[inline(always)]
    pub(crate) const fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Whether a release has to kick.
    #[inline(always)]
    pub(crate) const fn has_waiters(self) -> bool {
        self.0 & WAITERS != 0
    }

    /// `(w,0) -> (w,1)`: takes the lock. `None` if it is held.
    #[inline(always)]
    pub(crate) const fn taken(self) -> Option<Self> {
        if self.is_locked() { None } else { Some(Self(self.0 | LOCKED)) }
    }
}

/// What a release in another language looks for in the word that it replaced.
pub(crate) const SLOW: u32 = WAITERS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_word_keeps_its_waiters() {
        for bits in 0..4 {
            let word = FlagWord::new(bits);
            match word.taken() {
                Some(taken) => {
                    assert!(!word.is_locked() && taken.is_locked());
                    assert_eq!(taken.has_waiters(), word.has_waiters());
                }
                None => assert!(word.is_locked()),
            }
            assert_eq!(FlagWord::new(word.bits()), word);
        }
        assert!(FlagWord::AWAITED.is_locked() && FlagWord::AWAITED.has_waiters());
        assert_eq!(FlagWord::FREE.taken(), Some(FlagWord::HELD));
    }
}
