// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds on the results: `--check`.
//!
//! A bound is missed only if the whole interval lies on the wrong side. If the median misses it and
//! the interval doesn't, the bound is *unclear*: it needs more rounds, and it doesn't fail the
//! check.

use crate::output::{self, Sink};
use crate::stats::Interval;
use anyhow::Result;
use serde::Serialize;
use std::fmt;

/// The side of its limit on which a value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    AtLeast,
    AtMost,
}

/// The outcome of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Met,
    Unclear,
    Missed,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::AtLeast => "at least",
            Side::AtMost => "at most",
        })
    }
}

impl fmt::Display for Verdict {
    /// Pads all to the same width.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Met => "met    ",
            Verdict::Unclear => "unclear",
            Verdict::Missed => "MISSED ",
        })
    }
}

/// Judges a value by its interval.
pub(crate) fn judge(value: Interval, side: Side, limit: f64) -> Verdict {
    let (median_meets, some_meet) = match side {
        Side::AtLeast => (value.median >= limit, value.high >= limit),
        Side::AtMost => (value.median <= limit, value.low <= limit),
    };
    match (median_meets, some_meet) {
        (true, _) => Verdict::Met,
        (false, true) => Verdict::Unclear,
        (false, false) => Verdict::Missed,
    }
}

/// Appends the counts of `verdicts` to the table's `lines` and prints everything; returns whether
/// no bound was missed.
pub(crate) fn conclude(
    mut lines: Vec<String>,
    verdicts: impl Iterator<Item = Verdict> + Clone,
    sink: &mut Sink,
) -> Result<bool> {
    let count = |verdict| verdicts.clone().filter(|other| *other == verdict).count();
    let missed = count(Verdict::Missed);
    lines.push(format!(
        "  {} bounds met, {} unclear (inside the noise: use more --runs), {missed} missed",
        count(Verdict::Met),
        count(Verdict::Unclear),
    ));
    sink.people(&lines.join("\n"))?;
    if missed > 0 {
        output::complain(&format!("overlock: {missed} of {} bounds missed", verdicts.count()));
    }
    Ok(missed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_interval_on_the_wrong_side_misses() {
        let value = Interval { median: 1.0, low: 0.9, high: 1.2 };
        for (side, limit, verdict) in [
            (Side::AtLeast, 1.0, Verdict::Met),
            (Side::AtLeast, 1.1, Verdict::Unclear),
            (Side::AtLeast, 1.3, Verdict::Missed),
            (Side::AtMost, 1.0, Verdict::Met),
            (Side::AtMost, 0.95, Verdict::Unclear),
            (Side::AtMost, 0.8, Verdict::Missed),
        ] {
            assert_eq!(judge(value, side, limit), verdict, "{side:?} {limit}");
        }
    }
}
