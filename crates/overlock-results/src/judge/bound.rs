//! The one judge. A bound is missed only if the whole interval lies on the wrong side. If the
//! median misses it and the interval doesn't, the bound is *unclear*: it needs more rounds, and it
//! doesn't fail the check.

use crate::row::{Side, Verdict};
use crate::stats::Interval;

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
