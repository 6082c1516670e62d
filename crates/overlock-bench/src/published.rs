//! Published figures beside ours: whether direction and rough size agree.
//!
//! A ratio is formed round by round between two of our points.

use crate::World;
use crate::experiment::Experiment;
use overlock_results::row::{Agreement, Beside, Point};
use overlock_results::stats::{Interval, median};
use overlock_results::{Over, PublishedFigure};
use overlock_results::{PmTimerRule, Run};

/// Differences below this count as none, unless the published figure varied by more.
const NOISE: f64 = 0.02;
/// Effects that differ by a factor below this agree roughly.
const ROUGH: f64 = 1.25;
/// Rounds without which a measurement is not judged: of fewer, no interval covers 95 %.
pub const ROUNDS: usize = 7;

/// The known figures, by name. `timer_wait_share` is the share of CPU time for which readers of the
/// PM timer wait for each other: what S5 counts in the lock and the barrier; of real vCPUs, which
/// can't tell, what a read takes beyond one under the lock-free rule.
/// `unfair_share` is S4's: acquisitions in unfair mode over those in either mode, which leaves out
/// what the fast path takes.
pub const FIGURES: [&str; 6] =
    ["ops_per_s", "jain", "least_served", "most_served", "unfair_share", WAIT_SHARE];
const WAIT_SHARE: &str = "timer_wait_share";

fn figure(name: &str, point: &Point) -> Vec<f64> {
    point.each(|run: &Run| match name {
        "jain" => run.jain,
        "least_served" => run.least_served(),
        "most_served" => run.ops_per_cpu.max as f64 / run.ops_per_cpu.avg.max(1.0),
        "unfair_share" => {
            let [unfair, queued] = ["pv_lock_stealing", "lock_queued"].map(|of| run.counted(of));
            unfair as f64 / ((unfair + queued) as f64).max(1.0)
        }
        WAIT_SHARE => run.timer_wait_share(),
        _ => run.ops_per_s,
    })
}

fn find<'a>(
    one: &PublishedFigure,
    over: &Over,
    experiment: &Experiment,
    points: &'a [Point],
) -> Option<&'a Point> {
    let lock = over.lock.as_ref().unwrap_or(&one.lock);
    let policy = over.policy.as_ref().unwrap_or(&one.policy);
    let cpus = over.cpus.unwrap_or(one.cpus);
    let think_ns = one.think_ns.or_else(|| experiment.factors.think_ns.first().copied());
    let section_ns = experiment.factors.section_ns.first().copied();
    let timer = over.timer.or(one.timer).or_else(|| experiment.factors.timers.first().copied());
    points.iter().find(|point| {
        let is_lock = point.lock == *lock || point.lock == "none";
        let is_timer = |name: &String| timer.is_none_or(|timer| timer.name() == name);
        is_lock
            && (point.policy == *policy || point.lock == "none")
            && point.cpus == Some(cpus)
            && think_ns.is_none_or(|ns| point.ncs_ns == Some(ns))
            && section_ns.is_none_or(|ns| point.cs_ns == Some(ns))
            && point.timer.as_ref().is_none_or(is_timer)
    })
}

/// Our figure of each round, in the form of the published one: over its base, if it has one.
struct Found<'a> {
    own: &'a Point,
    rounds: Vec<f64>,
    /// The median before the division.
    absolute: f64,
}

/// Finds our figure, with `lock` in the place of the published one if it is given. There is none if
/// its points were not measured, or if the base was zero in every round.
fn found<'a>(
    one: &PublishedFigure,
    lock: Option<&String>,
    (experiment, world, points): (&Experiment, &dyn World, &'a [Point]),
) -> Option<Found<'a>> {
    let place = Over { lock: lock.cloned(), ..Over::default() };
    let own = find(one, &place, experiment, points)?;
    let mut rounds = figure(&one.figure, own);
    if one.figure == WAIT_SHARE && world.is_real() {
        rounds = own.each(Run::timer_share);
        let alone = Over { timer: Some(PmTimerRule::LockFree), ..Over::default() };
        let alone = find(one, &alone, experiment, points)?.each(|run| run.timer_read_ns);
        let reads = own.each(|run| run.timer_read_ns);
        let waits = reads.iter().zip(&alone).map(|(read, alone)| 1.0 - alone / read.max(1.0));
        rounds = rounds.iter().zip(waits).map(|(share, waits)| share * waits.max(0.0)).collect();
    }
    let absolute = median(&rounds)?;
    if let Some(over) = &one.over {
        let base = figure(&one.figure, find(one, over, experiment, points)?);
        let pairs = rounds.iter().zip(&base).filter(|(_, base)| **base > 0.0);
        rounds = pairs.map(|(own, base)| own / base).collect();
    }
    Some(Found { own, rounds, absolute })
}

/// Puts ours beside each published figure that it can stand beside.
pub fn beside(experiment: &Experiment, world: &dyn World, points: &[Point]) -> Vec<Beside> {
    let place = (experiment, world, points);
    let judged = experiment.published.iter().filter_map(|one| {
        let theirs = found(one, None, place)?;
        let mut judged = judged(experiment, world.name(), one, &theirs)?;
        let rounds = theirs.rounds.len();
        // A simulation of a few rounds is judged by its median: its noise is that of its seeds.
        let is_doubted = world.is_real() || rounds >= ROUNDS;
        if is_doubted {
            doubt(&mut judged, rounds);
        }
        let Some(ours) = one.our_lock.as_ref().and_then(|lock| found(one, Some(lock), place))
        else {
            return Some(judged);
        };
        judged.beside = Interval::of(&ours.rounds);
        let scales = one.over.as_ref().is_some_and(|over| over.cpus.is_some());
        if one.figure == "ops_per_s" && !scales {
            let both = ours.rounds.iter().zip(&theirs.rounds);
            let ratio = Interval::of(&both.map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>());
            judged.our_ratio = ratio;
            judged.ours_holds = ratio.map(|ratio| holds(ratio, is_doubted, rounds));
        }
        Some(judged)
    });
    judged.collect()
}

/// Whether our lock is at least as good as the published one, but for the noise.
fn holds(ratio: Interval, is_doubted: bool, rounds: usize) -> Agreement {
    let ends = if is_doubted { [ratio.low, ratio.high] } else { [ratio.median; 2] };
    match ends.map(|end| end >= 1.0 - NOISE) {
        _ if is_doubted && rounds < ROUNDS => Agreement::Unclear,
        [true, true] => Agreement::Yes,
        [false, false] => Agreement::No,
        _ => Agreement::Unclear,
    }
}

/// Leaves open what the rounds can't tell: it needs enough of them for an interval, and both ends
/// of the interval say the same.
fn doubt(judged: &mut Beside, rounds: usize) {
    let at = |value: f64| verdict(&judged.published, value);
    let ends = [at(judged.ours.low), at(judged.ours.high)];
    let [direction, size] = [ends.map(|end| end[0]), ends.map(|end| end[1])];
    let agreed = |ends: [Agreement; 2], told: Agreement| match told {
        Agreement::Open => Agreement::Open,
        told if rounds >= ROUNDS && ends == [told, told] => told,
        _ => Agreement::Unclear,
    };
    (judged.direction, judged.size) =
        (agreed(direction, judged.direction), agreed(size, judged.size));
}

fn judged(
    experiment: &Experiment,
    world: &str,
    published: &PublishedFigure,
    Found { own, rounds, absolute }: &Found<'_>,
) -> Option<Beside> {
    let ours = Interval::of(rounds)?;
    let theirs = published.ratio();
    let ours_effect = effect(published, ours.median);
    let published_effect = theirs.map(|theirs| effect(published, theirs));
    let [direction, size] = verdict(published, ours.median);
    let lowest = rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(Beside {
        experiment: experiment.name.clone(),
        world: world.to_owned(),
        ours_cpus: own.cpus.unwrap_or(published.cpus),
        ours_pcpus: own.pcpus.unwrap_or(0),
        published: published.clone(),
        published_ratio: theirs,
        published_effect,
        ours,
        ours_effect,
        ours_ends: [lowest, highest],
        rounds: rounds.len(),
        ours_absolute: *absolute,
        beside: None,
        our_ratio: None,
        ours_holds: None,
        direction,
        size,
    })
}

/// Whether a figure of ours has the direction and the size of the published one.
fn verdict(published: &PublishedFigure, ours: f64) -> [Agreement; 2] {
    let Some(theirs) = published.ratio().map(|theirs| effect(published, theirs)) else {
        return [Agreement::Open; 2];
    };
    let ours = effect(published, ours);
    let agreement = |agrees: bool| if agrees { Agreement::Yes } else { Agreement::No };
    let noise = NOISE.max(published.noise_percent / 100.0);
    let direction = match published.over {
        Some(_) => agreement(side(theirs, noise) == side(ours, noise)),
        // A share or a spread without a base has no direction.
        None => Agreement::Open,
    };
    [direction, agreement(as_large(theirs, ours, noise))]
}

/// Returns the effect that a figure shows: its distance from the value without any effect, which is
/// 1 for ratios and spreads, and 0 for shares. For ratios, that is a gain or a loss.
fn effect(published: &PublishedFigure, value: f64) -> f64 {
    let is_spread = ["jain", "least_served", "most_served"].contains(&&*published.figure);
    value - if published.over.is_some() || is_spread { 1.0 } else { 0.0 }
}

/// Returns whether two effects are equally large: both within the noise, or roughly.
fn as_large(theirs: f64, ours: f64, noise: f64) -> bool {
    let ratio = ours / theirs;
    theirs.abs().max(ours.abs()) <= noise || ratio > 1.0 / ROUGH && ratio < ROUGH
}

/// Returns whether an effect is a gain, a loss, or neither.
fn side(effect: f64, noise: f64) -> i8 {
    i8::from(effect > noise) - i8::from(effect < -noise)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mine() -> Experiment {
        let text = "about = ''\nsource = ''\nworkload = 'micro'\n[factors]\nlocks = ['ticket']\n\
                    cpus = [1]";
        Experiment::parse("mine", text).unwrap()
    }

    fn of(published: &PublishedFigure, ours: f64) -> Beside {
        let found = Found { own: &Point::default(), rounds: vec![ours], absolute: ours };
        judged(&mine(), "sim", published, &found).unwrap()
    }

    fn published(value: f64, base: f64, less: bool) -> PublishedFigure {
        let less = if less { "true" } else { "false" };
        let text = format!(
            "about = ''\nsource = ''\nworkload = 'micro'\n[factors]\nlocks = ['ticket', 'queued']\n\
             cpus = [1]\n[[published]]\nlock = 'ticket'\ncpus = 1\nfigure = 'ops_per_s'\n\
             value = {value}\nless_is_better = {less}\nsource = ''\n\
             over = {{ lock = 'queued', value = {base} }}"
        );
        Experiment::parse("mine", &text).unwrap().published.remove(0)
    }

    #[test]
    fn direction_and_size_are_judged_apart() {
        use Agreement::{No, Yes};
        for (value, base, less, ours, direction, size) in [
            (120.0, 100.0, false, 1.22, Yes, Yes),
            (120.0, 100.0, false, 1.3, Yes, No),
            (120.0, 100.0, false, 0.99, No, No),
            (100.0, 120.0, true, 1.18, Yes, Yes),
            (120.0, 100.0, true, 0.84, Yes, Yes),
            (120.0, 100.0, true, 0.95, Yes, No),
            (120.0, 100.0, true, 1.2, No, No),
            (100.1, 100.0, false, 1.01, Yes, Yes),
            (100.1, 100.0, false, 1.05, No, No),
            // Two points apart, but beyond the noise, and not equally large.
            (105.0, 100.0, false, 1.07, Yes, No),
            (103.0, 100.0, false, 1.015, No, No),
            // Ratios within a quarter of each other, and yet 4 % is not 16 %.
            (104.0, 100.0, false, 1.16, Yes, No),
            // Nor is three times as good the same as twice as good.
            (300.0, 100.0, false, 2.0, Yes, No),
            (300.0, 100.0, false, 2.8, Yes, Yes),
            (50.0, 100.0, false, 0.48, Yes, Yes),
            (50.0, 100.0, false, 0.30, Yes, No),
            (50.0, 100.0, false, 2.0, No, No),
        ] {
            let published = published(value, base, less);
            let judged = of(&published, ours);
            assert_eq!((judged.direction, judged.size), (direction, size), "{judged:?}");
        }
    }

    #[test]
    fn spreads_are_judged_by_their_distance_from_one_and_shares_from_zero() {
        use Agreement::{No, Open, Yes};
        for (figure, value, ours, size) in [
            ("least_served", 0.93, 0.92, Yes),
            ("least_served", 0.93, 0.80, No),
            ("most_served", 1.20, 1.23, Yes),
            ("most_served", 1.20, 1.38, No),
            ("unfair_share", 0.58, 0.51, Yes),
            ("unfair_share", 0.03, 0.35, No),
        ] {
            let figure = figure.to_owned();
            let alone = PublishedFigure {
                figure,
                over: None,
                value: Some(value),
                ..published(1.0, 1.0, false)
            };
            let judged = of(&alone, ours);
            assert_eq!((judged.direction, judged.size), (Open, size), "{judged:?}");
        }
    }

    /// The ends of the interval of ten seeds decide, not the median.
    #[test]
    fn rounds_that_disagree_leave_a_verdict_open() {
        use Agreement::{No, Unclear, Yes};
        let published = published(120.0, 100.0, false);
        let judged = |rounds: &[f64]| {
            let found = Found { own: &Point::default(), rounds: rounds.to_vec(), absolute: 1.0 };
            let mut judged = judged(&mine(), "sim", &published, &found).unwrap();
            doubt(&mut judged, rounds.len());
            (judged.direction, judged.size)
        };
        assert_eq!(judged(&[1.2; 10]), (Yes, Yes));
        assert_eq!(judged(&[0.9; 10]), (No, No));
        assert_eq!(judged(&[1.2; 6]), (Unclear, Unclear), "too few");
        let apart = [0.9, 0.9, 0.9, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2];
        assert_eq!(judged(&apart), (Unclear, Unclear));
        let ratio = |low, high| Interval { low, median: 1.0, high };
        assert_eq!(holds(ratio(0.99, 1.1), true, 10), Yes);
        assert_eq!(holds(ratio(0.8, 0.9), true, 10), No);
        assert_eq!(holds(ratio(0.9, 1.1), true, 10), Unclear);
        assert_eq!(holds(ratio(0.9, 1.1), false, 3), Yes, "by the median");
    }

    #[test]
    fn unpublished_figures_are_open_and_unknown_ones_are_none() {
        let open = PublishedFigure { value: None, ..published(1.0, 1.0, false) };
        let judged = of(&open, 2.0);
        assert_eq!((judged.direction, judged.size), (Agreement::Open, Agreement::Open));
    }
}
