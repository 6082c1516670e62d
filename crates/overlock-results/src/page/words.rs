//! A sentence on what was measured, and on what makes it doubtful.

use crate::page::label::trimmed;
use crate::page::read::Recording;
use crate::row::Head;
use crate::stats::STEAL_LIMIT;
use crate::units::{counted, three, time, typed};
use std::ffi::OsStr;

pub(crate) fn command(head: &Head) -> Option<String> {
    let words: Vec<String> = head.command.iter().map(|word| typed(OsStr::new(word))).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

pub(crate) fn setting(run: &Recording) -> String {
    let Some(head) = &run.head else {
        return format!("{} does not record the machine and the command.", run.file);
    };
    let mut parts = Vec::new();
    let machine = &head.machine;
    let cpus = machine.cpus.map(|n| counted(n, "CPU"));
    let place = match (cpus, &machine.cpu_model) {
        (Some(cpus), Some(model)) => Some(format!("{cpus} of {model}")),
        (cpus, model) => cpus.or_else(|| model.clone()),
    };
    parts.extend(place.map(|place| format!("on {place}")));
    parts.extend(machine.kernel.as_ref().map(|kernel| format!("Linux {kernel}")));
    parts.extend(machine.hypervisor.as_ref().map(|name| format!("a guest of {name}")));
    parts.extend(head.version.as_ref().map(|version| format!("overlock {version}")));
    parts.extend(head.commit.as_ref().map(|commit| format!("commit {commit}")));
    parts.extend(head.seed.map(|seed| format!("seed {seed}")));
    let verb = if run.points.is_empty() {
        "Run"
    } else if is_simulated(run) {
        "Simulated"
    } else {
        "Measured"
    };
    format!("{verb} {}.", parts.join(", "))
}

/// Returns whether virtual time was all that a run measured: the machine then made no difference.
fn is_simulated(run: &Recording) -> bool {
    !run.points.is_empty() && run.points.iter().all(|point| point.world == "sim")
}

pub(crate) fn extent(run: &Recording) -> String {
    let mut parts = Vec::new();
    if !run.points.is_empty() {
        parts.push(counted(run.points.len(), "point"));
        let rounds = || run.points.iter().map(|point| point.samples.len());
        parts.push(match (rounds().min().unwrap_or(0), rounds().max().unwrap_or(0)) {
            (low, high) if low == high => counted(high, "round"),
            (low, high) => format!("{low} to {high} rounds"),
        });
        let seconds: Vec<f64> = run.points.iter().map(|point| point.seconds).collect();
        parts.extend(
            crate::stats::median(&seconds)
                .map(|s| format!("runs of about {}", trimmed(&time(1e9 * s)))),
        );
    }
    if !run.timelines.is_empty() {
        parts.push(counted(run.timelines.len(), "timeline"));
    }
    if parts.is_empty() { String::new() } else { format!("{}.", parts.join(", ")) }
}

pub(crate) fn coverage(run: &Recording) -> Option<String> {
    let measured = run.points.iter().filter(|point| !point.samples.is_empty());
    let mut all = measured.map(|point| point.interval_coverage);
    let first = all.next()?;
    let least = all.fold(first, f64::min);
    Some(if least < 0.005 {
        "With one round an interval means nothing.".into()
    } else {
        format!("Low to high covers the true median with {:.0} %.", 100.0 * least)
    })
}

pub(crate) fn doubts(run: &Recording) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(head) = &run.head {
        if head.commit.as_deref().is_some_and(|commit| commit.ends_with("-dirty")) {
            doubts.push("It was built from sources with uncommitted changes.".into());
        }
        if let (Some(load), Some(cpus)) = (head.machine.load_average, head.machine.cpus)
            && load > 0.5 * cpus as f64
            && !is_simulated(run)
        {
            let load = three(load);
            doubts.push(format!("The machine was busy when it began: load average {load}."));
        }
    }
    let steals = run.points.iter().map(|point| (point.steal, point));
    if let Some((steal, point)) = steals.max_by(|a, b| a.0.total_cmp(&b.0))
        && steal > STEAL_LIMIT
    {
        let share = three(100.0 * steal);
        doubts.push(format!(
            "The hypervisor took up to {share} % of the CPU time ({}).",
            point.series()
        ));
    }
    let few = run.points.iter().map(|point| point.samples.len()).min();
    if let Some(few @ 1..6) = few {
        let rounds = if few == 1 { "1 round is".into() } else { format!("{few} rounds are") };
        doubts.push(format!("{rounds} too few for intervals of 95 %; 6 are enough."));
    }
    doubts
}
