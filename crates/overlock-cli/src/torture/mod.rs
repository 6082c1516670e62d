//! `overlock torture`: the locks on a machine that takes CPUs away on purpose.

mod args;
mod series;
mod turns;

use crate::interrupt;
use crate::outcome::Outcome;
use crate::output::Sink;
use anyhow::{Result, bail, ensure};
use overlock_sim::{FaultPlan, Subject, run, subject, subjects};
use series::{Series, tell};
use turns::Torture;

pub(crate) use args::TortureArgs;

pub(crate) fn main(args: &TortureArgs) -> Result<Outcome> {
    let chosen = choose(&args.lock)?;
    let mut sink = Sink::open(args.json, args.out.as_deref())?;
    interrupt::watch()?;
    sink.begin(Some(args.seed))?;
    if let Some(plan) = args.replay {
        let [subject] = chosen[..] else {
            bail!("a run can be repeated only if its lock is named: add --lock NAME");
        };
        let outcome = repeat(subject, plan, &mut sink)?;
        return sink.end(outcome);
    }
    let mut torture = Torture::new(args, chosen);
    torture.inject(&mut sink)?;
    torture.random(&mut sink)?;
    let is_fine = torture.end(&mut sink)?;
    sink.end(match is_fine {
        false => Outcome::CheckFailed,
        true if interrupt::seen() && args.span.is_some() => Outcome::Interrupted,
        true => Outcome::Fine,
    })
}

/// Returns the locks of that name; deliberately broken ones only by their full name.
fn choose(names: &[String]) -> Result<Vec<&'static Subject>> {
    let good = || subjects().filter(|subject| subject.known_bad.is_empty());
    let mut chosen: Vec<&'static Subject> = Vec::new();
    for name in names {
        let named: Vec<_> = match name.as_str() {
            "all" => good().collect(),
            _ => subject(name).into_iter().collect(),
        };
        if named.is_empty() {
            let known: Vec<_> = good().map(|subject| subject.name).collect();
            bail!("there is no lock '{name}'; choose from {} (or all)", known.join(", "));
        }
        for subject in named {
            if chosen.iter().all(|other| other.name != subject.name) {
                chosen.push(subject);
            }
        }
    }
    Ok(chosen)
}

/// Runs one plan again, twice, to check that it repeats.
fn repeat(subject: &'static Subject, plan: FaultPlan, sink: &mut Sink) -> Result<Outcome> {
    let report = run(subject, plan);
    ensure!(
        report == run(subject, plan),
        "two runs of {plan} differ, which must not happen: please report this as a bug of overlock-sim"
    );
    let mut series = Series::new(subject);
    series.add(plan, &report);
    tell(subject, plan, &report, sink)?;
    sink.record(&series.row())?;
    if report.failure.is_some() {
        return Ok(Outcome::CheckFailed);
    }
    let (steps, acquisitions) = (report.steps, report.acquisitions);
    sink.people(&format!(
        "{}: {plan} is fine: {steps} steps, {acquisitions} acquisitions, hash {:#x}",
        subject.name, report.hash
    ))?;
    Ok(Outcome::Fine)
}
