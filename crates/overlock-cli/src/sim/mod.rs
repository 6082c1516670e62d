// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock sim`: what `overlock lab` measures, in virtual time, on a host of any topology.

mod args;
pub(crate) mod calibrate;
pub(crate) mod validate;

use crate::Outcome;
pub(crate) use crate::lab::Record;
use crate::lab::{self, Place, Ran, measure};
use anyhow::{Context, Result};
pub(crate) use args::SimArgs;
use overlock_lab::Yields;
use overlock_sim::performance::{Error, HostProfile, Setup};
use overlock_sim::seed_of;
use overlock_world::Config;
use overlock_world::workload::Profile;
use std::cell::Cell;
use std::path::Path;

/// The host of simulations that name none.
pub(crate) const DEFAULT_HOST: &str = "dev-kvm";

/// Runs the sub-command.
pub(crate) fn main(args: &SimArgs) -> Result<Outcome> {
    let experiment = args.measure.experiment.as_deref().map(lab::read).transpose()?;
    let said = experiment.and_then(|experiment| experiment.host.machine);
    let name = args.host.clone().or(said).unwrap_or_else(|| DEFAULT_HOST.into());
    let host = host(&name)?;
    let pcpus = host.topology.pcpus();
    let seed = args.measure.seed();
    // Each run has a seed of its own, by its place in the series: so rounds differ, and a
    // command repeats.
    let runs = Cell::new(0);
    let run = |config: &Config<'_>, profile: &Profile, lock: &str| {
        runs.set(runs.get() + 1);
        let setup =
            Setup { host: host.clone(), seed: seed_of(seed, runs.get()), seq_cst: args.seq_cst };
        simulate(&setup, config, profile, lock)
    };
    measure(&args.measure, Place { run: Box::new(run), pcpus, is_real: false })
}

/// The host of this name, or in this file.
pub(crate) fn host(name: &str) -> Result<HostProfile> {
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return HostProfile::named(name).context(
            "one of your own is a file: --host my.toml (`overlock calibrate` writes one)",
        );
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {name}"))?;
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    Ok(HostProfile::parse(&stem, &text)?)
}

/// Runs a workload once, as the laboratory's engines do.
pub(crate) fn simulate(
    setup: &Setup,
    config: &Config<'_>,
    profile: &Profile,
    lock: &str,
) -> Result<Ran> {
    match setup.run(config, profile, lock) {
        Ok((record, _)) => Ok(Ok(record.map_yields(|yields| Yields(yields.0)))),
        Err(error @ (Error::Panicked { .. } | Error::Runaway { .. })) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
