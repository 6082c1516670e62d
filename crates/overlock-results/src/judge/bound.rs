//! The one judge. A bound is missed only if the whole interval lies on the wrong side. If the
//! median misses it and the interval doesn't, the bound is *unclear*: it needs more rounds, and it
//! doesn't fail the check.

use crate::row::{Judgement, Side};
use crate::stats::Interval;

pub(crate) fn judge(value: Interval, side: Side, limit: f64) -> Judgement {
    let (median_meets, some_meet) = match side {
        Side::AtLeast => (value.median >= limit, value.high >= limit),
        Side::AtMost => (value.median <= limit, value.low <= limit),
    };
    match (median_meets, some_meet) {
        (true, _) => Judgement::Met,
        (false, true) => Judgement::Unclear,
        (false, false) => Judgement::Missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_interval_on_the_wrong_side_misses() {
        let value = Interval { median: 1.0, low: 0.9, high: 1.2 };
        for (side, limit, verdict) in [
            (Side::AtLeast, 1.0, Judgement::Met),
            (Side::AtLeast, 1.1, Judgement::Unclear),
            (Side::AtLeast, 1.3, Judgement::Missed),
            (Side::AtMost, 1.0, Judgement::Met),
            (Side::AtMost, 0.95, Judgement::Unclear),
            (Side::AtMost, 0.8, Judgement::Missed),
        ] {
            assert_eq!(judge(value, side, limit), verdict, "{side:?} {limit}");
        }
    }
}
