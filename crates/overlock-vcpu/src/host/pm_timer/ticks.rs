//! Exact conversion between nanoseconds and ticks of 3.579545 MHz.
//!
//! The count at n nanoseconds is ⌊n · F / 10⁹⌋ with F = 3 579 545. The product would overflow 64
//! bits after 86 minutes. But n = 10⁹ · s + r gives ⌊n · F / 10⁹⌋ = s · F + ⌊r · F / 10⁹⌋ exactly,
//! with s < 2³⁵ and r < 10⁹ for every n < 2⁶⁴, so that s · F < 2⁵⁷ and r · F < 2⁵²: no step can
//! overflow, and both divisions are by constants. The same split inverts the conversion. Since the
//! pattern repeats every second, testing one second tests them all.

use crate::host::Nanos;

/// The timer's frequency in hertz: a quarter of 14.31818 MHz, fixed by ACPI.
pub const FREQUENCY_HZ: u64 = 3_579_545;

const SECOND: u64 = 1_000_000_000;

/// How many bits of the count the guest sees, as the FADT announces it (flag `TMR_VAL_EXT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Wraps every 4.69 s. Every guest can cope with it.
    Bits24,
    /// Wraps every 20 min.
    Bits32,
}

impl Width {
    /// The bits of the count that the guest sees.
    pub const fn mask(self) -> u32 {
        match self {
            Self::Bits24 => 0x00ff_ffff,
            Self::Bits32 => 0xffff_ffff,
        }
    }

    /// The position of the count's highest visible bit, each change of which is an event.
    pub(super) const fn msb(self) -> u32 {
        match self {
            Self::Bits24 => 23,
            Self::Bits32 => 31,
        }
    }
}

/// The full count `elapsed` after it was zero, before truncation to the timer's width.
pub const fn ticks(elapsed: Nanos) -> u64 {
    let (seconds, rest) = (elapsed.0 / SECOND, elapsed.0 % SECOND);
    seconds * FREQUENCY_HZ + rest * FREQUENCY_HZ / SECOND
}

/// The first nanosecond at which the full count is `ticks`, or `None` if that is after the end of
/// time.
pub const fn start_of(ticks: u64) -> Option<Nanos> {
    let (seconds, rest) = (ticks / FREQUENCY_HZ, ticks % FREQUENCY_HZ);
    let Some(whole) = seconds.checked_mul(SECOND) else { return None };
    match whole.checked_add((rest * SECOND).div_ceil(FREQUENCY_HZ)) {
        Some(nanos) => Some(Nanos(nanos)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, in numbers that are wide enough.
    fn reference(elapsed: Nanos) -> u64 {
        let ticks = u128::from(elapsed.0) * u128::from(FREQUENCY_HZ) / u128::from(SECOND);
        u64::try_from(ticks).unwrap()
    }

    #[test]
    fn every_tick_of_a_second_starts_where_it_should() {
        for tick in 1..=FREQUENCY_HZ {
            let start = start_of(tick).unwrap();
            assert_eq!((ticks(start), ticks(start - Nanos(1))), (tick, tick - 1));
            assert_eq!(ticks(start), reference(start));
        }
    }

    #[test]
    fn every_second_is_like_the_first() {
        for second in (0..64).flat_map(|bit| [(1u64 << bit) / SECOND, u64::MAX / SECOND - bit]) {
            for rest in [0, 1, 279, 280, 500_000_000, 709_551_615] {
                let at = Nanos(second * SECOND + rest);
                assert_eq!(ticks(at), reference(at), "{at}");
            }
        }
    }

    #[test]
    fn every_nanosecond_around_a_wrap_is_exact() {
        for bits in [23, 24, 31, 32, 40, 55] {
            let flip = 1u64 << bits;
            let wrap = start_of(flip).unwrap();
            for nanos in wrap.0 - 3_000..wrap.0 + 3_000 {
                assert_eq!(ticks(Nanos(nanos)), reference(Nanos(nanos)));
                assert_eq!(ticks(Nanos(nanos)) >= flip, nanos >= wrap.0);
            }
        }
    }

    #[test]
    fn time_ends_without_overflow() {
        let last = ticks(Nanos::MAX);
        assert_eq!(last, reference(Nanos::MAX));
        assert!(start_of(last).is_some());
        assert_eq!(start_of(last + 1), None);
        assert_eq!(start_of(u64::MAX), None);
    }
}
