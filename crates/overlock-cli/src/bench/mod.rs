//! `overlock bench`: locks × threads × critical sections × pauses, interleaved.
//!
//! For each point the locks take turns: a *round* is one run of every lock in an order shuffled
//! from the seed. Ratios are formed inside a round and only then summarised, so that whatever
//! slows the machine for a while cancels out.

mod child;
mod grid;
mod histogram;
mod report;
mod results;
mod subjects;
mod summary;
mod work;
mod worker;

use crate::Outcome;
use crate::args::BenchArgs;
use crate::clock::Clock;
use crate::machine::Machine;
use crate::output::Sink;
use crate::progress::Progress;
use crate::record::RunRecord;
use crate::warnings::Warning;
use crate::{interrupt, sys};
use anyhow::Result;
use child::Ended;
use grid::{Plan, Point};
use results::{Failure, LockRuns, PointRuns, Results};
use work::Work;
use worker::RunSpec;

pub(crate) use child::obey;

/// How often each lock's uncontended pair is timed.
const PAIR_ROUNDS: usize = 200;

/// Runs the sub-command.
pub(crate) fn main(args: &BenchArgs) -> Result<Outcome> {
    let plan = Plan::new(args, sys::allowed_cpus())?;
    let mut sink = Sink::open(&args.output)?;
    interrupt::watch()?;
    let clock = Clock::calibrate();
    let work = Work::calibrate(&clock);
    let machine = Machine::observe(&clock);
    sink.record(&RunRecord::new(&machine, plan.seed))?;
    if let Some(warning) = Warning::busy_machine(&machine) {
        warning.print();
    }

    let mut bench = Bench { plan, clock, work, results: Results::new(machine) };
    bench.measure(&mut sink)?;
    let results = bench.results;
    report::finish(&results, &mut sink)?;
    for warning in results.warnings(work, Work::calibrate(&clock)) {
        warning.print();
    }
    Ok(if interrupt::seen() {
        Outcome::Interrupted
    } else if results.failures.is_empty() {
        Outcome::Fine
    } else {
        Outcome::CheckFailed
    })
}

/// A benchmark under way.
struct Bench {
    plan: Plan,
    clock: Clock,
    work: Work,
    results: Results,
}

impl Bench {
    /// Measures everything in the plan; stops early, keeping what is whole, on Ctrl-C.
    fn measure(&mut self, sink: &mut Sink) -> Result<()> {
        let runs = self.plan.points.len() * self.plan.rounds * self.plan.locks.len();
        let mut progress = Progress::new(runs as u64);
        progress.say("uncontended pairs");
        if let Ended::Well(samples) = child::pairs(&self.plan.locks, PAIR_ROUNDS, self.clock)? {
            self.results.set_pairs(&self.plan.locks, samples);
        }
        for point in self.plan.points.clone() {
            let runs = self.measure_point(point, &mut progress)?;
            if !runs.locks.is_empty() {
                progress.suspend(|| report::point(&runs, &self.results, sink))?;
                self.results.points.push(runs);
            }
            if interrupt::seen() {
                break;
            }
        }
        progress.finish();
        Ok(())
    }

    /// Takes all rounds of one point. A lock that fails is out, for this point and all others.
    fn measure_point(&mut self, point: Point, progress: &mut Progress) -> Result<PointRuns> {
        let mut locks: Vec<LockRuns> =
            self.plan.locks.iter().map(|lock| LockRuns { lock, samples: Vec::new() }).collect();
        for round in 0..self.plan.rounds {
            for index in shuffled(locks.len(), self.plan.seed, round) {
                let lock = locks[index].lock;
                if self.results.has_failed(lock.name) {
                    progress.step();
                    continue;
                }
                progress.say(&format!(
                    "{point}: {} ({}/{})",
                    lock.name,
                    round + 1,
                    self.plan.rounds
                ));
                match child::run(self.spec(lock.name, point))? {
                    Ended::Well(sample) if sample.lost_updates > 0 => {
                        let lost = sample.lost_updates;
                        self.results.failures.push(Failure::lost_updates(lock.name, point, lost));
                    }
                    Ended::Well(sample) => locks[index].samples.push(sample),
                    Ended::Badly(how) => {
                        self.results.failures.push(Failure::died(lock.name, point, &how));
                    }
                    Ended::Interrupted => {}
                }
                if interrupt::seen() {
                    return Ok(PointRuns::whole_rounds(point, locks));
                }
                progress.step();
            }
        }
        locks.retain(|runs| !self.results.has_failed(runs.lock.name));
        Ok(PointRuns::whole_rounds(point, locks))
    }

    fn spec(&self, lock: &str, point: Point) -> RunSpec {
        RunSpec {
            lock: lock.to_owned(),
            threads: point.threads,
            cs_links: self.work.links(point.cs.0),
            ncs_links: self.work.links(point.ncs.0),
            seconds: self.plan.seconds,
            clock: self.clock,
        }
    }
}

/// The order of a round: a Fisher-Yates shuffle by an xorshift generator.
fn shuffled(len: usize, seed: u64, round: usize) -> Vec<usize> {
    let mut state = (seed ^ (round as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1;
    let mut next = move |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap_or(0) % bound
    };
    let mut order: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        order.swap(last, next(last + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::shuffled;

    #[test]
    fn a_round_has_every_lock_once_in_an_order_of_its_own() {
        let orders: Vec<_> = (0..20).map(|round| shuffled(12, 7, round)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..12).collect::<Vec<_>>());
        }
        assert_eq!(orders[3], shuffled(12, 7, 3));
        assert!(orders.windows(2).all(|pair| pair[0] != pair[1]));
        assert_ne!(shuffled(12, 8, 3), orders[3]);
    }
}
