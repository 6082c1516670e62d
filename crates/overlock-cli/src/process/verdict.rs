// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lock suits the program, and whether the figures are good enough to say so.

use super::trial::Sample;
use crate::stats::{self, CONFIDENCE, Interval};
use crate::units::three;
use serde::Serialize;

/// One lock: `samples[i]` is from round `i`.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) lock: String,
    pub(crate) samples: Vec<Sample>,
    /// So bad that it was left out after a few rounds.
    pub(crate) hopeless: bool,
}

impl Series {
    pub(crate) fn new(lock: &str) -> Self {
        Series { lock: lock.to_owned(), samples: Vec::new(), hopeless: false }
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

    /// How many times better than `other` this lock is, round by round: above 1 is better.
    pub(crate) fn better_than(&self, other: &Series, higher_is_better: bool) -> Option<Interval> {
        Interval::of(&self.better_than_values(&other.values(), higher_is_better))
    }

    /// The ratios themselves.
    pub(crate) fn better_than_values(&self, other: &[f64], higher_is_better: bool) -> Vec<f64> {
        let rounds = self.samples.iter().zip(other);
        let ratios = rounds.map(|(own, other)| own.value / other);
        ratios.map(|ratio| if higher_is_better { ratio } else { 1.0 / ratio }).collect()
    }
}

/// What is known in the end.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    kind: &'static str,
    /// The lock to use; nothing if that would be a guess.
    pub(crate) lock: Option<String>,
    pub(crate) sentence: String,
}

/// Judges `ranked` (the best first) against `baseline`, one of them.
pub(crate) fn judge(
    ranked: &[&Series],
    baseline: &Series,
    higher_is_better: bool,
) -> Option<Verdict> {
    let rounds = baseline.samples.len();
    let verdict = |lock: Option<&str>, sentence| {
        let lock = lock.map(str::to_owned);
        Some(Verdict { kind: "verdict", lock, sentence })
    };
    let best = ranked.first().filter(|_| ranked.len() > 1)?;
    let rivals = || ranked.iter().filter(|series| series.lock != best.lock);
    let figures = || ranked.iter().flat_map(|series| series.values());
    if rounds > 1 && figures().zip(figures().skip(1)).all(|(one, next)| one == next) {
        return verdict(
            None,
            format!(
                "No verdict: the figure was {} in every run under every lock, so it does not \
                 depend on the lock; read another, or compare wall time.",
                three(best.values()[0])
            ),
        );
    }
    if stats::coverage(rounds) < CONFIDENCE {
        return verdict(
            None,
            format!(
                "No verdict: {rounds} round{} too few; 6 or more can tell.",
                if rounds == 1 { " is" } else { "s are" }
            ),
        );
    }
    let over = |other: &Series| best.better_than(other, higher_is_better);
    let against = if best.lock == baseline.lock { rivals().next()? } else { baseline };
    let ratio = over(against)?;
    let figures = format!("{}x ({}..{})", three(ratio.median), three(ratio.low), three(ratio.high));
    if ratio.includes(1.0) {
        return verdict(
            None,
            format!(
                "No verdict: {} came out {figures} as good as {}, and that could be noise; more \
                 --runs or longer runs are needed.",
                best.lock, against.lock
            ),
        );
    }
    let ties: Vec<&str> = rivals()
        .filter(|other| other.lock != baseline.lock)
        .filter(|other| over(other).is_some_and(|ratio| ratio.includes(1.0)))
        .map(|other| other.lock.as_str())
        .collect();
    let mut sentence = if best.lock == baseline.lock {
        format!("Keep {}: it is {figures} as good as the next, {}.", best.lock, against.lock)
    } else {
        format!("Use {}: it is {figures} as good as {}.", best.lock, baseline.lock)
    };
    if !ties.is_empty() && best.lock != baseline.lock {
        sentence += &format!(" No difference to {} is certain.", ties.join(", "));
    }
    verdict(Some(&best.lock), sentence)
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

    const LIBC: [f64; 6] = [10.0, 11.0, 10.0, 12.0, 10.0, 11.0];

    #[test]
    fn a_clear_winner_is_named() {
        let (libc, fast) = (series("libc", &LIBC), series("hybrid", &LIBC.map(|v| v / 2.0)));
        let verdict = judge(&[&fast, &libc], &libc, false).unwrap();
        assert_eq!(verdict.lock.as_deref(), Some("hybrid"));
        assert!(verdict.sentence.contains("2.00x (2.00..2.00)"), "{}", verdict.sentence);
    }

    #[test]
    fn ratios_are_paired_so_common_noise_cancels() {
        let noisy = [10.0, 30.0, 20.0, 70.0, 15.0, 90.0];
        let (libc, fast) = (series("libc", &noisy), series("hybrid", &noisy.map(|v| v * 0.98)));
        let verdict = judge(&[&fast, &libc], &libc, false).unwrap();
        assert_eq!(verdict.lock.as_deref(), Some("hybrid"));
    }

    #[test]
    fn inside_the_noise_there_is_no_verdict() {
        let other = series("hybrid", &[9.0, 12.0, 9.5, 12.5, 9.0, 10.5]);
        let libc = series("libc", &LIBC);
        let verdict = judge(&[&other, &libc], &libc, false).unwrap();
        assert_eq!(verdict.lock, None);
        assert!(verdict.sentence.starts_with("No verdict"), "{}", verdict.sentence);
    }

    #[test]
    fn a_figure_that_never_varies_is_no_noise() {
        let (libc, other) = (series("libc", &[3.0; 2]), series("hybrid", &[3.0; 2]));
        let verdict = judge(&[&libc, &other], &libc, false).unwrap();
        assert_eq!(verdict.lock, None);
        assert!(verdict.sentence.contains("3.00 in every run"), "{}", verdict.sentence);
    }

    #[test]
    fn few_rounds_are_never_enough() {
        let (libc, fast) = (series("libc", &LIBC[..5]), series("hybrid", &[1.0; 5]));
        let verdict = judge(&[&fast, &libc], &libc, false).unwrap();
        assert_eq!(verdict.lock, None);
        assert!(verdict.sentence.contains("too few"));
    }

    #[test]
    fn the_baseline_may_win_and_higher_may_be_better() {
        let (libc, slow) = (series("libc", &LIBC), series("hybrid", &LIBC.map(|v| v / 3.0)));
        let verdict = judge(&[&libc, &slow], &libc, true).unwrap();
        assert_eq!(verdict.lock.as_deref(), Some("libc"));
        assert!(verdict.sentence.starts_with("Keep libc: it is 3.00x"), "{}", verdict.sentence);
    }

    #[test]
    fn ties_with_the_winner_are_told() {
        let libc = series("libc", &LIBC);
        let fast = series("hybrid", &LIBC.map(|v| v / 2.0));
        let tie = series("ticket", &[5.0, 5.4, 5.1, 5.9, 5.2, 5.5]);
        let verdict = judge(&[&fast, &tie, &libc], &libc, false).unwrap();
        assert!(verdict.sentence.ends_with("No difference to ticket is certain."));
    }
}
