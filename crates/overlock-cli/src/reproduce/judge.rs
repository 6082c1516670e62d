// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a simulated figure agrees with the published one, and how that is shown.

use crate::sim::Record;
use crate::stats::Interval;
use crate::table::Table;
use crate::units::three;
use overlock_world::experiment::Published;
use serde::Serialize;

/// Differences below this count as none, unless the published figure varied by more.
const NOISE: f64 = 0.02;
/// Effects that differ by a factor below this agree roughly.
const ROUGH: f64 = 1.25;

/// The name of the simulator's world in records.
pub(super) const SIMULATED: &str = "sim";

/// The share of CPU time in reads of the PM timer; without that of the lock-free rule, it is the
/// time for which readers wait for each other.
pub(super) const TIMER_WAIT_SHARE: &str = "timer_wait_share";

/// The known figures, by name.
pub(super) const FIGURES: [&str; 6] =
    ["ops_per_s", "jain", "least_served", "most_served", "unfair_share", TIMER_WAIT_SHARE];

/// Returns the value of a figure without any effect: 1 for spreads, 0 for shares.
fn neutral(figure: &str) -> f64 {
    if ["jain", "least_served", "most_served"].contains(&figure) { 1.0 } else { 0.0 }
}

/// Returns one figure in every round of a workload with `sections` critical sections per operation.
pub(super) fn values(records: &[&Record], sections: u32, figure: &str) -> Option<Vec<f64>> {
    let of: fn(&Record) -> f64 = match figure {
        "ops_per_s" => |r| r.ops_per_s,
        "jain" => |r| r.jain,
        "least_served" => |r| r.ops_per_cpu.min as f64 / r.ops_per_cpu.avg.max(1.0),
        "most_served" => |r| r.ops_per_cpu.max as f64 / r.ops_per_cpu.avg.max(1.0),
        "unfair_share" => |r| {
            let overtook = r.counters.get("pv_lock_stealing").copied().unwrap_or(0) as f64;
            overtook / (r.ops_per_s * r.seconds).max(1.0)
        },
        TIMER_WAIT_SHARE => |r| r.timer_cpu_s_per_s / r.cpu_s_per_s.max(f64::MIN_POSITIVE),
        _ => return None,
    };
    let each = if figure == "unfair_share" { f64::from(sections.max(1)) } else { 1.0 };
    Some(records.iter().map(|record| of(record) / each).collect())
}

/// Whether two figures agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Agreement {
    Yes,
    No,
    /// There is no published figure.
    Open,
}

impl Agreement {
    const fn of(agrees: bool) -> Self {
        if agrees { Self::Yes } else { Self::No }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "NO",
            Self::Open => "-",
        }
    }
}

/// Where our figure was measured.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct At {
    pub(super) world: &'static str,
    pub(super) ours_cpus: u32,
    pub(super) ours_pcpus: u32,
}

/// A published figure beside ours.
#[derive(Debug, Serialize)]
pub(super) struct Judged<'a> {
    kind: &'static str,
    experiment: &'a str,
    #[serde(flatten)]
    at: At,
    #[serde(flatten)]
    published: &'a Published,
    /// The published figure in the form of ours: over its base, if it has one; more is better.
    published_ratio: Option<f64>,
    /// The effect that it shows: see [`effect`].
    published_effect: Option<f64>,
    ours: Interval,
    ours_effect: f64,
    direction: Agreement,
    /// Whether the effects are equally large, to within a quarter.
    size: Agreement,
}

/// Returns the effect that a figure shows: its distance from the value without any effect. For
/// ratios, that is a gain or a loss.
fn effect(published: &Published, value: f64) -> f64 {
    value - if published.over.is_some() { 1.0 } else { neutral(&published.figure) }
}

/// Returns whether two effects are equally large: both within the noise, or roughly.
fn as_large(theirs: f64, ours: f64, noise: f64) -> bool {
    let ratio = ours / theirs;
    theirs.abs().max(ours.abs()) <= noise || ratio > 1.0 / ROUGH && ratio < ROUGH
}

impl<'a> Judged<'a> {
    pub(super) fn new(
        experiment: &'a str,
        at: At,
        published: &'a Published,
        ours: Vec<f64>,
    ) -> Self {
        let zero = Interval { median: 0.0, low: 0.0, high: 0.0 };
        let ours = Interval::of(&ours).unwrap_or(zero);
        let theirs = published.ratio();
        let ours_effect = effect(published, ours.median);
        let published_effect = theirs.map(|theirs| effect(published, theirs));
        let (direction, size) = match published_effect {
            None => (Agreement::Open, Agreement::Open),
            Some(theirs) => {
                let noise = NOISE.max(published.noise_percent / 100.0);
                let direction = match published.over {
                    Some(_) => Agreement::of(side(theirs, noise) == side(ours_effect, noise)),
                    // A share or a spread without a base has no direction.
                    None => Agreement::Open,
                };
                (direction, Agreement::of(as_large(theirs, ours_effect, noise)))
            }
        };
        Self {
            kind: "reproduced",
            experiment,
            at,
            published,
            published_ratio: theirs,
            published_effect,
            ours_effect,
            ours,
            direction,
            size,
        }
    }

    pub(super) const fn published_effect(&self) -> Option<f64> {
        self.published_effect
    }

    pub(super) const fn direction(&self) -> Agreement {
        self.direction
    }

    pub(super) const fn size(&self) -> Agreement {
        self.size
    }

    /// Describes what is compared.
    fn what(&self) -> String {
        let Published { lock, policy, timer, figure, .. } = self.published;
        let mut own = vec![];
        let mut base = vec![];
        let over = self.published.over.as_ref();
        match timer {
            Some(timer) => own.push(timer.name().to_owned()),
            None => own.push(lock.clone()),
        }
        if policy != "none" {
            own.push(policy.clone());
        }
        if let Some(over) = over {
            base.extend(over.lock.clone());
            base.extend(over.policy.clone());
            base.extend(over.timer.map(|timer| timer.name().to_owned()));
            base.extend(over.cpus.map(|cpus| format!("{cpus} vCPUs")));
            base.extend(over.seq_cst.then(|| "all sequentially consistent".to_owned()));
        }
        let over =
            if base.is_empty() { String::new() } else { format!(" over {}", base.join(", ")) };
        format!("{figure}: {}{over}", own.join(", "))
    }
}

/// Returns whether an effect is a gain, a loss, or neither.
fn side(effect: f64, noise: f64) -> i8 {
    i8::from(effect > noise) - i8::from(effect < -noise)
}

/// Formats an effect for people.
fn percent(effect: f64) -> String {
    format!("{:+.1} %", 100.0 * effect)
}

/// The table and the notes of an experiment in one world.
pub(super) fn table(heading: &str, judged: &[Judged]) -> String {
    let mut table = Table::new(&[
        "figure",
        "vCPUs",
        "published",
        "ours",
        "low",
        "high",
        "effect, theirs",
        "ours",
        "direction",
        "size",
        "raw",
    ]);
    for one in judged {
        let published = one.published;
        let unit = published.unit.as_deref().unwrap_or("");
        let base = published.over.as_ref().and_then(|over| over.value);
        let raw = match (published.value, base) {
            (Some(value), Some(base)) => format!("{value} against {base} {unit}"),
            _ => String::new(),
        };
        let think = published.think_ns.map(|ns| format!(", {ns} ns apart")).unwrap_or_default();
        table.row(vec![
            format!("{}{think}", one.what()),
            one.at.ours_cpus.to_string(),
            one.published_ratio.map_or_else(|| "-".into(), three),
            three(one.ours.median),
            three(one.ours.low),
            three(one.ours.high),
            one.published_effect.map_or_else(|| "-".into(), percent),
            percent(one.ours_effect),
            one.direction.name().into(),
            one.size.name().into(),
            raw,
        ]);
    }
    let mut text = format!("{heading}\n\n{table}");
    let mut told: Vec<&str> = Vec::new();
    // The notes are about the model.
    let simulated = judged.iter().filter(|one| one.at.world == SIMULATED);
    for note in simulated.filter_map(|one| one.published.note.as_deref()) {
        if !told.contains(&note) {
            told.push(note);
            text += &format!("  note: {note}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlock_world::experiment::Experiment;

    fn published(value: f64, base: f64, less: bool) -> Published {
        let less = if less { "true" } else { "false" };
        let text = format!(
            "about = ''\nsource = ''\nworkload = 'micro'\n[factors]\nlocks = ['ticket', 'queued']\n\
             cpus = [1]\n[[published]]\nlock = 'ticket'\ncpus = 1\nfigure = 'ops_per_s'\n\
             value = {value}\nless_is_better = {less}\nsource = ''\n\
             over = {{ lock = 'queued', value = {base} }}"
        );
        Experiment::parse("mine", &text).unwrap().published.remove(0)
    }

    #[test]
    fn direction_and_size_are_judged_apart() {
        use Agreement::{No, Yes};
        for (value, base, less, ours, direction, size) in [
            (120.0, 100.0, false, 1.22, Yes, Yes),
            (120.0, 100.0, false, 1.3, Yes, No),
            (120.0, 100.0, false, 0.99, No, No),
            (100.0, 120.0, true, 1.18, Yes, Yes),
            (120.0, 100.0, true, 0.84, Yes, Yes),
            (120.0, 100.0, true, 0.95, Yes, No),
            (120.0, 100.0, true, 1.2, No, No),
            (100.1, 100.0, false, 1.01, Yes, Yes),
            (100.1, 100.0, false, 1.05, No, No),
            // Two points apart, but beyond the noise, and not equally large.
            (105.0, 100.0, false, 1.07, Yes, No),
            (103.0, 100.0, false, 1.015, No, No),
            // Ratios within a quarter of each other, and yet 4 % is not 16 %.
            (104.0, 100.0, false, 1.16, Yes, No),
            // Nor is three times as good the same as twice as good.
            (300.0, 100.0, false, 2.0, Yes, No),
            (300.0, 100.0, false, 2.8, Yes, Yes),
            (50.0, 100.0, false, 0.48, Yes, Yes),
            (50.0, 100.0, false, 0.30, Yes, No),
            (50.0, 100.0, false, 2.0, No, No),
        ] {
            let published = published(value, base, less);
            let judged = Judged::new("mine", At::default(), &published, vec![ours]);
            assert_eq!((judged.direction, judged.size), (direction, size), "{judged:?}");
        }
    }

    #[test]
    fn spreads_are_judged_by_their_distance_from_one_and_shares_from_zero() {
        use Agreement::{No, Open, Yes};
        for (figure, value, ours, size) in [
            ("least_served", 0.93, 0.92, Yes),
            ("least_served", 0.93, 0.80, No),
            ("most_served", 1.20, 1.23, Yes),
            ("most_served", 1.20, 1.38, No),
            ("unfair_share", 0.58, 0.51, Yes),
            ("unfair_share", 0.03, 0.35, No),
        ] {
            let figure = figure.to_owned();
            let alone =
                Published { figure, over: None, value: Some(value), ..published(1.0, 1.0, false) };
            let judged = Judged::new("mine", At::default(), &alone, vec![ours]);
            assert_eq!((judged.direction, judged.size), (Open, size), "{judged:?}");
        }
    }

    #[test]
    fn unpublished_figures_are_open_and_unknown_ones_are_none() {
        let open = Published { value: None, ..published(1.0, 1.0, false) };
        let judged = Judged::new("mine", At::default(), &open, vec![2.0]);
        assert_eq!((judged.direction, judged.size), (Agreement::Open, Agreement::Open));
        assert!(values(&[], 1, "luck").is_none());
    }
}
