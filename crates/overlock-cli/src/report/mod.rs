// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock report`: results as one page.
//!
//! ```text
//! files ─► read ─► record ─► group ─► charts, tables ─► page
//! ```
//!
//! This command measures and judges nothing, and invents no number: if a record does not hold a
//! figure, the page does not show it. Records can come from anywhere, so all text goes through
//! `maud`, which escapes it.

mod args;
mod fairness;
mod figure;
mod group;
mod others;
mod overcommit;
mod page;
mod palette;
mod picture;
mod ratios;
mod read;
mod record;
mod scale;
mod table;
mod timeline;
mod waits;
mod words;

pub(crate) use args::ReportArgs;

use crate::{Outcome, output};
use anyhow::{Context, Result, bail};
use read::{Results, Run};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Runs the sub-command.
pub(crate) fn main(args: &ReportArgs) -> Result<Outcome> {
    if args.files.iter().any(|file| is_same(file, &args.output)) {
        bail!("{} has the results and would be overwritten", args.output.display());
    }
    let results = read::files(&args.files)?;
    for complaint in &results.complaints {
        output::complain(&format!("overlock: {complaint}"));
    }
    if !results.runs.iter().any(Run::has_results) {
        bail!("there is nothing to report; results come from --json or --out of bench, lab, ...");
    }
    write(&args.output, &text(args, &results)?)?;
    tell(&args.output, &results);
    // Every complaint has been printed; the exit code shows that there were some.
    Ok(if results.complaints.is_empty() { Outcome::Fine } else { Outcome::Code(2) })
}

/// Makes the page, or the picture.
fn text(args: &ReportArgs, results: &Results) -> Result<String> {
    let sections = group::sections(&results.runs);
    Ok(match args.chart {
        Some(chart) => picture::picture(chart, results, &sections)?,
        None => page::page(results, &sections, args.title.as_deref()).into_string(),
    })
}

/// Returns whether both are one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let (one, other) = (one.canonicalize(), other.canonicalize());
    one.is_ok_and(|one| other.is_ok_and(|other| one == other && one.is_file()))
}

/// Writes the page in one step: an existing page stays until the new one is complete.
fn write(path: &Path, text: &str) -> Result<()> {
    if path.as_os_str() == "-" {
        return output::print(text);
    }
    let what = || format!("can't write {}", path.display());
    // A device or a pipe is not a file to be replaced.
    if fs::metadata(path).is_ok_and(|known| !known.is_file()) {
        return fs::write(path, text).with_context(what);
    }
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new();
    let mut draft = readable(&mut draft).tempfile_in(folder).with_context(what)?;
    draft.write_all(text.as_bytes()).with_context(what)?;
    draft.persist(&path).with_context(what)?;
    Ok(())
}

/// Makes the file as readable as any new file, by the umask.
fn readable<'a, 'b>(
    builder: &'a mut tempfile::Builder<'b, 'b>,
) -> &'a mut tempfile::Builder<'b, 'b> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666))
    }
    #[cfg(not(unix))]
    builder
}

/// Reports what was written.
fn tell(path: &Path, results: &Results) {
    let points: usize = results.runs.iter().map(|run| run.points.len()).sum();
    let timelines: usize = results.runs.iter().map(|run| run.timelines.len()).sum();
    let plural = |n: usize, name: &str| format!("{n} {name}{}", if n == 1 { "" } else { "s" });
    let runs = plural(results.runs.len(), "run");
    let (points, timelines) = (plural(points, "point"), plural(timelines, "timeline"));
    if path.as_os_str() != "-" {
        output::complain(&format!("{}: {runs}, {points}, {timelines}", path.display()));
    }
}
