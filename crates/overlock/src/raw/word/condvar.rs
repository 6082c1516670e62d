//! Words of a condition variable: a gate, the pace of its waits, and a mark of its generation.

/// A gate: a count of notifications, and in bit 0 whether a waiter may have halted there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate(u32);
bits!(Gate);

const HALTS: u32 = 1;

impl Gate {
    /// One notification.
    pub(crate) const ONE: Self = Self(2);

    /// Whether a waiter may have halted.
    pub(crate) const fn has_halted(self) -> bool {
        self.0 & HALTS != 0
    }

    /// The same gate once a waiter may have halted.
    pub(crate) const fn halted(self) -> Self {
        Self(self.0 | HALTS)
    }

    /// The same gate while none has.
    pub(crate) const fn awake(self) -> Self {
        Self(self.0 & !HALTS)
    }

    /// The gate after one more notification.
    pub(crate) const fn turned(self) -> Self {
        Self(self.0.wrapping_add(Self::ONE.0))
    }
}

/// Beside a generation: one of its threads is clearing the words of a condition variable.
pub(crate) const CLEARING: u32 = 1 << 31;

/// When to spin before a halt: in the upper half the *credit* of spins, and in the lower how many
/// waits are still to halt at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace(u32);
bits!(Pace);

const CREDIT_SHIFT: u32 = 16;
/// For how many spins in vain one that has paid makes up, and how many can be in store: a halt and
/// its wake-up take a few times as long as a spin. Any value is correct. (With a row of halts that
/// doubled after each spin in vain, 13 threads that took turns had half of std's speed.)
const GAIN: u32 = 4;
const CREDIT_MAX: u32 = 16;
/// How many waits halt at once when there is no credit. Any value is correct: fewer cost waits
/// whose notifications never come soon, and more those that begin to.
const HALTS_AT_ONCE: u32 = 127;

impl Pace {
    /// The pace after a wait that is to halt at once, or `None` if it is to spin.
    pub(crate) const fn skipped(self) -> Option<Self> {
        if self.0 & ((1 << CREDIT_SHIFT) - 1) == 0 { None } else { Some(Self(self.0 - 1)) }
    }

    /// The pace after a spin, which has met its notification or was in vain.
    pub(crate) const fn after(self, paid: bool) -> Self {
        match (self.0 >> CREDIT_SHIFT, paid) {
            (credit, true) if credit + GAIN < CREDIT_MAX => Self((credit + GAIN) << CREDIT_SHIFT),
            (_, true) => Self(CREDIT_MAX << CREDIT_SHIFT),
            (0 | 1, false) => Self(HALTS_AT_ONCE),
            (credit, false) => Self((credit - 1) << CREDIT_SHIFT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many waits spin, of which every `nth` meets its notification.
    fn spins(waits: u32, nth: u32) -> u32 {
        let (mut pace, mut spins) = (Pace::new(0), 0);
        for _ in 0..waits {
            pace = pace.skipped().unwrap_or_else(|| {
                spins += 1;
                pace.after(nth != 0 && spins % nth == 0)
            });
        }
        spins
    }

    #[test]
    fn waits_spin_while_one_spin_in_four_pays_and_hardly_ever_where_none_does() {
        assert_eq!(spins(12_800, 0), 100);
        assert_eq!((spins(12_800, 1), spins(1, 1)), (12_800, 1));
        assert!((1..=4).all(|nth| spins(12_800, nth) > 12_000));
        assert!(spins(12_800, 20) < 2_000);
    }

    #[test]
    fn a_gate_counts_and_its_mark_says_no_more() {
        let gate = Gate::new(u32::MAX).awake();
        assert!(!gate.has_halted() && gate.halted().has_halted());
        assert_eq!((gate.halted().awake(), gate.turned()), (gate, Gate::new(0)));
        assert_eq!(gate.halted().turned(), Gate::new(0).halted());
    }
}
