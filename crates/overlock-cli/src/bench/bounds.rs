// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one judge. A bound is missed only if the whole interval lies on the wrong side. If the
//! median misses it and the interval doesn't, the bound is *unclear*: it needs more rounds, and it
//! doesn't fail the check.

use crate::output::{self, Sink};
use anyhow::Result;
use overlock_world::row::{Check, Row, Side, Verdict};
use overlock_world::stats::Interval;
use overlock_world::units::three;

/// Judges a value by its interval.
pub(super) fn judge(value: Interval, side: Side, limit: f64) -> Verdict {
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

fn line(check: &Check) -> String {
    let Check { bound, lock, place, side, limit, value, verdict, note } = check;
    let verdict = match verdict {
        Verdict::Met => "met    ",
        Verdict::Unclear => "unclear",
        Verdict::Missed => "MISSED ",
    };
    let side = match side {
        Side::AtLeast => "at least",
        Side::AtMost => "at most",
    };
    let of = lock.as_ref().map_or_else(String::new, |lock| format!(" of {lock}"));
    let [limit, median, low, high] = [*limit, value.median, value.low, value.high].map(three);
    let note = note.as_ref().map_or_else(String::new, |note| format!("; {note}"));
    format!("  {verdict}  {bound}{of} {side} {limit}: {median} ({low}..{high}) at {place}{note}")
}

/// Prints the checks that are not met, and how many of each there are; returns whether none was
/// missed.
pub(super) fn tell(checks: &[Check], sink: &mut Sink) -> Result<bool> {
    let mut lines = vec!["Checks:".to_owned()];
    for check in checks {
        sink.row(&Row::Check(check.clone()))?;
        if check.verdict != Verdict::Met {
            lines.push(line(check));
        }
    }
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let missed = count(Verdict::Missed);
    lines.push(format!(
        "  {} bounds met, {} unclear (inside the noise: use more --runs), {missed} missed",
        count(Verdict::Met),
        count(Verdict::Unclear),
    ));
    sink.people(&lines.join("\n"))?;
    if missed > 0 {
        output::complain(&format!("overlock: {missed} of {} bounds missed", checks.len()));
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
