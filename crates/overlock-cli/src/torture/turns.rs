//! Locks that take turns of a tenth of a second, so that each has had its share whenever the
//! torture ends. A lock that fails is dropped; the others go on.

use super::args::TortureArgs;
use super::series::{Series, tell};
use crate::interrupt;
use crate::output::Sink;
use crate::table::Table;
use crate::units::count;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use overlock_sim::{Fault, FaultPlan, Subject, TortureReport, injections, run, seed_of};
use std::time::{Duration, Instant};

/// How long one lock is tortured before the next one's turn.
const TURN: Duration = Duration::from_millis(100);

pub(super) struct Torture<'a> {
    args: &'a TortureArgs,
    began: Instant,
    live: ProgressBar,
    all: Vec<Series>,
}

impl<'a> Torture<'a> {
    pub(super) fn new(args: &'a TortureArgs, subjects: Vec<&'static Subject>) -> Self {
        let all = subjects.into_iter().map(Series::new).collect();
        Torture { args, began: Instant::now(), live: live(), all }
    }

    fn is_over(&self) -> bool {
        interrupt::seen()
            || self.args.span.is_some_and(|span| self.began.elapsed() >= span)
            || self.all.iter().all(|series| series.row.failed)
    }

    pub(super) fn inject(&mut self, sink: &mut Sink) -> Result<()> {
        for index in 0..self.all.len() {
            let began = Instant::now();
            for (plan, report) in injections(self.all[index].subject) {
                self.add(index, plan, &report, sink)?;
                if self.is_over() || self.all[index].row.failed {
                    break;
                }
            }
            self.all[index].spent += began.elapsed();
        }
        Ok(())
    }

    pub(super) fn random(&mut self, sink: &mut Sink) -> Result<()> {
        let cpus = self.args.cpus.and_then(|cpus| usize::try_from(cpus).ok());
        let mut next = vec![0; self.all.len()];
        while !self.is_over() {
            for (index, next) in next.iter_mut().enumerate() {
                let began = Instant::now();
                while began.elapsed() < TURN && !self.is_over() && !self.all[index].row.failed {
                    let seed = seed_of(self.args.seed, *next);
                    *next += 1;
                    let plan = FaultPlan::Random { seed, steps: self.args.steps, cpus };
                    let report = run(self.all[index].subject, plan);
                    self.add(index, plan, &report, sink)?;
                }
                self.all[index].spent += began.elapsed();
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        index: usize,
        plan: FaultPlan,
        report: &TortureReport,
        sink: &mut Sink,
    ) -> Result<()> {
        self.all[index].add(plan, report);
        let sum = |of: fn(&Series) -> u64| self.all.iter().map(of).sum::<u64>() as f64;
        self.live.set_message(format!(
            "{}: {plan}; in all {} runs, {} steps, {} acquisitions",
            self.all[index].subject.name,
            count(sum(|series| series.row.runs)),
            count(sum(|series| series.row.steps)),
            count(sum(|series| series.row.acquisitions)),
        ));
        self.live.tick();
        self.live.suspend(|| tell(self.all[index].subject, plan, report, sink))
    }

    pub(super) fn end(self, sink: &mut Sink) -> Result<bool> {
        self.live.finish_and_clear();
        self.all.iter().try_for_each(|series| sink.record(&series.row()))?;
        sink.people(&self.summary())?;
        Ok(self.all.iter().all(|series| !series.row.failed))
    }

    fn summary(&self) -> String {
        let mut header = vec!["lock", "runs", "injections", "steps", "acquired", "passed"];
        header.extend(Fault::ALL.map(Fault::name));
        header.push("result");
        let mut table = Table::new(&header);
        for series in &self.all {
            let mut row = vec![series.subject.name.to_owned()];
            row.extend(
                [series.row.runs, series.row.injections, series.row.steps, series.row.acquisitions]
                    .map(|number| count(number as f64)),
            );
            row.push(series.row.longest_bypass.to_string());
            row.extend(Fault::ALL.map(|fault| count(series.faults.of(fault) as f64)));
            row.push(if series.row.failed { "FAILED" } else { "fine" }.to_owned());
            table.row(row);
        }
        format!(
            "{table}\nseed {}, {:.1} s; passed: the most a queue head has been passed",
            self.args.seed,
            self.began.elapsed().as_secs_f64()
        )
    }
}

fn live() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed_precise}  {wide_msg}");
    ProgressBar::new_spinner().with_style(style.expect("the template is a constant that is valid"))
}
