//! `overlock doctor`: what this machine offers, and what would be better.
//!
//! Every finding is something that changes how locks behave here, or how far a measurement can be
//! trusted. None of them fails: the exit code is 0 whatever the findings.

mod calibrate;
mod finding;
mod kernel;
mod processors;

use crate::added::Added;
use crate::outcome::Outcome;
use crate::{output, terminal};
use anyhow::Result;
use clap::Args;
use finding::laid_out;
use overlock_results::row::{Doctor, Row, Symptom};
use std::path::PathBuf;

/// Show what this machine offers for running and measuring locks, and what would be better.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Measure what cache lines, exits, switches and wake-ups cost here, and write a host's file
    /// for `bench --in sim:FILE`
    #[arg(long, value_name = "FILE")]
    calibrate: Option<PathBuf>,

    /// Print one JSON record instead of the table
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  overlock doctor
  overlock doctor --calibrate here.toml
  overlock doctor --json";

pub(crate) fn main(args: &DoctorArgs, added: &Added) -> Result<Outcome> {
    if let Some(path) = &args.calibrate {
        return calibrate::main(path);
    }
    let mut findings = vec![
        processors::cpus(),
        processors::quota(),
        processors::load(),
        processors::steal(),
        processors::hypervisor(),
        kernel::kernel(),
        kernel::tick(),
        kernel::tsc(),
        processors::governor(),
        kernel::futex(),
        kernel::restartable_sequences(),
        kernel::slice_extension(),
        preload_library(),
        laboratory(),
    ];
    findings.extend(added.findings());
    if args.json {
        let record = Row::Doctor(Doctor {
            version: env!("CARGO_PKG_VERSION").into(),
            commit: env!("OVERLOCK_COMMIT").into(),
            findings,
        });
        output::print(&serde_json::to_string(&record)?)?;
        return Ok(Outcome::Fine);
    }
    let longest = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    for finding in &findings {
        output::print(&laid_out(finding, longest, terminal::stdout_width()))?;
    }
    Ok(Outcome::Fine)
}

/// Checks whether there can be virtual CPUs.
fn laboratory() -> Symptom {
    match crate::worlds::kvm() {
        Ok(_) => Symptom::new("/dev/kvm", "usable: `bench --in kvm`"),
        Err(why) => Symptom::new("/dev/kvm", format!("{why:#}"))
            .advise(true, "until then there is no `bench --in kvm`"),
    }
}

fn preload_library() -> Symptom {
    match overlock_programs::Library::find().map(|library| library.path) {
        Ok(path) => Symptom::new("preload library", path.display().to_string()),
        Err(error) => Symptom::new("preload library", "not found")
            .advise(true, format!("`run` and `compare` need it: {error:#}")),
    }
}
