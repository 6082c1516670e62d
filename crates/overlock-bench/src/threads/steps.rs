//! The lengths of critical sections and pauses, drawn before a run begins.
//!
//! The critical sections of real programs vary. With fixed lengths threads fall into step with one
//! another, and a lock that has adapted to the one length looks better than it is. So each thread
//! has a table of steps from which it reads one for each operation: that costs a load, where
//! drawing costs a logarithm.
//!
//! A table is drawn by strata: one length from each of [`STEPS`] equally likely slices of the
//! distribution, in random order. All tables then have the same mean to the last link, so no
//! thread, lock or round has more work than another.

use overlock_results::{Lengths, Rng};
use serde::{Deserialize, Serialize};

/// Operations before a thread's lengths repeat. At 16 bytes each they stay in the first cache.
pub(crate) const STEPS: usize = 512;

/// Returns the length, in means, below which a share `p` of all lengths lies.
fn quantile(lengths: Lengths, p: f64) -> f64 {
    match lengths {
        Lengths::Exp => -(1.0 - p).ln(),
        Lengths::Uniform => 2.0 * p,
        Lengths::Fixed => 1.0,
        // The mean of nine lengths of s and one of 20 s is 2.9 s.
        Lengths::Bimodal => (if p < 0.9 { 1.0 } else { 20.0 }) / 2.9,
    }
}

/// Draws `STEPS` lengths, in links of work, whose mean is `mean`.
fn draw(lengths: Lengths, mean: f64, rng: &mut Rng) -> Vec<u32> {
    let strata = (0..STEPS).map(|index| {
        let p = (index as f64 + rng.fraction()) / STEPS as f64;
        quantile(lengths, p)
    });
    let mut drawn: Vec<f64> = strata.collect();
    let scale = mean * STEPS as f64 / drawn.iter().sum::<f64>();
    rng.shuffle(&mut drawn);
    // The next length gets what rounding takes from one, so that short means come out right
    // too.
    let mut sum = 0.0_f64;
    let whole = |length: f64| {
        let before = sum.round();
        sum += length * scale;
        // A critical section that is too long is cut at some seconds of work.
        (sum.round() - before) as u32
    };
    drawn.into_iter().map(whole).collect()
}

/// The work of one operation, in links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) cs: u32,
    pub(crate) ncs: u32,
    pub(crate) cell: u32,
    /// Whether it only reads; where threads wait for conditions, whether it notifies with the lock
    /// held.
    pub(crate) reads: bool,
}

/// The mix of a thread's operations for some time: mean lengths in links of work.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Mix {
    /// The mean of the critical sections.
    pub cs_links: f64,
    /// The mean of the pauses after them.
    pub ncs_links: f64,
    pub lengths: Lengths,
    pub cells: u32,
    /// The percentage of operations that only read.
    pub read_percent: u8,
}

impl Mix {
    /// Returns the same mix with critical sections `factor` times as long.
    pub(crate) fn holding(self, factor: u32) -> Self {
        Mix { cs_links: self.cs_links * f64::from(factor), ..self }
    }

    pub(crate) fn draw(self, rng: &mut Rng) -> Box<[Step; STEPS]> {
        let cs = draw(self.lengths, self.cs_links, rng);
        let ncs = draw(self.lengths, self.ncs_links, rng);
        let cells = cells(self.cells, rng);
        let mut reads = [false; STEPS];
        reads[..STEPS * usize::from(self.read_percent) / 100].fill(true);
        rng.shuffle(&mut reads);
        let mut steps = Box::new([Step { cs: 0, ncs: 0, cell: 0, reads: false }; STEPS]);
        for (index, step) in steps.iter_mut().enumerate() {
            *step =
                Step { cs: cs[index], ncs: ncs[index], cell: cells[index], reads: reads[index] };
        }
        steps
    }
}

/// Draws the lock that each step takes by Zipf's law: the k-th of them 1/k times as often as the
/// first, as objects of real programs are accessed.
///
/// Source: L. Breslau and others, "Web Caching and Zipf-like Distributions", INFOCOM 1999.
fn cells(count: u32, rng: &mut Rng) -> Vec<u32> {
    let total: f64 = (1..=count).map(|k| 1.0 / f64::from(k)).sum();
    let (mut cell, mut below) = (0, 1.0 / total);
    let strata = (0..STEPS).map(|index| {
        let p = (index as f64 + rng.fraction()) / STEPS as f64;
        while p > below && cell + 1 < count {
            cell += 1;
            below += 1.0 / (f64::from(cell + 1) * total);
        }
        cell
    });
    let mut drawn: Vec<u32> = strata.collect();
    rng.shuffle(&mut drawn);
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spread_has_the_mean_that_was_asked_for() {
        for lengths in Lengths::ALL {
            for mean in [0.0, 1.3, 25.0, 5_000.0] {
                let drawn = draw(lengths, mean, &mut Rng::new(3));
                let sum: f64 = drawn.iter().copied().map(f64::from).sum();
                assert!((sum - mean * STEPS as f64).abs() < 1.0, "{lengths} {mean}: {sum}");
            }
        }
    }

    #[test]
    fn spreads_have_their_shapes() {
        let share = |lengths: Lengths, low: u32, high: u32| {
            let drawn = draw(lengths, 1_000.0, &mut Rng::new(5));
            drawn.iter().filter(|length| (low..high).contains(length)).count() * 100 / STEPS
        };
        assert_eq!(share(Lengths::Fixed, 1_000, 1_001), 100);
        assert!((62..=64).contains(&share(Lengths::Exp, 0, 1_000)));
        assert!((4..=5).contains(&share(Lengths::Exp, 3_000, 20_000)));
        assert!((49..=51).contains(&share(Lengths::Uniform, 0, 1_000)));
        assert_eq!(share(Lengths::Uniform, 2_020, 100_000), 0);
        assert!((89..=91).contains(&share(Lengths::Bimodal, 340, 350)));
        assert!((9..=11).contains(&share(Lengths::Bimodal, 6_800, 7_000)));
    }

    #[test]
    fn locks_are_chosen_by_zipfs_law() {
        let drawn = cells(3, &mut Rng::new(6));
        let share = |cell| drawn.iter().filter(|other| **other == cell).count() as f64;
        assert!((share(0) / share(1) - 2.0).abs() < 0.1 && (share(0) / share(2) - 3.0).abs() < 0.1);
        assert!(cells(1, &mut Rng::new(6)).iter().all(|cell| *cell == 0));
        assert!(cells(1_000, &mut Rng::new(6)).iter().all(|cell| *cell < 1_000));
    }

    #[test]
    fn as_many_read_as_were_asked_for() {
        for (percent, readers) in [(0, 0), (50, 256), (99, 506), (100, 512)] {
            let read_percent = percent;
            let (cs_links, ncs_links, lengths) = (1.0, 1.0, Lengths::Fixed);
            let mix = Mix { cs_links, ncs_links, lengths, cells: 1, read_percent };
            let steps = mix.draw(&mut Rng::new(2));
            assert_eq!(steps.iter().filter(|step| step.reads).count(), readers);
        }
    }

    #[test]
    fn the_seed_determines_the_steps() {
        let mix = Mix {
            cs_links: 50.0,
            ncs_links: 500.0,
            lengths: Lengths::Exp,
            cells: 9,
            read_percent: 9,
        };
        let drawn = |seed| mix.draw(&mut Rng::new(seed));
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
