// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock torture`: the locks on a machine that takes CPUs away on purpose.
//!
//! Locks take turns of a tenth of a second, so that each has had its share whenever the torture
//! ends. A lock that fails is dropped; the others go on.

mod args;
mod series;

use crate::flags::OutputArgs;
use crate::interrupt;
use crate::machine::observe;
use crate::outcome::Outcome;
use crate::output;
use crate::output::Sink;
use crate::table::Table;
use crate::units::count;
use anyhow::{Result, bail, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use overlock_sim::{Fault, Plan, Report, Subject, injections, run, seed_of, subject, subjects};
use overlock_world::clock::Stamps;
use overlock_world::row::{Head, Row};
use series::{FailureRecord, Series, replay};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

pub(crate) use args::TortureArgs;

/// How long one lock is tortured before the next one's turn.
const TURN: Duration = Duration::from_millis(100);

/// Runs the sub-command.
pub(crate) fn main(args: &TortureArgs) -> Result<Outcome> {
    let chosen = choose(&args.lock)?;
    let output = OutputArgs { json: args.json, out: args.out.clone() };
    let mut sink = Sink::open(&output)?;
    interrupt::watch()?;
    let machine = observe(&Stamps::calibrate());
    sink.row(&Row::Run(Head { seed: Some(args.seed), machine, ..output::head() }))?;
    if let Some(plan) = args.replay {
        let [subject] = chosen[..] else {
            bail!("a run can be repeated only if its lock is named: add --lock NAME");
        };
        let outcome = repeat(subject, plan, &mut sink)?;
        return sink.end(outcome);
    }
    let mut torture = Torture {
        args,
        began: Instant::now(),
        live: live(),
        all: chosen.into_iter().map(Series::new).collect(),
    };
    torture.inject(&mut sink)?;
    torture.random(&mut sink)?;
    torture.live.finish_and_clear();
    for series in &torture.all {
        sink.record(&series.record())?;
    }
    sink.people(&torture.summary())?;
    let failed = torture.all.iter().any(|series| series.failed);
    sink.end(match failed {
        true => Outcome::CheckFailed,
        false if interrupt::seen() && args.span.is_some() => Outcome::Interrupted,
        false => Outcome::Fine,
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
fn repeat(subject: &'static Subject, plan: Plan, sink: &mut Sink) -> Result<Outcome> {
    let report = run(subject, plan);
    ensure!(
        report == run(subject, plan),
        "two runs of {plan} differ, which must not happen: please report this as a bug of overlock-sim"
    );
    let mut series = Series::new(subject);
    series.add(plan, &report);
    tell(subject, plan, &report, sink)?;
    sink.record(&series.record())?;
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

/// Prints a failure, if there is one.
fn tell(subject: &'static Subject, plan: Plan, report: &Report, sink: &mut Sink) -> Result<()> {
    let Some(failure) = &report.failure else { return Ok(()) };
    sink.record(&FailureRecord::new(subject, plan, report, failure))?;
    sink.people(&format!(
        "{} fails: {failure}\n  run {plan}, last events:\n{}\n  repeat it with: {}\n",
        subject.name,
        report.trace.join("\n"),
        replay(subject, plan)
    ))
}

fn live() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_draw_target(if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    });
    let style = ProgressStyle::with_template("{spinner} {elapsed_precise}  {wide_msg}");
    bar.with_style(style.expect("the template is a constant that is valid"))
}

/// A torture under way.
struct Torture<'a> {
    args: &'a TortureArgs,
    began: Instant,
    live: ProgressBar,
    all: Vec<Series>,
}

impl Torture<'_> {
    /// Returns whether the torture has to end.
    fn is_over(&self) -> bool {
        interrupt::seen()
            || self.args.span.is_some_and(|span| self.began.elapsed() >= span)
            || self.all.iter().all(|series| series.failed)
    }

    /// Takes every CPU of every script away at every step.
    fn inject(&mut self, sink: &mut Sink) -> Result<()> {
        for index in 0..self.all.len() {
            let began = Instant::now();
            for (plan, report) in injections(self.all[index].subject) {
                self.add(index, plan, &report, sink)?;
                if self.is_over() || self.all[index].failed {
                    break;
                }
            }
            self.all[index].spent += began.elapsed();
        }
        Ok(())
    }

    /// Runs random worlds until the torture has to end.
    fn random(&mut self, sink: &mut Sink) -> Result<()> {
        let cpus = self.args.cpus.and_then(|cpus| usize::try_from(cpus).ok());
        let mut next = vec![0; self.all.len()];
        while !self.is_over() {
            for (index, next) in next.iter_mut().enumerate() {
                let began = Instant::now();
                while began.elapsed() < TURN && !self.is_over() && !self.all[index].failed {
                    let seed = seed_of(self.args.seed, *next);
                    *next += 1;
                    let plan = Plan::Random { seed, steps: self.args.steps, cpus };
                    let report = run(self.all[index].subject, plan);
                    self.add(index, plan, &report, sink)?;
                }
                self.all[index].spent += began.elapsed();
            }
        }
        Ok(())
    }

    fn add(&mut self, index: usize, plan: Plan, report: &Report, sink: &mut Sink) -> Result<()> {
        self.all[index].add(plan, report);
        let sum = |of: fn(&Series) -> u64| self.all.iter().map(of).sum::<u64>() as f64;
        self.live.set_message(format!(
            "{}: {plan}; in all {} runs, {} steps, {} acquisitions",
            self.all[index].subject.name,
            count(sum(|series| series.runs)),
            count(sum(|series| series.steps)),
            count(sum(|series| series.acquisitions)),
        ));
        self.live.tick();
        self.live.suspend(|| tell(self.all[index].subject, plan, report, sink))
    }

    /// Tabulates what has been done to each lock.
    fn summary(&self) -> String {
        let mut header = vec!["lock", "runs", "injections", "steps", "acquired", "passed"];
        header.extend(Fault::ALL.map(Fault::name));
        header.push("result");
        let mut table = Table::new(&header);
        for series in &self.all {
            let mut row = vec![series.subject.name.to_owned()];
            row.extend(
                [series.runs, series.injections, series.steps, series.acquisitions]
                    .map(|number| count(number as f64)),
            );
            row.push(series.longest_bypass.to_string());
            row.extend(Fault::ALL.map(|fault| count(series.faults.of(fault) as f64)));
            row.push(if series.failed { "FAILED" } else { "fine" }.to_owned());
            table.row(row);
        }
        format!(
            "{table}\nseed {}, {:.1} s; passed: the most a queue head has been passed",
            self.args.seed,
            self.began.elapsed().as_secs_f64()
        )
    }
}
