//! Which lock to use on this machine: the rule of [`recommend`], and a verdict only if the rounds
//! support it.
//!
//! A lock is out before scores are compared if it let a thread wait for more than 50 ms where up to
//! 16 compete, or gave half of them nothing (Jain's index below 0.5), and another lock didn't. The
//! score of a round is the geometric mean over the points. With fewer than 6 rounds no interval
//! covers the median with 95 %: then there is no verdict, only the lock that looks best.

use crate::Run;
use crate::judge::recommend::{self, Contender, cannot_starve};
use crate::row::{Advice, Point, Row, Summary, beside};
use crate::stats::{self, CONFIDENCE, STALL_NS};
use crate::units::{counted, three, time};

/// Below this index half of the threads get nothing.
const FAIR: f64 = 0.5;

/// Applies the rule to all locks that were measured at every point, if there are at least two.
///
/// Beside busy processes the scheduler itself makes threads wait for slices, so there no lock is
/// out for its stalls.
pub fn advice(rows: &[Row], lines: &[Summary]) -> Option<Advice> {
    let setting = lines.first()?.beside;
    let (first, rest): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.beside == setting);
    if first.len() < 2 {
        return None;
    }
    let is_calm = |line: &Summary| {
        line.beside.is_some() || line.calm_stall_ns <= STALL_NS && line.calm_jain >= FAIR
    };
    let some_are_calm = first.iter().any(|line| is_calm(line));
    let left = first.iter().filter(|line| !some_are_calm || is_calm(line));
    let candidates: Vec<Contender<'_>> = left.filter_map(|line| candidate(line, rows)).collect();
    let ties = recommend::choose(&candidates);
    let (chosen, ties) = ties.split_first()?;
    let line = first.iter().find(|line| line.lock == chosen.lock)?;
    let rounds = chosen.scores.len();
    let verdict = stats::coverage(rounds) >= CONFIDENCE;
    let can_starve = ties.iter().filter(|of| !of.cannot_starve).map(|of| of.lock);
    let can_starve: Vec<&str> = can_starve.collect();
    let ties: Vec<String> = ties.iter().map(|of| of.lock.to_owned()).collect();
    let mut sentence = if verdict {
        format!("Recommendation: use {} on this machine: {}", line.lock, figures(line))
    } else {
        format!(
            "No verdict ({}; 6 or more can tell): {} looks best: {}",
            counted(rounds, "round"),
            line.lock,
            figures(line)
        )
    };
    for other in rest.iter().filter(|other| other.lock == line.lock) {
        sentence += &format!(" B{}: {}", &beside(other.beside)[", b".len()..], figures(other));
    }
    if !ties.is_empty() {
        sentence += &format!(" It ties with {}", ties.join(", "));
        sentence += &match can_starve.len() {
            count if !chosen.cannot_starve || count == 0 => ".".into(),
            count if count == ties.len() => ", but can't starve a thread.".into(),
            _ => format!("; of these {} can starve a thread.", can_starve.join(" and ")),
        };
    }
    sentence += &better_at(line, &first);
    for other in rest.iter().filter(|other| other.lock == line.lock) {
        let all: Vec<_> = rest.iter().copied().filter(|one| one.beside == other.beside).collect();
        sentence += &better_at(other, &all);
    }
    if !some_are_calm {
        sentence += " No lock kept every thread going.";
    }
    Some(Advice { lock: line.lock.clone(), verdict, ties, sentence })
}

/// Names the locks that are better at something than the chosen one, and what they pay for it.
fn better_at(chosen: &Summary, all: &[&Summary]) -> String {
    /// What is closer is as good, by a share.
    const CLOSE: f64 = 0.03;
    type Measure = (fn(&Summary) -> Option<f64>, fn(&Summary) -> String);
    const MEASURES: [Measure; 4] = [
        (share, |of| format!("is faster ({}x)", three(share(of).unwrap_or(0.0)))),
        (
            |of| Some(-of.longest_stall_ns),
            |of| format!("has shorter stalls (at most {})", time(of.longest_stall_ns)),
        ),
        (|of| Some(of.worst_jain), |of| format!("is fairer (Jain {:.2})", of.worst_jain)),
        (
            |of| of.neighbours,
            |of| format!("leaves neighbours more ({:.0} %)", 100.0 * of.neighbours.unwrap_or(0.0)),
        ),
    ];
    let mut better: Vec<(&Summary, Vec<String>)> = Vec::new();
    for (measure, name) in MEASURES {
        let others = all.iter().filter_map(|of| Some((measure(of)?, *of)));
        let best = others.max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((own, (most, of))) = measure(chosen).zip(best) else { continue };
        if most - own > CLOSE * own.abs() {
            match better.iter_mut().find(|(lock, _)| lock.lock == of.lock) {
                Some((_, what)) => what.push(name(of)),
                None => better.push((of, vec![name(of)])),
            }
        }
    }
    let told = better.into_iter().map(|(of, what)| {
        let pays = share(of).filter(|own| Some(*own) < share(chosen));
        let pays = pays.map(|own| format!(", at {}x", three(own)));
        format!("{} {}{}", of.lock, what.join(", "), pays.unwrap_or_default())
    });
    let told: Vec<String> = told.collect();
    let place = beside(chosen.beside);
    if told.is_empty() { String::new() } else { format!(" Others{place}: {}.", told.join("; ")) }
}

fn share(line: &Summary) -> Option<f64> {
    Some(line.of_best_peer?.median)
}

fn figures(line: &Summary) -> String {
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
        "no thread stalled longer than {}, worst Jain index {:.2}",
        time(line.longest_stall_ns),
        line.worst_jain
    );
    let kept = line.neighbours.map(|share| format!(", neighbours kept {:.0} %", 100.0 * share));
    text + &kept.unwrap_or_default() + "."
}

fn candidate<'a>(line: &'a Summary, rows: &[Row]) -> Option<Contender<'a>> {
    let points = rows.iter().filter_map(Row::point).filter(|point| point.lock == line.lock);
    let points: Vec<&Point> = points.collect();
    let rounds = points.iter().map(|point| point.samples.len()).min()?;
    let round = |index| points.iter().map(|of| score(&of.samples[index])).collect::<Vec<_>>();
    let scores = (0..rounds).filter_map(|index| stats::geomean(&round(index))).collect();
    let lock = line.lock.as_str();
    Some(Contender { lock, cannot_starve: cannot_starve(lock), scores })
}

fn score(run: &Run) -> f64 {
    let jain = run.fairness().unwrap_or(1.0);
    recommend::score(run.ops_per_s, jain, run.stall_ns())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lengths;
    use crate::judge::summary::summaries;
    use crate::row::relate;
    use crate::stats::{Interval, jain};

    /// The rows of one point: for each lock its name, throughput by rounds, stall in ms, and the
    /// ops of its threads.
    fn results(locks: &[(&str, &[f64], f64, &[u64])]) -> Vec<Row> {
        let of = |(lock, rounds, stall_ms, ops): &(&str, &[f64], f64, &[u64])| {
            let run = |ops_per_s: &f64| Run {
                ops_per_s: *ops_per_s,
                jain: jain(ops),
                longest_stall_ns: Some((stall_ms * 1e6) as u64),
                ..Run::default()
            };
            Point {
                lock: (*lock).to_owned(),
                cpus: Some(2),
                lengths: Some(Lengths::Exp),
                jain: Some(jain(ops)),
                longest_stall_ns: Some((stall_ms * 1e6) as u64),
                ops_per_s: Interval::of(rounds),
                samples: rounds.iter().map(run).collect(),
                ..Point::default()
            }
        };
        let mut points: Vec<Point> = locks.iter().map(of).collect();
        relate(&mut points);
        points.into_iter().map(Box::new).map(Row::Point).collect()
    }

    fn advise(rows: &[Row]) -> Advice {
        advice(rows, &summaries(rows)).unwrap()
    }

    const FAST: &[f64] = &[101.0, 103.0, 102.0, 101.0, 103.0, 102.0];
    const LIKE: &[f64] = &[102.0, 102.0, 101.0, 102.0, 102.0, 103.0];
    const SLOW: &[f64] = &[90.0, 91.0, 90.0, 91.0, 90.0, 91.0];
    const EVEN: &[u64] = &[50, 50];

    /// Each with its locks, the chosen one, whether it is a verdict, and what is said of it.
    #[test]
    fn a_lock_is_chosen_by_its_score_and_among_equals_by_what_it_guarantees() {
        let faster = FAST.iter().map(|ops| ops * 1.01).collect::<Vec<_>>();
        let fairly = |names: [&'static str; 3]| names.map(|name| (name, FAST, 1.0, EVEN));
        let of = |one: &'static str, rounds, stall, ops| (one, rounds, stall, ops);
        let (std, slow) = (of("std", FAST, 1.0, EVEN), of("pthread", SLOW, 1.0, EVEN));
        let can_starve = "ties with std, but can't starve";
        for (locks, lock, is_verdict, part) in [
            (vec![std, of("hybrid", LIKE, 1.0, EVEN)], "hybrid", true, can_starve),
            (
                vec![of("hybrid", FAST, 1.0, EVEN), of("std", LIKE, 1.0, EVEN)],
                "hybrid",
                true,
                can_starve,
            ),
            (
                fairly(["hybrid", "queued", "std"]).to_vec(),
                "hybrid",
                true,
                "; of these std can starve a thread.",
            ),
            (fairly(["hybrid", "parking-lot", "ticket"]).to_vec(), "hybrid", true, "It ties with"),
            (vec![std, slow], "std", true, "Recommendation: use std"),
            // A long stall costs more than a tenth of the throughput.
            (vec![of("std", FAST, 30.0, EVEN), slow], "pthread", true, "std is faster ("),
            (
                vec![of("std", &faster, 40.0, EVEN), of("pthread", FAST, 0.8, EVEN)],
                "pthread",
                true,
                "",
            ),
            // Unfairness counts, and starvation is out.
            (vec![of("std", FAST, 1.0, &[80, 20]), slow], "pthread", true, ""),
            (vec![of("std", &[1e9; 6], 60.0, EVEN), slow], "pthread", true, "std is faster ("),
            // Three rounds carry no verdict.
            (
                vec![of("std", &FAST[..3], 1.0, EVEN), of("hybrid", &SLOW[..3], 1.0, EVEN)],
                "std",
                false,
                "No verdict (3 rounds",
            ),
        ] {
            let advice = advise(&results(&locks));
            assert_eq!((&*advice.lock, advice.verdict), (lock, is_verdict), "{advice:?}");
            assert!(advice.sentence.contains(part), "{part}: {advice:?}");
            assert_eq!(advice.sentence.contains("Recommendation"), is_verdict, "{advice:?}");
            if part == "It ties with" {
                assert!(!advice.sentence.contains("starve"), "{advice:?}");
            }
        }
    }

    #[test]
    fn beside_busy_processes_each_lock_is_summed_up_apart_and_who_is_better_is_named() {
        let quiet = results(&[("std", FAST, 1.0, EVEN), ("pthread", SLOW, 1.0, EVEN)]);
        let mut busy = results(&[("std", SLOW, 90.0, EVEN), ("pthread", FAST, 90.0, EVEN)]);
        for row in &mut busy {
            if let Row::Point(point) = row {
                point.beside = Some(2);
                point.neighbours = Some(if point.lock == "std" { 0.7 } else { 0.3 });
            }
        }
        let rows = [quiet, busy].concat();
        let lines = summaries(&rows);
        let told: Vec<_> = lines.iter().map(|line| (line.beside, &*line.lock)).collect();
        let sorted = [(None, "std"), (None, "pthread"), (Some(2), "pthread"), (Some(2), "std")];
        assert_eq!(told, sorted);
        let sentence = advise(&rows).sentence;
        for part in
            ["Beside 2 busy processes: ", "kept 70 %", "Others, beside 2 busy processes: pthread"]
        {
            assert!(sentence.contains(part), "{part}: {sentence}");
        }
    }
}
