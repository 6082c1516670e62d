// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod calibrate;
mod image;
mod laboratory;
mod options;
mod simulated;

use anyhow::{Context, Result, bail};
use laboratory::{kvm, parked};
use overlock_bench::World;
use overlock_bench::threads::Threads;
use overlock_sim::performance::HostProfile;
use simulated::Simulated;
use std::path::Path;

pub use calibrate::calibrate;
pub use image::{CHECKS, Check, Checked, Heard, Image};
pub use laboratory::engines;
pub use options::{Note, Options};
pub use simulated::obey;

/// The yield policies that vCPUs have.
pub use overlock_sim::POLICIES;

/// The names of all worlds, as `--in` takes them.
const NAMES: &str = "threads, kvm, parked, sim, sim:HOST, tcg, kvm-guest, xen, xen-pvh";

/// The host of simulations that name none.
const DEFAULT_HOST: &str = "dev-kvm";

/// A world that is ready to run jobs.
pub enum Open {
    /// Threads of this machine.
    Threads(Threads),
    /// vCPUs, or simulated ones.
    Virtual(Box<dyn World>),
    /// A kernel, which can also check itself.
    Image(Image),
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Open").field(&self.world().name()).finish()
    }
}

impl Open {
    /// Returns it as one of all.
    #[must_use]
    pub fn world(&self) -> &dyn World {
        match self {
            Self::Threads(threads) => threads,
            Self::Virtual(world) => &**world,
            Self::Image(image) => image,
        }
    }

    /// By which share the speed of work has changed since the world was opened, where that matters.
    #[must_use]
    pub fn drift(&self) -> Option<f64> {
        match self {
            Self::Threads(threads) => Some(threads.drift()),
            Self::Virtual(_) | Self::Image(_) => None,
        }
    }
}

/// Opens the world called `name`.
///
/// # Errors
/// If there is none of this name, or it can't run here.
pub fn open(name: &str, options: &Options) -> Result<Open> {
    let (kind, detail) = name.split_once(':').map_or((name, None), |(kind, of)| (kind, Some(of)));
    Ok(match (kind, detail) {
        ("threads", None) => Open::Threads(Threads::calibrate()),
        ("kvm", None) => Open::Virtual(kvm()?),
        ("parked", None) => Open::Virtual(parked()?),
        ("sim", host) => Open::Virtual(Box::new(Simulated::new(host_profile(host)?, options))),
        ("tcg" | "kvm-guest" | "xen" | "xen-pvh", None) => {
            Open::Image(Image::new(kind, options.note)?)
        }
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
