// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock validate`: the same points in the laboratory and in the simulator.

use super::{DEFAULT_HOST, host, simulate};
use crate::Outcome;
use crate::args::{OutputArgs, seconds};
use crate::interrupt;
use crate::lab::{EngineChoice, Run, engine};
use crate::machine::Machine;
use crate::output::Sink;
use crate::progress::Progress;
use crate::record::RunRecord;
use crate::stats::median;
use crate::table::Table;
use crate::units::{count, three};
use anyhow::{Context, Result, bail};
use clap::Args;
use overlock_sim::performance::{HostProfile, Setup};
use overlock_world::Config;
use overlock_world::clock::Stamps;
use overlock_world::locks::Lock;
use overlock_world::workload::Profile;
use serde::Serialize;
use std::time::Duration;

/// Run the same points in the laboratory and in the simulator, and compare the results.
///
/// For each workload and number of vCPUs on 2 pCPUs this shows the throughput of every lock in
/// both, the ratio of the two, and whether they rank the locks alike (Spearman's correlation). The
/// host should be one that `overlock calibrate` has measured with the same engine, on the same day.
/// Nothing is judged: the simulator should reach a ratio within a quarter and a rank agreement of
/// 0.9 before its figures for unmeasured hosts mean much.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ValidateArgs {
    /// The laboratory's engine
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto)]
    engine: EngineChoice,

    /// The simulated host: a name, or a file that ends in .toml
    #[arg(long, value_name = "HOST", default_value = DEFAULT_HOST)]
    host: String,

    /// Locks
    #[arg(long, value_delimiter = ',', value_name = "LOCK,...")]
    #[arg(default_value = "native-ticket,native-test-and-set,test-and-set,ticket,queued,hybrid")]
    locks: Vec<String>,

    /// Yield policies
    #[arg(long, value_delimiter = ',', value_name = "POLICY,...", default_value = "none")]
    policies: Vec<String>,

    /// Numbers of vCPUs, on 2 pCPUs
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "2,4,8,16,32")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    cpus: Vec<u32>,

    /// Workloads
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_value = "micro,kernbench")]
    workload: Vec<String>,

    /// Seconds of each run
    #[arg(long, value_parser = seconds, default_value = "0.1")]
    seconds: f64,

    /// Rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  overlock calibrate --engine threads --out here.toml
  overlock validate --engine threads --host here.toml
  overlock validate --workload ebizzy --locks native-ticket --policies report,skip-spinners,oracle

Exit codes: 0 told, 2 could not run or write, 130 interrupted.";

/// One point in both worlds.
#[derive(Debug, Serialize)]
struct Both {
    kind: &'static str,
    workload: String,
    lock: String,
    policy: String,
    cpus: u32,
    lab_ops_per_s: f64,
    lab_low: f64,
    lab_high: f64,
    sim_ops_per_s: f64,
    /// The simulator's throughput over the laboratory's.
    ratio: f64,
}

/// How similarly the two rank the locks and policies of one workload and number of vCPUs.
#[derive(Debug, Serialize)]
struct Ranks {
    kind: &'static str,
    workload: String,
    cpus: u32,
    rank_agreement: Option<f64>,
    /// The number of points whose ratio is within a quarter.
    within_a_quarter: usize,
    points: usize,
}

/// Runs the sub-command.
pub(crate) fn main(args: &ValidateArgs) -> Result<Outcome> {
    let (lab, host) = (engine(args.engine)?, host(&args.host)?);
    let locks: Vec<Lock> = args
        .locks
        .iter()
        .map(|name| Lock::named(name).with_context(|| format!("there is no lock '{name}'")))
        .collect::<Result<_>>()?;
    let mut sink = Sink::open(&args.output)?;
    interrupt::watch()?;
    sink.record(&RunRecord::new(&Machine::observe(&Stamps::calibrate()), 1))?;
    let points = args.workload.len() * args.cpus.len() * locks.len() * args.policies.len();
    let progress = Progress::new(points as u64);
    let mut tables = Tables::new();
    'all: for name in &args.workload {
        let profile = Profile::named(name)?;
        for &cpus in &args.cpus {
            let mut group = Vec::new();
            for lock in &locks {
                for policy in &args.policies {
                    progress.say(&format!("{name}, {} vCPUs, {}", cpus, lock.name));
                    let both = args.both(&lab, &host, &profile, lock, policy, cpus)?;
                    if interrupt::seen() {
                        // This point was cut short, so its group has no ranks.
                        break 'all;
                    }
                    progress.step();
                    sink.record(&both)?;
                    tables.points.row(both.row());
                    tables.done += 1;
                    group.push(both);
                }
            }
            let alike = Ranks::of(&group);
            sink.record(&alike)?;
            tables.ranks.row(alike.row());
        }
    }
    progress.finish();
    tables.tell(&sink)?;
    sink.end(if interrupt::seen() { Outcome::Interrupted } else { Outcome::Fine })
}

/// What was measured, for people.
struct Tables {
    points: Table,
    ranks: Table,
    /// The number of points.
    done: usize,
}

impl Tables {
    fn new() -> Self {
        let points = ["lab ops/s", "low", "high", "sim ops/s", "sim/lab"];
        let points = [&["workload", "vCPUs", "lock, policy"][..], &points].concat();
        let ranks = ["workload", "vCPUs", "rank agreement", "within 25 %", "of"];
        Self { points: Table::new(&points), ranks: Table::new(&ranks), done: 0 }
    }

    fn tell(&self, sink: &Sink) -> Result<()> {
        if self.done > 0 {
            sink.people(&format!("{}\n{}", self.points, self.ranks))?;
        }
        interrupt::tell(self.done > 0);
        Ok(())
    }
}

impl ValidateArgs {
    /// Runs one point in both worlds.
    fn both(
        &self,
        lab: &Run<'_>,
        host: &HostProfile,
        profile: &Profile,
        lock: &Lock,
        policy: &str,
        cpus: u32,
    ) -> Result<Both> {
        let asked = policy != "none";
        let config = Config {
            duration: Duration::from_secs_f64(self.seconds),
            policy,
            paravirtual: lock.paravirtual,
            pause_window: if asked { Duration::from_micros(50) } else { Duration::ZERO },
            cancel: Some(interrupt::flag()),
            ..Config::new(cpus, 2)
        };
        let (mut real, mut simulated) = (Vec::new(), Vec::new());
        for round in 0..self.runs {
            let setup = Setup { host: host.clone(), seed: round.into(), seq_cst: false };
            for (ran, rates) in [
                (lab(&config, profile, lock.built)?, &mut real),
                (simulate(&setup, &config, profile, lock.built)?, &mut simulated),
            ] {
                match ran {
                    Ok(record) => rates.push(record.ops_per_s),
                    Err(said) => bail!("{}, {cpus} vCPUs: {said}", lock.name),
                }
            }
        }
        let lab_ops_per_s = median(&real).unwrap_or(0.0);
        let sim_ops_per_s = median(&simulated).unwrap_or(0.0);
        Ok(Both {
            kind: "validated",
            workload: profile.name.clone(),
            lock: lock.name.clone(),
            policy: policy.to_owned(),
            cpus,
            lab_ops_per_s,
            lab_low: real.iter().copied().fold(f64::INFINITY, f64::min),
            lab_high: real.iter().copied().fold(0.0, f64::max),
            sim_ops_per_s,
            ratio: sim_ops_per_s / lab_ops_per_s.max(1.0),
        })
    }
}

impl Both {
    fn row(&self) -> Vec<String> {
        let policy =
            if self.policy == "none" { String::new() } else { format!(", {}", self.policy) };
        vec![
            self.workload.clone(),
            self.cpus.to_string(),
            format!("{}{policy}", self.lock),
            count(self.lab_ops_per_s),
            count(self.lab_low),
            count(self.lab_high),
            count(self.sim_ops_per_s),
            three(self.ratio),
        ]
    }
}

impl Ranks {
    fn of(group: &[Both]) -> Self {
        let near = group.iter().filter(|both| (0.8..=1.25).contains(&both.ratio)).count();
        let of = |rate: fn(&Both) -> f64| group.iter().map(rate).collect::<Vec<_>>();
        Self {
            kind: "ranks",
            workload: group.first().map_or_else(String::new, |both| both.workload.clone()),
            cpus: group.first().map_or(0, |both| both.cpus),
            rank_agreement: spearman(&of(|b| b.lab_ops_per_s), &of(|b| b.sim_ops_per_s)),
            within_a_quarter: near,
            points: group.len(),
        }
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.workload.clone(),
            self.cpus.to_string(),
            self.rank_agreement.map_or_else(|| "-".into(), |r| format!("{r:.2}")),
            self.within_a_quarter.to_string(),
            self.points.to_string(),
        ]
    }
}

/// Computes Spearman's rank correlation: 1 is the same order, -1 the reverse; nothing for fewer
/// than two. Values within 5 % of each other count as equal, and share their rank.
fn spearman(one: &[f64], other: &[f64]) -> Option<f64> {
    let ranks = |values: &[f64]| -> Vec<f64> {
        let below = |a: f64, b: f64| a < b && b / a.max(f64::MIN_POSITIVE) > 1.05;
        let rank = |&value: &f64| {
            let less = values.iter().filter(|&&other| below(other, value)).count();
            let more = values.iter().filter(|&&other| below(value, other)).count();
            (less as f64 + (values.len() - more) as f64) / 2.0
        };
        values.iter().map(rank).collect()
    };
    let (one, other) = (ranks(one), ranks(other));
    let mean = |ranks: &[f64]| ranks.iter().sum::<f64>() / ranks.len() as f64;
    let (a, b) = (mean(&one), mean(&other));
    let covariance: f64 = one.iter().zip(&other).map(|(x, y)| (x - a) * (y - b)).sum();
    let spread = |ranks: &[f64], mean: f64| ranks.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    let both = (spread(&one, a) * spread(&other, b)).sqrt();
    (one.len() > 1 && both > 0.0).then(|| covariance / both)
}

#[cfg(test)]
mod tests {
    use super::spearman;

    #[test]
    fn ranks_agree_oppose_and_tie() {
        let of = |other: [f64; 4]| spearman(&[1.0, 2.0, 3.0, 4.0], &other).unwrap();
        assert!((of([10.0, 20.0, 30.0, 40.0]) - 1.0).abs() < 1e-9);
        assert!((of([4.0, 3.0, 2.0, 1.0]) + 1.0).abs() < 1e-9);
        assert!(of([2.0, 1.0, 4.0, 3.0]) < 0.9);
        assert!(of([1.0, 2.0, 3.0, 3.05]) > 0.9, "nearly equal is equal");
        assert_eq!(spearman(&[1.0], &[1.0]), None);
    }
}
