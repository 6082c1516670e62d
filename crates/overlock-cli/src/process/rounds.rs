// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rounds of a comparison: each runs the program under every lock, in shuffled order.
//!
//! A lock under which the program crashes, hangs, prints something else or loses its figure is
//! reported and left out from then on; the others go on.

use super::args::CompareArgs;
use super::expect::Expected;
use crate::interrupt;
use crate::output::Sink;
use crate::progress::Progress;
use crate::shuffle::shuffled;
use anyhow::{Result, bail};
use overlock_programs::{Good, Input, LIBC, Rules, Shared, Target, Trial, Waits};
use overlock_results::Run;
use overlock_results::judge::{baseline, rank};
use overlock_results::row::{Failure, PROCESS, Point, Programs, Row, SampleRow};

/// A lock this many times worse than the baseline in every one of the first rounds is left out: its
/// exact percentage changes no decision, and would take as long as all other rounds together.
pub(super) const BEATEN_FACTOR: f64 = 5.0;

/// A lock that is much worse than the baseline in this many rounds is left out.
const BEATEN_ROUNDS: usize = 3;

/// After this many rounds the comparison stops if more would tell no more.
const FEW_ROUNDS: usize = 3;

/// One lock: `runs[i]` is from round `i`.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) lock: String,
    runs: Vec<Run>,
    /// Whether a thread has waited for a lock that can be replaced.
    has_waited: bool,
    /// So bad that it was left out after some rounds.
    pub(super) beaten: bool,
}

pub(super) struct Rounds<'a> {
    pub(super) args: &'a CompareArgs,
    pub(super) rules: Rules,
    pub(super) target: Target,
    pub(super) locks: Vec<String>,
    pub(super) expected: Option<Expected>,
    pub(super) failures: Vec<Failure>,
    pub(super) progress: Progress,
    pub(super) waits: Waits,
    pub(super) input: Input,
}

impl Rounds<'_> {
    /// Runs all rounds. On Ctrl-C it stops early and keeps the whole rounds.
    pub(super) fn measure(&mut self, sink: &mut Sink) -> Result<Vec<Series>> {
        let (warmup, runs) = (usize::from(self.args.warmup), usize::from(self.args.runs));
        let new = |lock: &String| Series {
            lock: lock.clone(),
            runs: Vec::new(),
            has_waited: false,
            beaten: false,
        };
        let mut all: Vec<Series> = self.locks.iter().map(new).collect();
        'rounds: for round in 0..warmup + runs {
            for index in shuffled(all.len(), self.args.seed, round) {
                let series = &mut all[index];
                self.progress.say(&match round.checked_sub(warmup) {
                    Some(round) => format!("{} (round {} of {runs})", series.lock, round + 1),
                    None => format!("{} (warm-up)", series.lock),
                });
                if !series.beaten && !self.has_failed(&series.lock) {
                    let good = self.run(&series.lock)?;
                    if let Some(good) = good.filter(|_| round >= warmup) {
                        series.has_waited |= good.waits > Some(0);
                        series.runs.push(good.run);
                    }
                }
                if interrupt::seen() {
                    break 'rounds;
                }
                if round >= warmup
                    && let Some(run) = series.runs.get(round - warmup)
                {
                    let (world, lock, run) = (PROCESS.into(), series.lock.clone(), run.clone());
                    let round = round - warmup + 1;
                    sink.record(&Row::Sample(Box::new(SampleRow { world, lock, round, run })))?;
                }
                self.progress.step();
            }
            self.find_beaten(&mut all);
            if round + 1 >= warmup + FEW_ROUNDS && self.is_pointless(&all) {
                break;
            }
        }
        self.progress.finish();
        all.retain(|series| !self.has_failed(&series.lock));
        let lengths = all.iter().filter(|series| !series.beaten).map(|all| all.runs.len());
        let whole = lengths.min().unwrap_or(0);
        all.iter_mut().for_each(|series| series.runs.truncate(whole));
        all.retain(|series| !series.runs.is_empty());
        Ok(all)
    }

    /// Returns whether more rounds would tell no more: no thread ever waits, or the figure never
    /// varies.
    fn is_pointless(&self, all: &[Series]) -> bool {
        let mut figures = all.iter().flat_map(|series| &series.runs).map(Run::figure);
        let first = figures.next();
        let nothing_waits =
            self.waits.replaced() == Some(0) && !all.iter().any(|series| series.has_waited);
        nothing_waits || figures.all(|figure| Some(figure) == first)
    }

    /// Returns the row of each lock, the best first.
    pub(super) fn points(&self, all: &[Series], cpus: Option<u64>) -> Vec<Point> {
        let programs = Programs {
            workload: self.target.typed(),
            pcpus: cpus.and_then(|cpus| u32::try_from(cpus).ok()),
            metric: self.args.metric.clone(),
            higher_is_better: self.args.higher_is_better,
            library: self.target.library.as_ref().map(|file| file.path.display().to_string()),
        };
        let point =
            |of: &Series| programs.point(&of.lock, of.runs.clone(), self.waits.of(&of.lock));
        let mut points = all.iter().map(point).collect();
        rank(&mut points);
        points
    }

    /// Runs the program once; returns nothing after a failure or a run cut short.
    fn run(&mut self, lock: &str) -> Result<Option<Good>> {
        let shared = if lock == LIBC { None } else { Some(Shared::new()?) };
        self.run_in(lock, shared.as_ref())
    }

    pub(super) fn run_in(&mut self, lock: &str, shared: Option<&Shared>) -> Result<Option<Good>> {
        let complaint = match self.rules.run(&self.target, lock, &self.input, shared)? {
            Trial::Good(good) => match self.difference(lock, &good.stdout)? {
                None => return Ok(Some(*good)),
                Some(difference) => format!("printed something else: {difference}"),
            },
            Trial::Bad(complaint) => complaint,
            Trial::Interrupted => return Ok(None),
        };
        let lock = Some(lock.to_owned());
        self.failures.push(Failure { lock, point: None, sentence: complaint });
        Ok(None)
    }

    /// Marks the locks that need no more rounds.
    fn find_beaten(&self, all: &mut [Series]) {
        if self.waits.replaced() == Some(0) {
            // The difference is noise, and three rounds of it prove nothing.
            return;
        }
        let points = self.points(all, None);
        for point in points.iter().filter(|point| point.samples.len() >= BEATEN_ROUNDS) {
            let Some(base) = baseline(&points) else { return };
            let is_worse = point.better_than(base).iter().all(|of| of * BEATEN_FACTOR < 1.0);
            let series = all.iter_mut().filter(|series| series.lock == point.lock && is_worse);
            series.for_each(|series| series.beaten = true);
        }
    }

    fn has_failed(&self, lock: &str) -> bool {
        self.failures.iter().any(|failure| failure.lock.as_deref() == Some(lock))
    }

    /// Describes where standard output differs from that of the first run, if it must not differ.
    fn difference(&self, lock: &str, stdout: &[u8]) -> Result<Option<String>> {
        let difference = self.expected.as_ref().and_then(|expected| expected.difference(stdout));
        match difference {
            Some(difference) if lock == LIBC => bail!(
                "--check-output can't tell: the output varies with the program's own locks \
                 ({difference}); leave lines that vary out with --ignore REGEX"
            ),
            difference => Ok(difference),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: CompareArgs,
    }

    /// Asks a comparison of `true` in which threads waited so often.
    fn ask<T>(waits: u64, question: impl FnOnce(&Rounds<'_>) -> T) -> T {
        let counters = [("mutex.locks_contended".to_owned(), waits)].into();
        question(&Rounds {
            args: &Typed::parse_from(["compare", "true"]).args,
            rules: Rules { metric: None, any_exit_code: false, timeout: None },
            target: Target { path: "true".into(), args: Vec::new(), library: None },
            locks: Vec::new(),
            expected: None,
            failures: Vec::new(),
            progress: Progress::new(0),
            waits: Waits::new("ticket".into(), Some(counters), Vec::new()),
            input: Input::Nothing,
        })
    }

    /// Three rounds of a second each with libc's locks, and so many seconds with others.
    fn all(seconds: &[f64], has_waited: bool) -> [Series; 2] {
        [(LIBC, &[1.0; 3][..]), ("ticket", seconds)].map(|(lock, seconds)| Series {
            lock: lock.into(),
            runs: seconds.iter().map(|&seconds| Run { seconds, ..Run::default() }).collect(),
            has_waited,
            beaten: false,
        })
    }

    #[test]
    fn a_lock_is_left_out_if_it_is_much_worse_in_each_of_three_rounds() {
        let beaten = |waits, seconds: &[f64]| {
            let mut all = all(seconds, true);
            ask(waits, |rounds| rounds.find_beaten(&mut all));
            assert!(!all[0].beaten, "the baseline stays");
            all[1].beaten
        };
        assert!(beaten(1, &[5.1, 6.0, 9.0]));
        assert!(!beaten(1, &[9.0, 4.9, 9.0]), "not in each round");
        assert!(!beaten(1, &[9.0; 2]), "in too few rounds");
        assert!(!beaten(1, &[0.1; 3]), "better");
        assert!(!beaten(0, &[9.0; 3]), "nothing waits");
    }

    #[test]
    fn more_rounds_are_pointless_if_nothing_waits_or_varies() {
        let pointless = |waits, has_waited, seconds: &[f64]| {
            ask(waits, |rounds| rounds.is_pointless(&all(seconds, has_waited)))
        };
        assert!(pointless(0, false, &[1.0, 2.0]));
        assert!(!pointless(0, true, &[1.0, 2.0]));
        assert!(!pointless(1, false, &[1.0, 2.0]));
        assert!(pointless(1, true, &[1.0, 1.0]));
    }
}
