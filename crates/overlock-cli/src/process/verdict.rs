// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lock suits the program, and whether the figures are good enough to tell.

use super::preload::LIBC;
use super::startup::StartUp;
use super::trial::Sample;
use crate::recommend;
use crate::stats::{self, CONFIDENCE, Interval};
use crate::units::three;
use serde::Serialize;

/// One lock: `samples[i]` is from round `i`.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) lock: String,
    pub(crate) samples: Vec<Sample>,
    /// So bad that it was left out after some rounds.
    pub(crate) beaten: bool,
}

impl Series {
    pub(crate) fn new(lock: &str) -> Self {
        Series { lock: lock.to_owned(), samples: Vec::new(), beaten: false }
    }

    pub(crate) fn each(&self, figure: impl Fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().map(figure).collect()
    }

    pub(crate) fn value(&self) -> Option<Interval> {
        Interval::of(&self.values())
    }

    pub(crate) fn values(&self) -> Vec<f64> {
        self.each(|sample| sample.value)
    }

    /// Returns how many times better than `other` this lock is, round by round: above 1 is better.
    pub(crate) fn better_than(&self, other: &Series, higher_is_better: bool) -> Option<Interval> {
        Interval::of(&self.better_than_values(&other.values(), higher_is_better))
    }

    /// Returns the ratios themselves.
    pub(crate) fn better_than_values(&self, other: &[f64], higher_is_better: bool) -> Vec<f64> {
        let rounds = self.samples.iter().zip(other);
        let ratios = rounds.map(|(own, other)| own.value / other);
        ratios.map(|ratio| if higher_is_better { ratio } else { 1.0 / ratio }).collect()
    }
}

/// The evidence.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    /// The locks, the best first.
    pub(super) ranked: &'a [&'a Series],
    /// One of them.
    pub(super) baseline: &'a Series,
    /// The library that replaces nothing, if it was measured.
    pub(super) none: Option<&'a Series>,
    pub(super) startup: Option<StartUp>,
    /// How often a thread waited for a lock that can be replaced, if that is known.
    pub(super) waits: Option<u64>,
    pub(super) higher_is_better: bool,
}

/// The result.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    kind: &'static str,
    /// The lock to use; nothing if that would be a guess.
    pub(crate) lock: Option<String>,
    pub(crate) sentence: String,
    /// From a separate run; absent if the program left no counters.
    waits: Option<u64>,
    /// The cost of preloading itself; absent if it was not measured.
    startup: Option<StartUp>,
}

/// Judges the findings; returns nothing if there is nothing to choose from.
pub(super) fn judge(findings: &Findings<'_>) -> Option<Verdict> {
    let (lock, sentence) = findings.judge()?;
    let Findings { waits, startup, .. } = *findings;
    let lock = lock.map(str::to_owned);
    Some(Verdict { kind: "verdict", lock, sentence, waits, startup })
}

impl<'a> Findings<'a> {
    fn judge(&self) -> Option<(Option<&'a str>, String)> {
        let best = *self.ranked.first().filter(|_| self.ranked.len() > 1)?;
        if let Some(why) = self.nothing_to_learn(best) {
            return Some((None, format!("No verdict: {why}")));
        }
        if best.lock == self.baseline.lock { self.keep(best) } else { self.change(best) }
    }

    /// Explains why no figure can tell anything about locks, if that is so.
    fn nothing_to_learn(&self, best: &Series) -> Option<String> {
        let rounds = self.baseline.samples.len();
        let figures = || self.ranked.iter().flat_map(|series| series.values());
        if rounds > 1 && figures().zip(figures().skip(1)).all(|(one, next)| one == next) {
            return Some(format!(
                "the figure was {} in every run under every lock, so it does not depend on the \
                 lock; read another, or compare wall time.",
                three(best.values()[0])
            ));
        }
        if self.waits == Some(0) {
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
    fn keep(&self, best: &'a Series) -> Option<(Option<&'a str>, String)> {
        let next = *self.ranked.get(1)?;
        let ratio = self.over(best, next)?;
        if ratio.includes(1.0) {
            return Some((None, self.tie(best, next, ratio)));
        }
        // The next lock may be no worse than libc is once the library is loaded.
        let of_none = self.none.and_then(|none| self.over(next, none));
        if best.lock == LIBC && of_none.is_some_and(|ratio| ratio.high >= 1.0) {
            return Some((
                None,
                format!(
                    "No verdict: libc came out {} as good as {}, but that is what preloading \
                     costs; under the library that replaces nothing, {} is {} as good. Longer \
                     runs would show what the locks are worth.",
                    times(ratio),
                    next.lock,
                    next.lock,
                    times(of_none?),
                ),
            ));
        }
        let figures = times(ratio);
        let name = &best.lock;
        Some((
            Some(name),
            format!("Keep {name}: it is {figures} as good as the next, {}.", next.lock),
        ))
    }

    /// Handles the case that another lock came out best.
    fn change(&self, best: &'a Series) -> Option<(Option<&'a str>, String)> {
        let ratio = self.over(best, self.baseline)?;
        if ratio.includes(1.0) {
            return Some((None, self.tie(best, self.baseline, ratio)));
        }
        let certain =
            |lock: &&&Series| self.over(lock, self.baseline).is_some_and(|ratio| ratio.low > 1.0);
        let certain: Vec<&Series> = self.ranked.iter().filter(certain).copied().collect();
        let of_best = |lock: &&'a Series| Some((lock.lock.as_str(), self.over(lock, best)?));
        let chosen = recommend::preferred(certain.iter().filter_map(of_best))?;
        let lock = *certain.iter().find(|lock| lock.lock == chosen)?;
        let ratio = self.over(lock, self.baseline)?;
        let mut sentence =
            format!("Use {chosen}: it is {} as good as {}.", times(ratio), self.baseline.lock);
        if chosen != best.lock {
            sentence += &format!(
                " {} came out {} as good as that, but can let a thread wait for ever.",
                best.lock,
                times(self.over(best, lock)?)
            );
        } else if !recommend::starves_nobody(chosen) {
            sentence += " It can let a thread wait for ever";
            let fair = certain.iter().find(|lock| recommend::starves_nobody(&lock.lock));
            sentence += &match fair.and_then(|fair| Some((fair, self.over(fair, lock)?))) {
                Some((fair, ratio)) => {
                    format!("; {}, which can't, is {} as good.", fair.lock, times(ratio))
                }
                None => ".".into(),
            };
        }
        let ties: Vec<&str> = certain
            .iter()
            .filter(|other| ![chosen, &best.lock].contains(&other.lock.as_str()))
            .filter(|other| self.over(lock, other).is_some_and(|ratio| ratio.includes(1.0)))
            .map(|other| other.lock.as_str())
            .collect();
        if !ties.is_empty() {
            sentence += &format!(" No difference to {} is certain.", ties.join(", "));
        }
        Some((Some(chosen), sentence))
    }

    /// Describes two locks that can't be told apart, one of them the baseline.
    fn tie(&self, best: &Series, next: &Series, ratio: Interval) -> String {
        let mut sentence = format!(
            "No verdict: {} came out {} as good as {}, and that could be noise; more --runs or \
             longer runs are needed.",
            best.lock,
            times(ratio),
            next.lock
        );
        let fair = [best, next].into_iter().find(|lock| recommend::starves_nobody(&lock.lock));
        if let Some(fair) = fair.filter(|_| !recommend::starves_nobody(&self.baseline.lock)) {
            sentence += &format!(
                " If no thread may wait for ever, use {}: {} does not guarantee that.",
                fair.lock, self.baseline.lock
            );
        }
        sentence
    }

    /// Returns how many times better one lock is than another.
    fn over(&self, lock: &Series, other: &Series) -> Option<Interval> {
        lock.better_than(other, self.higher_is_better)
    }
}

/// A ratio with its interval.
fn times(ratio: Interval) -> String {
    format!("{}x ({}..{})", three(ratio.median), three(ratio.low), three(ratio.high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::CpuTimes;

    fn series(lock: &str, values: &[f64]) -> Series {
        let sample = |value| Sample {
            value,
            wall_s: value,
            cpu_s: 0.0,
            max_rss_kib: 0,
            cpu_times: CpuTimes::default(),
        };
        let samples = values.iter().copied().map(sample).collect();
        Series { samples, ..Series::new(lock) }
    }

    fn told(ranked: &[&Series], baseline: &Series, higher_is_better: bool) -> Option<Verdict> {
        let (none, startup, waits) = (None, None, Some(7));
        judge(&Findings { ranked, baseline, none, startup, waits, higher_is_better })
    }

    const LIBC: [f64; 6] = [10.0, 11.0, 10.0, 12.0, 10.0, 11.0];

    #[test]
    fn a_clear_winner_is_named() {
        let (libc, fast) = (series("libc", &LIBC), series("hybrid", &LIBC.map(|v| v / 2.0)));
        let verdict = told(&[&fast, &libc], &libc, false).unwrap();
        assert_eq!(verdict.lock.as_deref(), Some("hybrid"));
        assert!(verdict.sentence.contains("2.00x (2.00..2.00)"), "{}", verdict.sentence);
    }

    #[test]
    fn ratios_are_paired_so_common_noise_cancels() {
        let noisy = [10.0, 30.0, 20.0, 70.0, 15.0, 90.0];
        let (libc, fast) = (series("libc", &noisy), series("hybrid", &noisy.map(|v| v * 0.98)));
        let verdict = told(&[&fast, &libc], &libc, false).unwrap();
        assert_eq!(verdict.lock.as_deref(), Some("hybrid"));
    }

    #[test]
    fn inside_the_noise_there_is_no_verdict() {
        let other = series("hybrid", &[9.0, 12.0, 9.5, 12.5, 9.0, 10.5]);
        let libc = series("libc", &LIBC);
        let verdict = told(&[&other, &libc], &libc, false).unwrap();
        assert_eq!(verdict.lock, None);
        assert!(verdict.sentence.starts_with("No verdict"), "{}", verdict.sentence);
    }

    #[test]
    fn a_figure_that_never_varies_is_no_noise() {
        let (libc, other) = (series("libc", &[3.0; 2]), series("hybrid", &[3.0; 2]));
        let verdict = told(&[&libc, &other], &libc, false).unwrap();
        assert_eq!(verdict.lock, None);
        assert!(verdict.sentence.contains("3.00 in every run"), "{}", verdict.sentence);
    }

    #[test]
    fn few_rounds_are_never_enough() {
        let (libc, fast) = (series("libc", &LIBC[..5]), series("hybrid", &[1.0; 5]));
        let verdict = told(&[&fast, &libc], &libc, false).unwrap();
        assert_eq!(verdict.lock, None);
        assert!(verdict.sentence.contains("too few"));
    }

    #[test]
    fn the_baseline_may_win_and_higher_may_be_better() {
        let (libc, slow) = (series("libc", &LIBC), series("hybrid", &LIBC.map(|v| v / 3.0)));
        let verdict = told(&[&libc, &slow], &libc, true).unwrap();
        assert_eq!(verdict.lock.as_deref(), Some("libc"));
        assert!(verdict.sentence.starts_with("Keep libc: it is 3.00x"), "{}", verdict.sentence);
    }

    #[test]
    fn ties_with_the_winner_are_reported() {
        let libc = series("libc", &LIBC);
        let fast = series("hybrid", &LIBC.map(|v| v / 2.0));
        let tie = series("ticket", &[5.0, 5.4, 5.1, 5.9, 5.2, 5.5]);
        let verdict = told(&[&fast, &tie, &libc], &libc, false).unwrap();
        assert!(verdict.sentence.ends_with("No difference to ticket is certain."));
    }

    #[test]
    fn a_tie_goes_to_the_lock_that_starves_no_thread() {
        let libc = series("libc", &LIBC);
        let fast = series("test-and-set", &LIBC.map(|v| v / 2.0));
        let near = series("hybrid", &LIBC.map(|v| v / 1.92));
        let verdict = told(&[&fast, &near, &libc], &libc, false).unwrap();
        assert_eq!(verdict.lock.as_deref(), Some("hybrid"));
        assert!(verdict.sentence.contains("test-and-set came out 1.04x"), "{}", verdict.sentence);

        let far = series("hybrid", &LIBC.map(|v| v / 1.5));
        let verdict = told(&[&fast, &far, &libc], &libc, false).unwrap();
        assert_eq!(verdict.lock.as_deref(), Some("test-and-set"));
        assert!(verdict.sentence.contains("hybrid, which can't, is 0.750x"), "{verdict:?}");
    }

    #[test]
    fn where_nothing_waited_there_is_no_verdict() {
        let (libc, fast) = (series("libc", &LIBC), series("hybrid", &LIBC.map(|v| v / 2.0)));
        let (ranked, none, startup, higher_is_better) = ([&fast, &libc], None, None, false);
        let baseline = &libc;
        let judge = |waits| {
            let ranked = &ranked;
            judge(&Findings { ranked, baseline, none, startup, waits, higher_is_better }).unwrap()
        };
        assert_eq!(judge(Some(0)).lock, None);
        assert!(judge(Some(0)).sentence.contains("no thread waited"));
        for waits in [Some(1), None] {
            assert_eq!(judge(waits).lock.as_deref(), Some("hybrid"));
        }
    }

    #[test]
    fn what_preloading_costs_is_no_merit_of_libc() {
        let (libc, hybrid) = (series("libc", &LIBC), series("hybrid", &LIBC.map(|v| v * 1.3)));
        let judge = |none: &Series| {
            let (ranked, none) = (&[&libc, &hybrid][..], Some(none));
            let (baseline, startup, waits, higher_is_better) = (&libc, None, Some(9), false);
            judge(&Findings { ranked, baseline, none, startup, waits, higher_is_better }).unwrap()
        };
        let all_of_it = judge(&series("none", &LIBC.map(|v| v * 1.3)));
        assert_eq!(all_of_it.lock, None);
        assert!(all_of_it.sentence.contains("that is what preloading costs"), "{all_of_it:?}");
        let a_part = judge(&series("none", &LIBC.map(|v| v * 1.1)));
        assert_eq!(a_part.lock.as_deref(), Some("libc"));
    }
}
