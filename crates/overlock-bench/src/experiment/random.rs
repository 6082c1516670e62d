//! Points drawn at random from the whole space, to which no lock can be tuned.
//!
//! Numbers of threads, critical sections and pauses are drawn so that every order of magnitude is
//! equally likely; sometimes a critical section or a pause is empty. Point `i` of a seed is the
//! same however many are drawn.

use crate::Shape;
use overlock_results::Lengths;
use overlock_results::{Rng, seed_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) cpus: u32,
    pub(super) section_ns: u64,
    pub(super) think_ns: u64,
    pub(super) locks: u32,
    pub(super) shape: Shape,
}

const MOST_THREADS: f64 = 64.0;

/// The shortest and the longest mean, in ns.
const SHORTEST: f64 = 50.0;
const LONGEST: f64 = 50_000.0;

/// How often a critical section is empty, and how often there is no pause.
const EMPTY: f64 = 0.125;
const BACK_TO_BACK: f64 = 0.2;

/// How often a point of the wide space has several locks, changing lengths, or a thread that holds
/// longer: each independently.
const ODD: f64 = 0.3;

/// Draws `count` points: plain ones, or with `wide` the same points with these variations.
pub(super) fn points(count: u16, seed: u64, lengths: &[Lengths], wide: bool) -> Vec<Point> {
    let seeds = (0..u64::from(count)).map(|index| seed_of(seed, index));
    seeds.map(|seed| point(&mut Rng::new(seed), lengths, wide)).collect()
}

fn point(rng: &mut Rng, lengths: &[Lengths], wide: bool) -> Point {
    // The range is cut so that 1 and 64 are as likely as their neighbours.
    let cpus = magnitude(rng, 1.0, MOST_THREADS + 1.0) as u32;
    let section_ns = duration(rng, EMPTY);
    let think_ns = duration(rng, BACK_TO_BACK);
    let shape = Shape { lengths: rng.pick(lengths), ..Shape::default() };
    let plain = Point { cpus, section_ns, think_ns, locks: 1, shape };
    if !wide {
        return plain;
    }
    let mut odd = || rng.fraction() < ODD;
    let (has_locks, changes, is_uneven) = (odd(), odd(), odd());
    let then = [duration(rng, EMPTY), duration(rng, BACK_TO_BACK)];
    let locks = if has_locks { magnitude(rng, 2.0, 129.0) as u32 } else { 1 };
    let uneven = if is_uneven { rng.pick(&[4, 16, 64]) } else { 1 };
    Point { locks, shape: Shape { then_ns: changes.then_some(then), uneven, ..shape }, ..plain }
}

fn duration(rng: &mut Rng, zero: f64) -> u64 {
    let (is_zero, nanos) = (rng.fraction() < zero, magnitude(rng, SHORTEST, LONGEST));
    if is_zero { 0 } else { two_figures(nanos) }
}

/// Draws a number from `low` to `high` whose logarithm is uniform.
fn magnitude(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(rng.fraction())
}

/// Rounds to two figures, which is all that a reader needs.
fn two_figures(nanos: f64) -> u64 {
    let unit = 10_f64.powf(nanos.log10().floor() - 1.0);
    ((nanos / unit).round() * unit).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_an_index_determine_a_point() {
        for wide in [false, true] {
            let twelve = points(12, 7, &Lengths::ALL, wide);
            assert_eq!(twelve, points(40, 7, &Lengths::ALL, wide)[..12]);
            assert_ne!(twelve, points(12, 8, &Lengths::ALL, wide));
        }
    }

    #[test]
    fn wide_points_are_the_same_with_oddities() {
        let drawn = |wide| points(1_000, 3, &Lengths::ALL, wide);
        let share = |test: &dyn Fn(&Point) -> bool| {
            drawn(true).iter().filter(|point| test(point)).count() as f64 / 1_000.0
        };
        for odd in [
            share(&|point| point.locks > 1),
            share(&|point| point.shape.then_ns.is_some()),
            share(&|point| point.shape.uneven > 1),
        ] {
            assert!((odd - ODD).abs() < 0.05, "{odd}");
        }
        for (wide, plain) in drawn(true).iter().zip(drawn(false)) {
            let shape = Shape { then_ns: None, uneven: 1, ..wide.shape };
            assert_eq!(Point { locks: 1, shape, ..*wide }, plain);
        }
    }

    #[test]
    fn points_cover_the_whole_space() {
        let points = points(2_000, 1, &[Lengths::Exp, Lengths::Uniform], false);
        let share = |test: &dyn Fn(&Point) -> bool| {
            points.iter().filter(|point| test(point)).count() as f64 / points.len() as f64
        };
        let near = |share: f64, expected: f64| (share - expected).abs() < 0.04;
        assert!(points.iter().all(|point| (1..=64).contains(&point.cpus)));
        assert!(near(share(&|point| point.cpus == 1), 0.166));
        assert!(near(share(&|point| point.cpus > 16), 0.32));
        assert!(near(share(&|point| point.section_ns == 0), EMPTY));
        assert!(near(share(&|point| point.think_ns == 0), BACK_TO_BACK));
        for (low, high) in [(50, 500), (500, 5_000), (5_000, 50_001)] {
            let is_in = |nanos: u64| (low..high).contains(&nanos);
            assert!(near(share(&|point| is_in(point.section_ns)), (1.0 - EMPTY) / 3.0), "{low}");
            assert!(near(share(&|point| is_in(point.think_ns)), (1.0 - BACK_TO_BACK) / 3.0));
        }
        assert!(near(share(&|point| point.shape.lengths == Lengths::Exp), 0.5));
    }

    #[test]
    fn two_figures_are_kept() {
        assert_eq!([50.4, 99.7, 1_234.0, 48_765.0].map(two_figures), [50, 100, 1_200, 49_000]);
    }
}
