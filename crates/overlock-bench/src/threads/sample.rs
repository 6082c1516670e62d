//! The choice of the operations that are stamped.
//!
//! A stamped operation reads the clock twice, once inside the lock. To stamp every operation would
//! cost more than an empty critical section, so only one of many is stamped: at random, so that no
//! lock's rhythm coincides with it.

use overlock_results::Rng;

/// The mean spacing between samples where operations are shortest.
pub(crate) const MOST: u32 = 64;

/// The approximate cost of two stamps.
const STAMPS_NS: f64 = 25.0;

/// The share of an operation that stamps can cost on average, if that leaves a spacing below
/// [`MOST`].
const SHARE: f64 = 0.01;

/// Returns the mean spacing for operations that take a thread at least `nanos` ns: the longer they
/// are, the fewer there are, and the less it matters to stamp them all.
pub fn spacing(nanos: u64) -> u32 {
    let spacing = STAMPS_NS / (SHARE * nanos.max(1) as f64);
    (spacing.ceil() as u32).clamp(1, MOST)
}

#[derive(Debug)]
pub(crate) struct Sampling {
    mean: u32,
    left: u32,
    rng: Rng,
}

impl Sampling {
    pub(crate) fn new(mean: u32, rng: &mut Rng) -> Self {
        let mut sampling = Sampling { mean, left: 1, rng: Rng::new(rng.bits()) };
        sampling.left = sampling.draw();
        sampling
    }

    /// Returns whether to stamp the next operation.
    #[inline(always)]
    pub(crate) fn is_due(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.left = self.draw();
        true
    }

    /// Draws a spacing from 1 to one less than twice the mean, each equally likely.
    fn draw(&mut self) -> u32 {
        1 + self.rng.below(u64::from(2 * self.mean - 1)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlock_results::stats::Histogram;

    #[test]
    fn one_in_mean_operations_is_sampled() {
        for mean in [1, 2, 64] {
            let mut sampling = Sampling::new(mean, &mut Rng::new(9));
            let sampled = (0..640_000).filter(|_| sampling.is_due()).count() as f64;
            let expected = 640_000.0 / f64::from(mean);
            assert!((sampled / expected - 1.0).abs() < 0.03, "{mean}: {sampled}");
        }
    }

    /// Waits like those of a real lock, most of them short and a few very long: all of them,
    /// sorted, are compared with the few that are stamped.
    #[test]
    fn sampled_percentiles_are_those_of_all_waits() {
        let mut rng = Rng::new(4);
        let mut sampling = Sampling::new(MOST, &mut rng);
        let sampled = Histogram::default();
        let mut all: Vec<u64> = (0..4_000_000).map(|_| 20 << rng.bits().leading_zeros()).collect();
        for wait in &mut all {
            *wait += rng.below(*wait);
            if sampling.is_due() {
                sampled.record(*wait);
            }
        }
        all.sort_unstable();
        let sum = Histogram::sum([&sampled].into_iter());
        for (quantile, error) in [(0.5, 0.05), (0.99, 0.1), (0.999, 0.25)] {
            let truth = all[(all.len() as f64 * quantile) as usize] as f64;
            let found = sum.quantile(quantile) as f64;
            assert!((found / truth - 1.0).abs() < error, "{quantile}: {found} for {truth}");
        }
    }

    #[test]
    fn long_operations_are_all_stamped_and_short_ones_rarely() {
        assert_eq!([0, 30, 100, 1_000, 2_500, 50_000].map(spacing), [64, 64, 25, 3, 1, 1]);
    }
}
