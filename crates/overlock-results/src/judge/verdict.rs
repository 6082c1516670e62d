//! Which lock suits the program, and whether the figures are good enough to tell.

use crate::Run;
use crate::judge::recommend::{self, Contender};
use crate::judge::startup;
use crate::row::{Choice, LIBC, NONE, Point};
use crate::stats::{self, CONFIDENCE, Interval};
use crate::units::{three, time};

/// Returns the point that the others are compared with: the unmodified program, or else the first
/// lock.
pub fn baseline(points: &[Point]) -> Option<&Point> {
    let find = |is_it: fn(&str) -> bool| points.iter().find(|point| is_it(&point.lock));
    find(|lock| lock == LIBC).or_else(|| find(|lock| lock != NONE)).or(points.first())
}

/// Compares each point with the baseline, and puts the best first.
pub fn rank(points: &mut Vec<Point>) {
    let Some(base) = baseline(points).cloned() else { return };
    for point in points.iter_mut() {
        point.baseline = Some(base.lock.clone());
        point.of_baseline = Interval::of(&point.better_than(&base));
    }
    points.retain(|point| point.of_baseline.is_some());
    let ratio = |point: &Point| point.of_baseline.map_or(0.0, |ratio| ratio.median);
    points.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
}

/// Judges points of one program that are ranked, and how often its threads waited for a lock that
/// can be replaced, if that is known. Returns nothing if there is nothing to choose from.
pub fn choose(points: &[Point], waits: Option<u64>) -> Option<Choice> {
    // The library that replaces nothing is not a choice.
    let ranked: Vec<&Point> = points.iter().filter(|point| point.lock != NONE).collect();
    let none = points.iter().find(|point| point.lock == NONE);
    let name = points.first()?.baseline.as_ref();
    let baseline = points.iter().find(|point| Some(&point.lock) == name)?;
    let startup = startup::cost(points);
    let (lock, sentence) = Findings { ranked: &ranked, baseline, none, waits }.judge()?;
    Some(Choice { lock: lock.map(str::to_owned), sentence, waits, startup })
}

#[derive(Debug)]
struct Findings<'a> {
    ranked: &'a [&'a Point],
    baseline: &'a Point,
    none: Option<&'a Point>,
    /// How often a thread waited for a lock that can be replaced, if that is known.
    waits: Option<u64>,
}

impl<'a> Findings<'a> {
    fn judge(&self) -> Option<(Option<&'a str>, String)> {
        let first = *self.ranked.first().filter(|_| self.ranked.len() > 1)?;
        if let Some(why) = self.nothing_to_learn(first) {
            return Some((None, format!("No verdict: {why}")));
        }
        let all = self.candidates(self.ranked);
        let best = recommend::best(&all)?;
        let (lock, mut sentence) = if best.lock == self.baseline.lock {
            self.keep(best, &all)
        } else {
            self.change(best, &all)
        }?;
        let has_libc = self.ranked.iter().any(|series| series.lock == LIBC);
        if has_libc && self.longest_known_stall_ns() as f64 > recommend::SHORT_STALL_NS {
            sentence += " Stalls are not weighed, because libc's can't be measured.";
        }
        Some((lock, sentence))
    }

    fn knows_stalls(&self) -> bool {
        self.ranked.iter().all(|series| self.stalls_ns(series).is_some())
    }

    /// Returns the longest stall that is known under any of the locks, or 0.
    fn longest_known_stall_ns(&self) -> u64 {
        let samples = self.ranked.iter().flat_map(|series| &series.samples);
        samples.filter_map(|sample| sample.longest_stall_ns).max().unwrap_or(0)
    }

    /// Returns what the rule weighs: how many times better than the baseline each lock is, and its
    /// longest stalls, if they are known of all runs.
    fn candidates(&self, series: &[&'a Point]) -> Vec<Contender<'a>> {
        let known = self.knows_stalls();
        let candidate = |series: &&'a Point| {
            let ratios = series.better_than(self.baseline);
            let stalls = self.stalls_ns(series).filter(|_| known);
            let stalls = stalls.unwrap_or_else(|| vec![0.0; ratios.len()]);
            let rounds = ratios.iter().zip(&stalls);
            Contender {
                lock: &series.lock,
                cannot_starve: recommend::cannot_starve(&series.lock),
                scores: rounds
                    .map(|(ratio, stall)| recommend::score(*ratio, 1.0, *stall))
                    .collect(),
            }
        };
        series.iter().map(candidate).collect()
    }

    fn stalls_ns(&self, series: &Point) -> Option<Vec<f64>> {
        series.samples.iter().map(|sample| Some(sample.longest_stall_ns? as f64)).collect()
    }

    /// Explains why no figure can tell anything about locks, if that is so.
    fn nothing_to_learn(&self, best: &Point) -> Option<String> {
        let rounds = self.baseline.samples.len();
        let figures = || self.ranked.iter().flat_map(|point| point.each(Run::figure));
        if rounds > 1 && figures().zip(figures().skip(1)).all(|(one, next)| one == next) {
            return Some(format!(
                "the figure was {} in every run under every lock, so it does not depend on the \
                 lock; read another, or compare wall time.",
                three(best.samples[0].figure())
            ));
        }
        if self.waits == Some(0) && self.longest_known_stall_ns() == 0 {
            return Some(
                "no thread waited for a lock that can be replaced, so the differences come from the \
                 start of the library, and from noise."
                    .into(),
            );
        }
        (stats::coverage(rounds) < CONFIDENCE).then(|| {
            let are = if rounds == 1 { " is" } else { "s are" };
            format!("{rounds} round{are} too few; 6 or more can tell.")
        })
    }

    /// Handles the case that the baseline came out best.
    fn keep(
        &self,
        best: &Contender<'a>,
        all: &[Contender<'a>],
    ) -> Option<(Option<&'a str>, String)> {
        let others: Vec<Contender<'a>> =
            all.iter().filter(|other| other.lock != best.lock).cloned().collect();
        let next = recommend::best(&others)?;
        if !best.beats(next) {
            return Some((None, self.tie(best, next)?));
        }
        // The next lock may be no worse than libc is once the library is loaded.
        let none = self.none.map(|none| self.candidates(&[none]));
        let of_none = none.and_then(|none| next.over(none.first()?));
        if best.lock == LIBC && of_none.is_some_and(|ratio| ratio.high >= 1.0) {
            let of_none = Interval::of(&self.find(next.lock)?.better_than(self.none?))?;
            let [ratio, of_none] = [self.over(best, next)?, of_none].map(times);
            return Some((
                None,
                format!(
                    "No verdict: libc came out {ratio} as good as {}, but that is what preloading \
                     costs; under the library that replaces nothing, {} is {of_none} as good. \
                     Longer runs would show what the locks are worth.",
                    next.lock, next.lock,
                ),
            ));
        }
        let figures = self.as_good_as(best, next, "the next, ")?;
        Some((Some(best.lock), format!("Keep {}: it is {figures}.", best.lock)))
    }

    /// Handles the case that another lock came out best.
    fn change(
        &self,
        best: &Contender<'a>,
        all: &[Contender<'a>],
    ) -> Option<(Option<&'a str>, String)> {
        let baseline = all.iter().find(|lock| lock.lock == self.baseline.lock)?;
        if !best.beats(baseline) {
            return Some((None, self.tie(best, baseline)?));
        }
        let certain: Vec<Contender<'a>> =
            all.iter().filter(|lock| lock.beats(baseline)).cloned().collect();
        let ties = recommend::choose(&certain);
        let (chosen, ties) = ties.split_first()?;
        let name = chosen.lock;
        let mut sentence = format!("Use {name}: it is {}.", self.as_good_as(chosen, baseline, "")?);
        let passes_over_best = name != best.lock && !best.cannot_starve;
        if passes_over_best {
            sentence += &format!(
                " {} came out {} as good as that, but can let a thread wait for ever.",
                best.lock,
                times(self.over(best, chosen)?)
            );
        } else if !chosen.cannot_starve {
            sentence += " It can let a thread wait for ever";
            let fair = certain.iter().find(|lock| lock.cannot_starve);
            sentence += &match fair.and_then(|fair| Some((fair, self.over(fair, chosen)?))) {
                Some((fair, ratio)) => {
                    format!("; {}, which can't, is {} as good.", fair.lock, times(ratio))
                }
                None => ".".into(),
            };
        }
        let is_new = |tie: &&&Contender<'_>| !(passes_over_best && tie.lock == best.lock);
        let ties: Vec<&str> = ties.iter().filter(is_new).map(|tie| tie.lock).collect();
        if !ties.is_empty() {
            sentence += &format!(" It ties with {}.", ties.join(", "));
        }
        Some((Some(name), sentence))
    }

    fn tie(&self, best: &Contender<'_>, next: &Contender<'_>) -> Option<String> {
        let noise = best.over(next)?.includes(1.0);
        let weighed = self.stalls_matter(best, next);
        let mut sentence = format!(
            "No verdict: {} came out {}{}.",
            best.lock,
            self.as_good_as(best, next, "")?,
            match (noise, weighed) {
                (true, false) => ", and that could be noise; more --runs or longer runs are needed",
                (true, true) => {
                    ". Weighed together, that could be noise; more --runs or longer runs are needed"
                }
                (false, false) => ", which is a tie: too little to matter",
                (false, true) => ". Weighed together, that is a tie: too little to matter",
            }
        );
        let fair = [best, next].into_iter().find(|lock| lock.cannot_starve);
        if let Some(fair) = fair.filter(|_| !recommend::cannot_starve(&self.baseline.lock)) {
            sentence += &format!(
                " If no thread may wait for ever, use {}: {} does not guarantee that.",
                fair.lock, self.baseline.lock
            );
        }
        Some(sentence)
    }

    /// Describes one lock beside another: the ratio of the figures, and the longest stalls where
    /// the rule weighs them.
    fn as_good_as(
        &self,
        lock: &Contender<'_>,
        other: &Contender<'_>,
        which_is: &str,
    ) -> Option<String> {
        let ratio = self.over(lock, other)?;
        let mut text = format!("{} as good as {which_is}{}", times(ratio), other.lock);
        if self.stalls_matter(lock, other) {
            let stalls = [lock, other].map(|of| self.longest_stall_ns(of));
            let [own, others] = stalls.map(time);
            let link = if (ratio.median < 1.0) == (stalls[0] < stalls[1]) { "but" } else { "and" };
            text += &format!(", {link} its longest stall was {own}, not {others}");
        }
        Some(text)
    }

    fn over(&self, lock: &Contender<'_>, other: &Contender<'_>) -> Option<Interval> {
        Interval::of(&self.find(lock.lock)?.better_than(self.find(other.lock)?))
    }

    /// Whether one of the locks stalled for so long that the rule weighs it.
    fn stalls_matter(&self, lock: &Contender<'_>, other: &Contender<'_>) -> bool {
        [lock, other].iter().any(|of| self.longest_stall_ns(of) > recommend::SHORT_STALL_NS)
    }

    /// Returns the longest stall over all rounds, or zero if stalls do not count.
    fn longest_stall_ns(&self, lock: &Contender<'_>) -> f64 {
        let stalls = self.find(lock.lock).and_then(|series| self.stalls_ns(series));
        stalls.filter(|_| self.knows_stalls()).into_iter().flatten().fold(0.0, f64::max)
    }

    fn find(&self, lock: &str) -> Option<&'a Point> {
        self.ranked.iter().copied().find(|series| series.lock == lock)
    }
}

fn times(ratio: Interval) -> String {
    format!("{}x ({}..{})", three(ratio.median), three(ratio.low), three(ratio.high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Programs;
    use std::collections::BTreeMap;

    /// A lock, its figures by rounds, and its longest stall in milliseconds if that is known.
    type Of<'a> = (&'a str, &'a [f64], Option<f64>);

    fn point(&(lock, values, stall_ms): &Of<'_>, higher_is_better: bool) -> Point {
        let run = |value: &f64| Run {
            value: Some(*value),
            seconds: *value,
            longest_stall_ns: stall_ms.map(|ms| (ms * 1e6) as u64),
            ..Run::default()
        };
        let programs = Programs {
            workload: "program".into(),
            pcpus: None,
            metric: None,
            higher_is_better,
            library: None,
        };
        programs.point(lock, values.iter().map(run).collect(), BTreeMap::new())
    }

    fn told(all: &[Of<'_>], waits: Option<u64>, higher_is_better: bool) -> Choice {
        let mut points: Vec<Point> = all.iter().map(|of| point(of, higher_is_better)).collect();
        rank(&mut points);
        choose(&points, waits).unwrap()
    }

    const ONE: [f64; 6] = [10.0, 11.0, 10.0, 12.0, 10.0, 11.0];
    const LIBC: Of<'_> = ("libc", &ONE, None);

    /// Each with its points, the lock that is chosen, and parts of what is said of it.
    #[test]
    fn a_verdict_needs_a_difference_that_is_no_noise() {
        let of = |times: f64| ONE.map(|value| value * times);
        let (half, near, far) = (of(0.5), of(1.0 / 1.97), of(1.0 / 1.5));
        let noisy = [10.0, 30.0, 20.0, 70.0, 15.0, 90.0];
        let (a_little, within) = (noisy.map(|v| v * 0.98), [9.0, 12.0, 9.5, 12.5, 9.0, 10.5]);
        let like_half = [5.0, 5.4, 5.1, 5.9, 5.2, 5.5];
        let fast: Of<'_> = ("hybrid", &half, None);
        let cases: [(&[Of<'_>], Option<&str>, &str); 9] = [
            (&[fast, LIBC], Some("hybrid"), "2.00x (2.00..2.00)"),
            // Ratios are paired, so common noise cancels.
            (&[("hybrid", &a_little, None), ("libc", &noisy, None)], Some("hybrid"), "1.02x"),
            (&[("hybrid", &within, None), LIBC], None, "No verdict: "),
            (&[("libc", &[3.0; 2], None), ("hybrid", &[3.0; 2], None)], None, "3.00 in every run"),
            (&[("hybrid", &[1.0; 5], None), ("libc", &ONE[..5], None)], None, "too few"),
            (&[fast, ("ticket", &like_half, None), LIBC], Some("hybrid"), "ties with ticket."),
            // A tie goes to the lock that starves no thread.
            (
                &[LIBC, ("test-and-set", &half, None), ("hybrid", &near, None)],
                Some("hybrid"),
                "test-and-set came out 1.02x",
            ),
            (
                &[LIBC, ("test-and-set", &half, None), ("hybrid", &far, None)],
                Some("test-and-set"),
                "hybrid, which can't, is 0.750x",
            ),
            (
                &[LIBC, ("hybrid", &of(1.0 / 1.1), Some(900.0))],
                Some("hybrid"),
                "can't be measured.",
            ),
        ];
        for (points, lock, part) in cases {
            let told = told(points, Some(7), false);
            assert_eq!(told.lock.as_deref(), lock, "{told:?}");
            assert!(told.sentence.contains(part), "{part}: {told:?}");
        }
        let third = of(1.0 / 3.0);
        let higher = told(&[LIBC, ("hybrid", &third, None)], Some(7), true);
        assert_eq!(higher.lock.as_deref(), Some("libc"));
        assert!(higher.sentence.starts_with("Keep libc: it is 3.00x"), "{higher:?}");
    }

    #[test]
    fn ranks_follow_the_ratios_and_not_the_figures() {
        let libc = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        // Their medians are 31 and 31.5.
        let ticket = [10.0, 20.0, 31.0, 31.0, 50.0, 60.0];
        let hybrid = libc.map(|value| value * 0.9);
        let all = [("libc", &libc), ("ticket", &ticket), ("hybrid", &hybrid)];
        let mut points: Vec<Point> =
            all.iter().map(|&(lock, values)| point(&(lock, values, None), false)).collect();
        rank(&mut points);
        assert_eq!(points[0].lock, "hybrid");
    }

    #[test]
    fn a_lock_that_stalls_fifty_times_as_long_loses_though_faster() {
        let slower = ONE.map(|time| time * 1.01);
        let judge = |queued: f64, hybrid: f64| {
            told(
                &[("queued", &ONE, Some(queued)), ("hybrid", &slower, Some(hybrid))],
                Some(7),
                false,
            )
        };
        for (queued_ms, hybrid_ms, lock, part) in [
            (200.0, 4.0, Some("hybrid"), "queued, but its longest stall was 4.00 ms, not"),
            (4.0, 200.0, Some("queued"), "Keep queued: it is 1.01x"),
            // Waits too short to count do not turn a difference of 1 % into a verdict.
            (1.0, 0.01, None, "which is a tie"),
        ] {
            let told = judge(queued_ms, hybrid_ms);
            assert_eq!(told.lock.as_deref(), lock, "{told:?}");
            assert!(told.sentence.contains(part), "{told:?}");
        }
    }

    #[test]
    fn where_nothing_waited_or_preloading_costs_as_much_there_is_no_verdict() {
        let of = |times: f64| ONE.map(|value| value * times);
        let (half, more, some) = (of(0.5), of(1.3), of(1.1));
        for (waits, lock) in [(Some(0), None), (Some(1), Some("hybrid")), (None, Some("hybrid"))] {
            let told = told(&[("hybrid", &half, None), LIBC], waits, false);
            assert_eq!(told.lock.as_deref(), lock);
            assert_eq!(told.sentence.contains("no thread waited"), lock.is_none());
        }
        for (none, lock) in [(&more, None), (&some, Some("libc"))] {
            let all = [LIBC, ("hybrid", &more, None), ("none", none, None)];
            let told = told(&all, Some(7), false);
            assert_eq!(told.lock.as_deref(), lock);
            let costs = told.sentence.contains("that is what preloading costs");
            assert_eq!(costs, lock.is_none(), "{told:?}");
        }
    }
}
