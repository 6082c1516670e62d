//! The table that compares the simulator with the laboratory: points that a file of real vCPUs and
//! one of simulated ones, called `sim-` and the world's name, both have.

use serde_json::Value;

use super::{Kept, table, three};

/// Within this ratio, and its inverse, two figures agree.
const QUARTER: f64 = 1.25;
/// A point whose rounds differ by more than this factor can't be judged.
const SCATTER: f64 = 2.0;

/// A point in both worlds.
struct Point<'a> {
    real: &'a Value,
    /// The laboratory's median, and its best round over its worst.
    median: f64,
    scatter: f64,
    simulated: f64,
}

impl Point<'_> {
    fn ratio(&self) -> f64 {
        self.simulated / self.median
    }

    fn is_judged(&self) -> bool {
        self.scatter <= SCATTER
    }

    fn agrees(&self) -> bool {
        self.is_judged() && (1.0 / QUARTER..=QUARTER).contains(&self.ratio())
    }
}

/// The points of `world` that were also simulated.
fn points<'a>(kept: &'a [Kept], world: &str) -> Vec<Point<'a>> {
    let named = |name: &str| kept.iter().find(|file| file.0 == name);
    let (Some(real), Some(simulated)) = (named(world), named(&format!("sim-{world}"))) else {
        return Vec::new();
    };
    let point = |real: &'a Value| {
        let same =
            |other: &&Value| ["lock", "cpus", "cs_ns"].iter().all(|of| real[of] == other[of]);
        let other = simulated.of("point").find(same)?;
        let samples = real["samples"].as_array()?;
        let all: Vec<f64> =
            samples.iter().filter_map(|sample| sample["ops_per_s"].as_f64()).collect();
        let (least, most) =
            (all.iter().copied().reduce(f64::min)?, all.into_iter().reduce(f64::max)?);
        let median = real["ops_per_s"]["median"].as_f64()?;
        let simulated = other["ops_per_s"]["median"].as_f64()?;
        Some(Point { real, median, scatter: most / least, simulated })
    };
    real.of("point").filter_map(point).collect()
}

/// The share of points that agree, and how well both worlds agree on their order (Spearman).
fn summary(points: &[Point<'_>]) -> String {
    let agree = points.iter().filter(|point| point.agrees()).count();
    let wide = points.iter().filter(|point| !point.is_judged()).count();
    let ranks = |value: fn(&Point<'_>) -> f64| {
        let place = |one: &Point<'_>| points.iter().filter(|of| value(of) < value(one)).count();
        points.iter().map(place).collect::<Vec<_>>()
    };
    let (one, other) = (ranks(|point| point.median), ranks(|point| point.simulated));
    let squares: f64 = one.iter().zip(other).map(|(a, b)| (*a as f64 - b as f64).powi(2)).sum();
    let count = points.len() as f64;
    let rank = 1.0 - 6.0 * squares / (count * (count * count - 1.0)).max(1.0);
    let all = points.len();
    format!("**{agree} of {all} agree**, {wide} can't be judged; order {rank:.2}")
}

/// One row for each point.
pub(super) fn trust(kept: &[Kept]) -> String {
    let all = points(kept, "kvm");
    let rate = |value: f64| match value {
        1e6.. => format!("{} M", three(value / 1e6)),
        _ => format!("{} k", three(value / 1e3)),
    };
    let cells = |point: &Point<'_>| {
        let ratio = three(point.ratio());
        let verdict = match point.is_judged() {
            _ if point.agrees() => ratio,
            true => format!("**{ratio}**"),
            false => format!("({ratio})"),
        };
        vec![format!("{} ×{:.1}", rate(point.median), point.scatter), verdict]
    };
    let rows = all.iter().map(|point| {
        let row = point.real;
        let name = row["lock"].as_str().unwrap_or("?");
        let place = vec![format!("{} ns", row["cs_ns"]), row["cpus"].to_string(), name.into()];
        [place, cells(point)].concat()
    });
    let none = String::new;
    let last = (!all.is_empty()).then(|| vec!["all".into(), none(), none(), summary(&all), none()]);
    table(&["section", "vCPUs", "lock", "KVM", "ratio"], rows.chain(last))
}
