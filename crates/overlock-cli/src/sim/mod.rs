// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock sim`: the measurements of `overlock lab`, in virtual time, on a host of any topology.

mod args;
pub(crate) mod calibrate;
mod cells;
pub(crate) mod pool;
mod sweep;
pub(crate) mod task;
pub(crate) mod validate;

use crate::Outcome;
pub(crate) use crate::lab::Record;
use crate::lab::{self, Codes, MeasureArgs, Place, Ran, WhatIf, measure};
use anyhow::{Context, Result};
pub(crate) use args::SimArgs;
use cells::Cells;
use overlock_sim::performance::{Error, HostProfile, Setup};
use overlock_world::experiment::Experiment;
use overlock_world::workload::Profile;
use overlock_world::{Config, Document};
use std::path::Path;

/// The host of simulations that name none.
pub(crate) const DEFAULT_HOST: &str = "dev-kvm";

/// The vCPUs for each pCPU that what-if tries by default.
const LADDER: [f64; 9] = [1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0];

/// Runs the sub-command.
pub(crate) fn main(args: &SimArgs) -> Result<Outcome> {
    let suits = |experiment: &Experiment, document: &Document<'_>| {
        suits(experiment, args.host.as_deref(), document)
    };
    let path = args.measure.experiment.as_deref();
    let experiment = path.map(|path| lab::read(path, &suits)).transpose()?;
    let said = experiment.and_then(|experiment| experiment.host.machine);
    let name = args.host.clone().or(said).unwrap_or_else(|| DEFAULT_HOST.into());
    let mut host = host(&name)?;
    if args.flat {
        host.costs.remote.ns = host.costs.socket.ns;
    }
    let pcpus = host.topology.pcpus();
    let cells = Cells {
        host,
        seed: args.measure.seed(),
        seq_cst: args.seq_cst,
        jobs: args.jobs.map_or_else(pool::jobs, |jobs| jobs.get().into()),
        sweep: args.sweep.clone(),
        shard: args.shard,
        asked: Default::default(),
        made: Default::default(),
    };
    let place = Place {
        run: Box::new(|config, profile, lock| cells.run(config, profile, lock)),
        ahead: Some(Box::new(|plan, rounds| cells.ahead(plan, rounds))),
        what_if: args.what_if.map(|loss| WhatIf { loss, tail: args.p999 }),
        pcpus,
        is_real: false,
        most_pcpus: u32::MAX,
    };
    measure(&on_ladder(args, pcpus), place)
}

/// Returns the arguments, with numbers of vCPUs for what-if if the user gave none.
fn on_ladder(args: &SimArgs, pcpus: u32) -> MeasureArgs {
    let mut measure = args.measure.clone();
    let pcpus = f64::from(measure.pcpus.unwrap_or(pcpus));
    if args.what_if.is_some() && measure.cpus.is_empty() && measure.experiment.is_none() {
        let cpus = LADDER.iter().map(|over| (pcpus * over).round() as u32);
        measure.cpus = cpus.filter(|cpus| *cpus <= overlock_world::VCPUS_MAX).collect();
    }
    measure
}

/// Refuses an experiment that needs more room than its host, or the one that `instead` names, has.
pub(crate) fn suits(
    experiment: &Experiment,
    instead: Option<&str>,
    document: &Document<'_>,
) -> Result<()> {
    let said = experiment.host.machine.as_deref();
    let name = instead.or(said).unwrap_or(DEFAULT_HOST);
    let host = match host(name) {
        Err(error) if instead.is_none() => {
            return Err(document.refuse(&["host.machine"], format!("{error:#}")).into());
        }
        host => host?,
    };
    let (asked, total) = (experiment.host.pcpus, host.topology.pcpus());
    if asked > total {
        let what =
            format!("the host {} has {total} pCPUs, not {asked}; choose 1 to {total}", host.name);
        return Err(document.refuse(&["host.pcpus", "host.machine"], what).into());
    }
    Ok(())
}

/// Returns the host of this name, or in this file.
pub(crate) fn host(name: &str) -> Result<HostProfile> {
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return HostProfile::named(name).context(
            "for your own host name a file: --host my.toml (`overlock calibrate` writes one)",
        );
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {name}"))?;
    Ok(HostProfile::parse(name, &text)?)
}

/// Runs a workload once, as the laboratory's engines do.
pub(crate) fn simulate(
    setup: &Setup,
    config: &Config<'_>,
    profile: &Profile,
    lock: &str,
) -> Result<Ran> {
    match setup.run(config, profile, lock) {
        Ok((record, _)) => Ok(Ok(record.map_yields(|yields| Codes::of(&yields)))),
        Err(error @ (Error::Panicked { .. } | Error::Runaway { .. })) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
