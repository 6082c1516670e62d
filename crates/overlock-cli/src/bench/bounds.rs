// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the checks came to, for people.

use crate::output::{self, Sink};
use anyhow::Result;
use overlock_world::row::{Check, Row, Side, Verdict};
use overlock_world::units::three;

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
