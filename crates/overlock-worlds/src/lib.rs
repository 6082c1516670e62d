// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod calibrate;
mod laboratory;
mod options;
mod simulated;

use anyhow::{Context, Result, bail};
use laboratory::{kvm, parked};
use overlock_bench::World;
use overlock_bench::threads::Threads;
use overlock_sim::hosts::HostProfile;
use simulated::Simulated;
use std::path::Path;

pub use calibrate::calibrate;
pub use laboratory::engines;
pub use options::{Note, Options};
pub use simulated::obey;

/// The yield policies that vCPUs have.
pub use overlock_sim::POLICIES;

/// The names of all worlds, as `--in` takes them.
const NAMES: &str = "threads, kvm, parked, sim, sim:HOST";

/// The host of simulations that name none.
const DEFAULT_HOST: &str = "dev-kvm";

/// Opens the world called `name`.
///
/// # Errors
/// If there is none of this name, or it can't run here.
pub fn open(name: &str, options: &Options) -> Result<Box<dyn World>> {
    let (kind, detail) = name.split_once(':').map_or((name, None), |(kind, of)| (kind, Some(of)));
    Ok(match (kind, detail) {
        ("threads", None) => Box::new(Threads::calibrate()),
        ("kvm", None) => kvm()?,
        ("parked", None) => parked()?,
        ("sim", host) => Box::new(Simulated::new(host_profile(host)?, options)),
        _ => bail!("there is no world '{name}'; choose from {NAMES}"),
    })
}

/// Returns the host of this name, or in this file.
///
/// # Errors
/// If there is no such host, or the file can't be read.
pub fn host_profile(name: Option<&str>) -> Result<HostProfile> {
    let name = name.unwrap_or(DEFAULT_HOST);
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return HostProfile::named(name).context(
            "for your own host name a file: --in sim:my.toml (`overlock doctor --calibrate` \
             writes one)",
        );
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {name}"))?;
    Ok(HostProfile::parse(name, &text)?)
}
