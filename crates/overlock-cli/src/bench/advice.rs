// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lock to use on this machine: the rule of [`recommend`], and a verdict only if the rounds
//! support it.
//!
//! A lock is out before scores are compared if it let a thread wait for more than 50 ms where up to
//! 16 compete, or gave half of them nothing (Jain's index below 0.5), and another lock didn't. The
//! score of a round is the geometric mean over the points. With fewer than 6 rounds no interval
//! covers the median with 95 %: then there is no verdict, only the lock that looks best.

use super::results::{LockRuns, PointRuns, Results, jain};
use super::summary::LockSummary;
use crate::recommend::{self, Candidate};
use crate::stats::{self, CONFIDENCE};
use crate::units::{three, time};
use overlock_bench::{RunSample, STALL_NS};
use serde::Serialize;

/// Below this index half of the threads get nothing.
const FAIR: f64 = 0.5;

/// What to use on this machine, and why.
#[derive(Debug, Serialize)]
pub(crate) struct Advice {
    kind: &'static str,
    /// The lock that the rule chooses.
    pub(crate) lock: &'static str,
    /// Whether the rounds support that choice.
    verdict: bool,
    /// Locks that tie with it.
    ties: Vec<&'static str>,
    pub(crate) sentence: String,
}

/// Applies the rule to all locks that were measured at every point, if there are at least two.
pub(crate) fn advice(results: &Results, lines: &[LockSummary]) -> Option<Advice> {
    if lines.len() < 2 {
        return None;
    }
    let is_calm = |line: &LockSummary| line.calm_stall_ns <= STALL_NS && line.calm_jain >= FAIR;
    let some_are_calm = lines.iter().any(is_calm);
    let left = lines.iter().filter(|line| !some_are_calm || is_calm(line));
    let candidates: Vec<Candidate<'static>> =
        left.filter_map(|line| candidate(line, &results.points)).collect();
    let ties = recommend::choose(&candidates);
    let (chosen, ties) = ties.split_first()?;
    let line = lines.iter().find(|line| line.lock == chosen.lock)?;
    let rounds = chosen.scores.len();
    let verdict = stats::coverage(rounds) >= CONFIDENCE;
    let can_starve = ties.iter().filter(|of| !of.cannot_starve).map(|of| of.lock);
    let can_starve: Vec<&'static str> = can_starve.collect();
    let ties: Vec<&'static str> = ties.iter().map(|of| of.lock).collect();
    let mut sentence = if verdict {
        format!("Recommendation: use {} on this machine: {}", line.lock, figures(line))
    } else {
        format!(
            "No verdict ({rounds} round{}; 6 or more can tell): {} looks best: {}",
            if rounds == 1 { "" } else { "s" },
            line.lock,
            figures(line)
        )
    };
    if !ties.is_empty() {
        sentence += &format!(" It ties with {}", ties.join(", "));
        sentence += &match can_starve.len() {
            count if !chosen.cannot_starve || count == 0 => ".".into(),
            count if count == ties.len() => ", but can't starve a thread.".into(),
            _ => format!("; of these {} can starve a thread.", can_starve.join(" and ")),
        };
    }
    sentence += &passed_over(line, lines, some_are_calm, is_calm);
    Some(Advice { kind: "advice", lock: line.lock, verdict, ties, sentence })
}

/// Explains why the fastest lock is not the one to use, if it isn't.
fn passed_over(
    chosen: &LockSummary,
    lines: &[LockSummary],
    some_are_calm: bool,
    is_calm: impl Fn(&LockSummary) -> bool,
) -> String {
    if !some_are_calm {
        return " No lock kept every thread going.".into();
    }
    let share = |line: &LockSummary| line.of_best_peer.map_or(0.0, |ratio| ratio.median);
    match lines.first() {
        Some(fastest) if fastest.lock != chosen.lock && share(fastest) > share(chosen) => {
            let how = if is_calm(fastest) { "" } else { "starves threads: " };
            let (stall_ns, jain, with) = if fastest.calm_stall_ns > 0.0 {
                (fastest.calm_stall_ns, fastest.calm_jain, " with up to 16 threads")
            } else {
                (fastest.longest_stall_ns, fastest.worst_jain, "")
            };
            format!(
                " {} is faster on average ({}x), but {how}its longest stall is {} and its worst \
                 Jain index {jain:.2}{with}.",
                fastest.lock,
                three(share(fastest)),
                time(stall_ns),
            )
        }
        _ => String::new(),
    }
}

fn figures(line: &LockSummary) -> String {
    let mut text = match (line.of_best_peer, &line.worst) {
        (Some(share), Some(worst)) => format!(
            "{}x the best peer of each point on average and {}x at its worst ({}), ",
            three(share.median),
            three(worst.ratio),
            worst.point
        ),
        _ => String::new(),
    };
    text += &format!(
        "no thread stalled longer than {}, worst Jain index {:.2}.",
        time(line.longest_stall_ns),
        line.worst_jain
    );
    text
}

fn candidate(line: &LockSummary, points: &[PointRuns]) -> Option<Candidate<'static>> {
    let runs: Option<Vec<&LockRuns>> = points.iter().map(|runs| runs.find(line.lock)).collect();
    let runs = runs?;
    let cannot_starve = runs.first()?.lock.cannot_starve;
    let rounds = runs.iter().map(|runs| runs.samples.len()).min()?;
    let round = |index| runs.iter().map(|runs| score(&runs.samples[index])).collect::<Vec<_>>();
    let scores = (0..rounds).filter_map(|index| stats::geomean(&round(index))).collect();
    Some(Candidate { lock: line.lock, cannot_starve, scores })
}

fn score(sample: &RunSample) -> f64 {
    recommend::score(sample.ops_per_s, jain(sample), sample.longest_stall_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::grid::Point;
    use crate::bench::summary;
    use crate::machine::Machine;
    use crate::units::Nanos;
    use overlock_world::clock::Stamps;

    /// Returns the results of one point: for each lock its name, throughput by rounds, stall in ms,
    /// and the ops of its threads.
    fn results(locks: &[(&str, &[f64], f64, &[u64])]) -> Results {
        let mut results = Results::new(Machine::observe(&Stamps::calibrate()));
        let locks = locks.iter().map(|(name, rounds, stall_ms, ops)| {
            let mut runs = LockRuns::new(overlock_bench::find(name).unwrap());
            let sample = |ops_per_s: &f64| RunSample {
                ops_per_s: *ops_per_s,
                ops: ops.to_vec(),
                longest_stall_ns: stall_ms * 1e6,
                ..RunSample::default()
            };
            runs.samples = rounds.iter().map(sample).collect();
            runs
        });
        let point = Point::plain(2, Nanos(0), Nanos(0));
        results.points.push(PointRuns { point, floor_ns: 0.0, locks: locks.collect() });
        results
    }

    fn advise(results: &Results) -> Advice {
        advice(results, &summary::of(results)).unwrap()
    }

    const FAST: &[f64] = &[101.0, 103.0, 102.0, 101.0, 103.0, 102.0];
    const LIKE: &[f64] = &[102.0, 102.0, 101.0, 102.0, 102.0, 103.0];
    const SLOW: &[f64] = &[90.0, 91.0, 90.0, 91.0, 90.0, 91.0];
    const EVEN: &[u64] = &[50, 50];

    #[test]
    fn among_equals_the_lock_that_cannot_starve_comes_first() {
        for names in [["std", "hybrid"], ["hybrid", "std"]] {
            let locks = [(names[0], FAST, 1.0, EVEN), (names[1], LIKE, 1.0, EVEN)];
            let advice = advise(&results(&locks));
            assert_eq!((advice.lock, advice.verdict), ("hybrid", true), "{advice:?}");
            assert!(advice.sentence.contains("ties with std, but can't starve"), "{advice:?}");
        }
    }

    #[test]
    fn only_a_lock_that_can_starve_a_thread_is_said_to() {
        let alike = |names: [&'static str; 3]| {
            let locks = names.map(|name| (name, FAST, 1.0, EVEN));
            advise(&results(&locks[..])).sentence
        };
        let none = alike(["hybrid", "queued", "ticket"]);
        assert!(none.contains("It ties with") && !none.contains("starve"), "{none}");
        let one = alike(["hybrid", "queued", "std"]);
        assert!(one.contains("; of these std can starve a thread."), "{one}");
    }

    #[test]
    fn a_long_stall_costs_more_than_a_tenth_of_the_throughput() {
        let short = [("std", FAST, 30.0, EVEN), ("pthread", SLOW, 1.0, EVEN)];
        let advice = advise(&results(&short));
        assert_eq!((advice.lock, advice.verdict), ("pthread", true));
        assert!(advice.sentence.contains("std is faster on average"), "{advice:?}");
        let alike = [("std", FAST, 1.0, EVEN), ("pthread", SLOW, 1.0, EVEN)];
        assert_eq!(advise(&results(&alike)).lock, "std");
    }

    #[test]
    fn where_all_points_have_many_threads_their_stalls_are_named() {
        let mut many = results(&[("std", FAST, 60.0, EVEN), ("pthread", SLOW, 1.0, EVEN)]);
        many.points[0].point.threads = 32;
        let lines = summary::of(&many);
        let sentence = passed_over(&lines[1], &lines, true, |_| true);
        assert!(sentence.contains("std is faster on average"), "{sentence}");
        assert!(sentence.contains("stall is 60"), "{sentence}");
        assert!(!sentence.contains("16 threads"), "{sentence}");
    }

    #[test]
    fn a_lock_that_stalls_fifty_times_as_long_loses_though_faster() {
        let faster = FAST.iter().map(|ops| ops * 1.01).collect::<Vec<_>>();
        let locks = [("std", &faster[..], 40.0, EVEN), ("pthread", FAST, 0.8, EVEN)];
        let advice = advise(&results(&locks));
        assert_eq!((advice.lock, advice.verdict), ("pthread", true), "{advice:?}");
    }

    #[test]
    fn unfairness_counts_and_starvation_is_out() {
        let unfair = [("std", FAST, 1.0, &[80, 20][..]), ("pthread", SLOW, 1.0, EVEN)];
        assert_eq!(advise(&results(&unfair)).lock, "pthread");
        let starved = [("std", &[1e9; 6][..], 60.0, EVEN), ("pthread", SLOW, 1.0, EVEN)];
        let advice = advise(&results(&starved));
        assert_eq!(advice.lock, "pthread");
        assert!(advice.sentence.contains("std is faster on average"), "{advice:?}");
        assert!(advice.sentence.contains("starves threads"), "{advice:?}");
    }

    #[test]
    fn three_rounds_carry_no_verdict() {
        let few = [("std", &FAST[..3], 1.0, EVEN), ("hybrid", &SLOW[..3], 1.0, EVEN)];
        let advice = advise(&results(&few));
        assert!(!advice.verdict && advice.sentence.starts_with("No verdict (3 rounds"));
        assert!(!advice.sentence.contains("Recommendation"), "{advice:?}");
    }
}
