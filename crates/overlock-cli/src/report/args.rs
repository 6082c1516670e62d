// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `overlock report`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Turn results into one page of tables and charts.
///
/// Takes the JSON Lines that `bench`, `compare`, `lab` and the others write with --json or --out,
/// in any mixture. The page is one HTML file that needs no network and no script: throughput
/// against overcommit, waits, fairness, ratios to a baseline, and timelines of `lab --timeline`.
/// Several runs of one experiment stand side by side. The only computed figures are medians over
/// runs; every number comes from the records.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Files of results; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,

    /// File to write the page to; `-` is standard output
    #[arg(short, long = "output", value_name = "PAGE", default_value = "report.html")]
    pub(super) output: PathBuf,

    /// Draw the first chart of this kind alone, as an SVG picture instead of a page
    #[arg(long, value_enum, value_name = "KIND")]
    pub(super) chart: Option<Chart>,

    /// Title of the page
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,
}

/// A chart that can stand alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Chart {
    /// Throughput against vCPUs for each pCPU, or threads for each CPU
    Overcommit,
    /// Percentiles of the wait for the lock, at the highest overcommit
    Waits,
    /// Jain's index, and the least, average and most that a vCPU did
    Fairness,
    /// Which vCPU ran where, and which one held the lock
    Timeline,
}

const EXAMPLES: &str = "\
Examples:
  overlock lab --locks native-ticket,hybrid --cpus 2,4,8 --out before.jsonl
  overlock report before.jsonl -o before.html
  overlock lab --locks native-ticket,hybrid --cpus 2,4,8 --out after.jsonl
  overlock report before.jsonl after.jsonl -o both.html   # the same points side by side
  overlock compare --json -- sort --parallel=4 /etc/passwd | overlock report - -o sort.html
  overlock lab --cpus 8 --timeline 20ms --out t.jsonl     # where the timelines come from
  overlock report t.jsonl --chart timeline -o t.svg       # one chart, as a picture

A line that is not a record is named with its file and number; all others are still reported, the
page says what is missing, and the exit code is 2. docs/report.md has the rules.
What the columns mean: overlock reference
Exit codes: 0 fine, 2 a file could not be read completely, or the page could not be written.";
