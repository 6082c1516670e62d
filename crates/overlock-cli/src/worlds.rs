// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worlds of `bench`, by name.

mod image;
mod options;
mod simulated;

use crate::output::Sink;
use anyhow::{Context, Result, bail};
pub(crate) use image::Checked;
use image::Image;
use overlock_bench::Threads;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use overlock_lab::{KvmEngine, ThreadsEngine};
use overlock_sim::performance::HostProfile;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use overlock_world::Engine as _;
use overlock_world::World;
use simulated::Simulated;
use std::path::Path;

pub(crate) use options::Options;
pub(crate) use simulated::{Shard, obey};

/// The yield policies that vCPUs have.
pub(crate) use overlock_sim::POLICIES;

/// The names of all worlds, as `--in` takes them.
const NAMES: &str = "threads, kvm, parked, sim, sim:HOST, tcg, kvm-guest, xen";

/// The host of simulations that name none.
const DEFAULT_HOST: &str = "dev-kvm";

/// A world that is ready to run jobs.
pub(crate) enum Open {
    Threads(Threads),
    Virtual(Box<dyn World>),
    Image(Image),
}

impl Open {
    pub(crate) fn world(&self) -> &dyn World {
        match self {
            Self::Threads(threads) => threads,
            Self::Virtual(world) => &**world,
            Self::Image(image) => image,
        }
    }

    /// Runs the world's own checks, if it has any.
    pub(crate) fn verify(&self, options: &Options, sink: &mut Sink) -> Result<Option<Checked>> {
        match self {
            Self::Image(image) => image.verify(&options.cpus, sink).map(Some),
            Self::Threads(_) | Self::Virtual(_) => Ok(None),
        }
    }

    /// By which share the speed of work has changed since the world was opened, where that matters.
    pub(crate) fn drift(&self) -> Option<f64> {
        match self {
            Self::Threads(threads) => Some(threads.drift()),
            Self::Virtual(_) | Self::Image(_) => None,
        }
    }
}

/// Opens the world called `name`.
pub(crate) fn open(name: &str, options: &Options) -> Result<Open> {
    let (kind, detail) = name.split_once(':').map_or((name, None), |(kind, of)| (kind, Some(of)));
    if options.sweep.is_some() && kind != "sim" {
        bail!("--sweep keeps simulated runs: use it with --in sim");
    }
    Ok(match (kind, detail) {
        ("threads", None) => Open::Threads(Threads::calibrate()),
        ("kvm", None) => Open::Virtual(kvm()?),
        ("parked", None) => Open::Virtual(parked()?),
        ("sim", host) => Open::Virtual(Box::new(Simulated::new(host_profile(host)?, options)?)),
        ("tcg" | "kvm-guest" | "xen", None) => Open::Image(Image::new(kind)?),
        _ => bail!("there is no world '{name}'; choose from {NAMES}"),
    })
}

/// Returns the host of this name, or in this file.
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

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn kvm() -> Result<Box<dyn World>> {
    KvmEngine::availability().context("use threads as vCPUs instead: --in parked")?;
    Ok(Box::new(KvmEngine))
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn parked() -> Result<Box<dyn World>> {
    ThreadsEngine::availability()?;
    Ok(Box::new(ThreadsEngine))
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn kvm() -> Result<Box<dyn World>> {
    bail!("the laboratory needs Linux on x86-64; --in threads and --in sim do not")
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn parked() -> Result<Box<dyn World>> {
    kvm()
}

/// Returns the laboratory: vCPUs of /dev/kvm, or else threads.
pub(crate) fn engine() -> Result<Box<dyn World>> {
    kvm().or_else(|error| {
        crate::output::complain(&format!("note: {error:#}; threads serve as vCPUs instead"));
        parked()
    })
}

/// Returns for each of the laboratory's engines, for `doctor`, whether it is available, and if not,
/// why.
pub(crate) fn engines() -> [(&'static str, Result<(), String>); 2] {
    let said = |open: Result<Box<dyn World>>| open.map(drop).map_err(|error| format!("{error:#}"));
    [("/dev/kvm", said(kvm())), ("threads as vCPUs", said(parked()))]
}
