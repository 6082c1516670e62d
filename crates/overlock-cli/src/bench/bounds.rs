//! Rows judged by the bounds, for people and as further rows.

use crate::output::{self, Sink};
use anyhow::Result;
use overlock_results::judge::check;
use overlock_results::row::{Check, Judgement, Limited, Row, Side};
use overlock_results::units::three;

fn line(check: &Check) -> String {
    let Check { bound, lock, place, limited, verdict, note } = check;
    let verdict = match verdict {
        Judgement::Met => "met    ",
        Judgement::Unclear => "unclear",
        Judgement::Missed => "MISSED ",
    };
    let of = lock.as_ref().map_or_else(String::new, |lock| format!(" of {lock}"));
    let limited = limited.as_ref().map_or_else(String::new, |Limited { side, limit, value }| {
        let side = match side {
            Side::AtLeast => "at least",
            Side::AtMost => "at most",
        };
        let [limit, median, low, high] = [*limit, value.median, value.low, value.high].map(three);
        format!(" {side} {limit}: {median} ({low}..{high})")
    });
    let note = note.as_ref().map_or_else(String::new, |note| format!("; {note}"));
    format!("  {verdict}  {bound}{of}{limited} at {place}{note}")
}

/// The checks that are not met, and how many of each there are.
pub(super) fn text(checks: &[Check]) -> String {
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let lines: String = checks
        .iter()
        .filter(|check| check.verdict != Judgement::Met)
        .map(|check| line(check) + "\n")
        .collect();
    format!(
        "Checks:\n{lines}  {} bounds met, {} unclear (inside the noise: use more --runs), {} missed",
        count(Judgement::Met),
        count(Judgement::Unclear),
        count(Judgement::Missed),
    )
}

/// Judges rows, whoever measured them. Returns whether no bound was missed; nothing if none is
/// about these rows.
pub(crate) fn judge(rows: &[Row], sink: &mut Sink) -> Result<Option<bool>> {
    let checks = check(rows);
    if checks.is_empty() {
        return Ok(None);
    }
    sink.people(&text(&checks))?;
    let (all, missed) =
        (checks.len(), checks.iter().filter(|of| of.verdict == Judgement::Missed).count());
    checks.into_iter().try_for_each(|check| sink.record(&Row::Check(check)))?;
    if missed > 0 {
        output::complain(&format!("overlock: {missed} of {all} bounds missed"));
    }
    Ok(Some(missed == 0))
}
