//! All runs in which the CPUs of scripts are taken away, at every step.

use crate::torture::plan::FaultPlan;
use crate::torture::run::{TortureReport, run};
use crate::torture::script::{SCRIPTS, Script};
use crate::torture::subject::Subject;

/// Takes each CPU of each script away at each of its steps, one run per step, and adds the
/// runs in which one is interrupted as well.
pub fn injections(subject: &'static Subject) -> impl Iterator<Item = (FaultPlan, TortureReport)> {
    let steps = roles(subject, |script| script.cpus).flat_map(move |(script, role)| {
        runs(subject, 0, move |step| FaultPlan::Inject { script, role, step, then: None })
    });
    steps.chain(pairs(subject))
}

/// Takes CPUs of the scripts with two faults away at each of their steps, and interrupts them at
/// each later step: one run per pair of steps.
fn pairs(subject: &'static Subject) -> impl Iterator<Item = (FaultPlan, TortureReport)> {
    roles(subject, Script::hit_twice).flat_map(move |(script, role)| {
        let rows = (0..).map_while(move |step| {
            let plan = move |then| FaultPlan::Inject { script, role, step, then: Some(then) };
            let mut row = runs(subject, step + 1, plan).peekable();
            row.peek().is_some_and(|(_, report)| report.injected).then_some(row)
        });
        rows.flatten()
    })
}

/// All scripts for a subject, each with the CPUs below `most`.
fn roles(
    subject: &'static Subject,
    most: fn(&Script) -> usize,
) -> impl Iterator<Item = (usize, usize)> {
    let scripts = SCRIPTS
        .iter()
        .enumerate()
        .filter(|(_, of)| of.fits(subject.is_mixed(), &subject.kind, subject.waits));
    scripts.flat_map(move |(script, of)| (0..most(of)).map(move |role| (script, role)))
}

/// Makes a run for each step from `first` on, until a run does not reach its step, or fails.
fn runs(
    subject: &'static Subject,
    first: u64,
    plan: impl Fn(u64) -> FaultPlan,
) -> impl Iterator<Item = (FaultPlan, TortureReport)> {
    let mut more = true;
    (first..).map_while(move |step| {
        let plan = plan(step);
        let report = more.then(|| run(subject, plan));
        more = report.as_ref().is_some_and(|report| report.injected && report.failure.is_none());
        report.map(|report| (plan, report))
    })
}
