// SPDX-License-Identifier: MIT OR Apache-2.0
//! What-if: how far can a host be overcommitted before throughput or the tail of waits suffers?

use overlock_world::row::{Point, WhatIf};
use overlock_world::units::{three, time};

/// How many times as long as with one vCPU for each pCPU the 99.9th percentile of waits may be.
pub const TAIL: f64 = 10.0;

fn p999(point: &Point) -> f64 {
    point.wait_ns.map_or(0.0, |waits| waits.p999 as f64)
}

fn of_1x(point: &Point) -> f64 {
    point.of_1x.map_or(0.0, |ratio| ratio.median)
}

/// Answers for the lock and policy of `base`, which has one vCPU for each pCPU, among `points`.
#[must_use]
pub fn answer(loss: f64, base: &Point, points: &[Point]) -> WhatIf {
    let alike = |point: &&Point| {
        let key = |of: &Point| (of.lock.clone(), of.policy.clone(), of.timer.clone());
        key(point) == key(base) && point.takes_turns_with(base) && point.cpus >= base.cpus
    };
    let mut tried: Vec<&Point> = points.iter().filter(alike).collect();
    tried.sort_by_key(|point| point.cpus);
    let fails = |point: &Point| fails(loss, point, base);
    let within = tried.iter().take_while(|point| fails(point).is_none()).last();
    let next = tried.iter().find_map(|point| Some((point.cpus?, fails(point)?)));
    let cpus = within.and_then(|point| point.cpus);
    let within = *within.unwrap_or(&base);
    let pcpus = base.pcpus.unwrap_or(1);
    WhatIf {
        workload: base.workload.clone(),
        cs_ns: base.cs_ns.unwrap_or(0),
        ncs_ns: base.ncs_ns.unwrap_or(0),
        lock: base.lock.clone(),
        policy: base.policy.clone(),
        pcpus,
        loss,
        cpus,
        overcommit: cpus.map(|cpus| f64::from(cpus) / f64::from(pcpus)),
        of_1x: of_1x(within),
        p999_ns: p999(within).round() as u64,
        fails_at: next.as_ref().map(|(cpus, _)| *cpus),
        fails_by: next.map(|(_, why)| why),
    }
}

/// Explains why a point is out of bounds; returns nothing if it is not.
fn fails(loss: f64, point: &Point, base: &Point) -> Option<String> {
    if point.cpus > base.cpus && of_1x(point) < 1.0 - loss {
        Some(format!("throughput {} of 1x", three(of_1x(point))))
    } else if p999(point) > TAIL * p999(base) {
        Some(format!("p99.9 {}", time(p999(point))))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlock_world::WaitNs;
    use overlock_world::stats::Interval;

    fn point(cpus: u32, ratio: f64, p999: u64) -> Point {
        Point {
            cpus: Some(cpus),
            pcpus: Some(2),
            of_1x: Interval::of(&[ratio]),
            wait_ns: Some(WaitNs { p999, ..WaitNs::default() }),
            ..Point::default()
        }
    }

    #[test]
    fn the_first_bound_that_does_not_hold_ends_the_climb() {
        let points =
            [point(2, 1.0, 100), point(4, 0.95, 900), point(8, 0.7, 900), point(16, 1.0, 9)];
        let answer = answer(0.2, &points[0], &points);
        assert_eq!((answer.cpus, answer.fails_at), (Some(4), Some(8)));
        assert_eq!(answer.fails_by.as_deref(), Some("throughput 0.700 of 1x"));
        let points = [point(2, 1.0, 100), point(4, 1.0, 1_001)];
        let tail = super::answer(0.2, &points[0], &points);
        assert_eq!((tail.cpus, tail.fails_at), (Some(2), Some(4)));
    }
}
