//! The worlds of `bench`, by name: a [`World`] runs jobs.

mod laboratory;
mod options;
mod simulated;

use anyhow::{Context, Result, bail};
use overlock_bench::World;
use overlock_bench::threads::Threads;
use overlock_sim::hosts::HostProfile;
use simulated::Simulated;
use std::path::Path;

pub(crate) use laboratory::kvm;
pub use options::{Note, Options};
pub(crate) use simulated::obey;

pub(crate) use overlock_sim::POLICIES;

/// The names of all worlds, as `--in` takes them.
const NAMES: &str = "threads, kvm, sim, sim:HOST";

/// The host of simulations that name none.
const DEFAULT_HOST: &str = "dev-kvm";

pub(crate) fn open(name: &str, options: &Options) -> Result<Box<dyn World>> {
    let (kind, detail) = name.split_once(':').map_or((name, None), |(kind, of)| (kind, Some(of)));
    Ok(match (kind, detail) {
        ("threads", None) => Box::new(Threads::calibrate()),
        ("kvm", None) => kvm()?,
        ("sim", host) => Box::new(Simulated::new(host_profile(host)?, options)),
        _ => bail!("there is no world '{name}'; choose from {NAMES}"),
    })
}

pub(crate) fn host_profile(name: Option<&str>) -> Result<HostProfile> {
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
