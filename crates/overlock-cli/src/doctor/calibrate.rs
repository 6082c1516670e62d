//! `overlock doctor --calibrate`: this machine as a host of the simulator, in a file.

use crate::machine::{allowed_cpus, cpuinfo};
use crate::outcome::Outcome;
use crate::{output, worlds};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::Path;

pub(super) fn main(path: &Path) -> Result<Outcome> {
    // A file that can't be written is noticed before anything is measured.
    try_to_open(path)?;
    let model = cpuinfo("model name").unwrap_or_else(|| "an unnamed processor".into());
    let lab = worlds::kvm()?;
    let text = overlock_sim::hosts::calibrate(&*lab, allowed_cpus(), &model)?;
    if let Err(error) = std::fs::write(path, &text) {
        // Measured is measured.
        output::print(text.trim_end())?;
        bail!("can't write {}: {error}; it is on standard output", path.display());
    }
    output::print(&format!("wrote {0}; use it: overlock bench --in sim:{0}", path.display()))?;
    Ok(Outcome::Fine)
}

/// Opens a file for writing, and leaves it as it was.
fn try_to_open(path: &Path) -> Result<()> {
    let existed = path.exists();
    let opened = File::options().create(true).append(true).open(path);
    opened.with_context(|| format!("can't write {}", path.display()))?;
    if !existed {
        // Should this fail, an empty file is left until the measurement is done.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}
