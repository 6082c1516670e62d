//! What a comparison makes of its rounds: a row for each run, and when to stop.

use super::world::Program;
use crate::output::Sink;
use crate::rounds::Turns;
use anyhow::Result;
use overlock_bench::Job;
use overlock_programs::Waits;
use overlock_results::Run;
use overlock_results::judge::{baseline, rank};
use overlock_results::row::{PROCESS, Point, Programs, Row, SampleRow};

/// A lock this many times worse than the baseline in every one of the first rounds is left out: its
/// exact percentage changes no decision, and would take as long as all other rounds together.
pub(super) const BEATEN_FACTOR: f64 = 5.0;

/// A lock that is much worse than the baseline in this many rounds is left out; and after as many
/// the comparison stops if more would tell no more.
const FEW_ROUNDS: usize = 3;

pub(super) struct Follow<'a> {
    pub(super) world: &'a Program,
    pub(super) locks: &'a [String],
    pub(super) programs: &'a Programs,
    pub(super) waits: &'a Waits,
    pub(super) sink: &'a mut Sink,
    /// The places of locks so bad that they were left out.
    pub(super) beaten: Vec<usize>,
}

impl Turns for Follow<'_> {
    fn made(&mut self, job: &Job, round: usize, run: &Run) -> Result<()> {
        let (world, lock, run) = (PROCESS.into(), job.lock.clone(), run.clone());
        self.sink.record(&Row::Sample(Box::new(SampleRow { world, lock, round, run })))
    }

    fn look(&mut self, runs: &[Vec<Run>]) -> (Vec<usize>, bool) {
        let each = runs.iter().map(Vec::as_slice).enumerate();
        let mut points = self.points(each);
        rank(&mut points);
        self.beaten.extend(self.newly_beaten(&points));
        (self.beaten.clone(), self.is_pointless(runs))
    }
}

impl Follow<'_> {
    pub(super) fn points<'r>(&self, runs: impl Iterator<Item = (usize, &'r [Run])>) -> Vec<Point> {
        let of = |(index, runs): (usize, &[Run])| {
            let lock = &self.locks[index];
            self.programs.point(lock, runs.to_vec(), self.waits.of(lock))
        };
        runs.filter(|(_, runs)| !runs.is_empty()).map(of).collect()
    }

    fn newly_beaten(&self, points: &[Point]) -> Vec<usize> {
        // Where nothing waits, the difference is noise, and three rounds of it prove nothing.
        let base = baseline(points).filter(|_| self.waits.replaced() != Some(0));
        let is_beaten = |lock: &String| {
            let point = points.iter().find(|point| point.lock == *lock);
            point.zip(base).is_some_and(|(point, base)| {
                point.samples.len() >= FEW_ROUNDS
                    && point.better_than(base).iter().all(|of| of * BEATEN_FACTOR < 1.0)
            })
        };
        let places = (0..self.locks.len()).filter(|place| !self.beaten.contains(place));
        places.filter(|place| is_beaten(&self.locks[*place])).collect()
    }

    /// Returns whether more rounds would tell no more: no thread ever waits, or the figure never
    /// varies.
    fn is_pointless(&self, runs: &[Vec<Run>]) -> bool {
        let mut figures = runs.iter().flatten().map(Run::figure);
        let first = figures.next();
        let nothing_waits = self.waits.replaced() == Some(0) && !self.world.has_waited.get();
        runs.iter().any(|of| of.len() >= FEW_ROUNDS)
            && (nothing_waits || figures.all(|figure| Some(figure) == first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlock_programs::{Input, LIBC, Rules, Target};
    use std::cell::Cell;

    /// Looks at a comparison of `true` in which threads waited so often, after three rounds of a
    /// second each with libc's locks, and so many seconds with others.
    fn look(waits: u64, has_waited: bool, seconds: &[f64]) -> (Vec<usize>, bool) {
        let counters = [("mutex.locks_contended".to_owned(), waits)].into();
        let run = |seconds: &f64| Run { seconds: *seconds, ..Run::default() };
        let runs = [&[1.0; 3][..], seconds].map(|of| of.iter().map(run).collect());
        let programs = Programs {
            workload: "true".into(),
            pcpus: None,
            metric: None,
            higher_is_better: false,
            library: None,
        };
        let follow = &mut Follow {
            world: &Program {
                rules: Rules { metric: None, any_exit_code: false, timeout: None },
                target: Target { path: "true".into(), args: Vec::new(), library: None },
                input: Input::Nothing,
                expected: None,
                pcpus: 1,
                has_waited: Cell::new(has_waited),
            },
            locks: &[LIBC.into(), "ticket".into()],
            programs: &programs,
            waits: &Waits::new("ticket".into(), Some(counters), Vec::new()),
            sink: &mut Sink::default(),
            beaten: Vec::new(),
        };
        follow.look(&runs)
    }

    #[test]
    fn a_lock_rests_if_it_is_much_worse_in_each_of_three_rounds() {
        for (waits, seconds, rests) in [
            (1, &[5.1, 6.0, 9.0][..], &[1][..]),
            (1, &[9.0, 4.9, 9.0], &[]), // not in each round
            (1, &[9.0; 2], &[]),        // in too few rounds
            (1, &[0.1; 3], &[]),        // better
            (0, &[9.0; 3], &[]),        // nothing waits
        ] {
            assert_eq!(look(waits, true, seconds).0, rests, "{seconds:?}");
        }
    }

    #[test]
    fn more_rounds_are_pointless_if_nothing_waits_or_varies() {
        assert!(look(0, false, &[1.0, 2.0]).1);
        assert!(!look(0, true, &[1.0, 2.0]).1);
        assert!(!look(1, false, &[1.0, 2.0]).1);
        assert!(look(1, true, &[1.0, 1.0]).1);
    }
}
