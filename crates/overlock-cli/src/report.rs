//! `overlock report`: `overlock-results` makes the page, and this file writes it.

use crate::outcome::Outcome;
use crate::output::Sink;
use crate::{bench, output, process};
use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use overlock_results::page::{Drawing, Recording};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Turn results into one page of tables and charts.
///
/// Takes the JSON Lines that `bench`, `compare` and the others write with --json or --out,
/// in any mixture. The page is one HTML file that needs no network: throughput against overcommit,
/// waits, fairness, ratios to a baseline, and timelines of `bench --timeline`, into which a script
/// zooms; everything else works without scripts. Several runs of one experiment stand side by side.
/// The only computed figures are medians over runs; every number comes from the records.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Files of results; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// File to write the page to; `-` is standard output
    #[arg(short, long = "output", value_name = "PAGE", default_value = "report.html")]
    output: PathBuf,

    /// Draw the first chart of this kind alone, as an SVG picture instead of a page
    #[arg(long, value_parser = kinds(), value_name = "KIND")]
    chart: Option<Drawing>,

    /// Title of the page
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Judge the results by what Overlock promises instead, as `bench --check` does, and programs
    /// as `compare` does; exit 1 if a bound is missed or a program failed
    #[arg(long, conflicts_with_all = ["output", "chart", "title"])]
    check: bool,
}

fn kinds() -> impl TypedValueParser<Value = Drawing> {
    let names = Drawing::ALL.map(|(_, name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names).map(|name| Drawing::named(&name).expect("it is one of them"))
}

const EXAMPLES: &str = "\
Examples:
  overlock bench --in kvm --locks native-ticket,hybrid --cpus 2,4,8 --out before.jsonl
  overlock report before.jsonl -o before.html
  overlock bench --in kvm --locks native-ticket,hybrid --cpus 2,4,8 --out after.jsonl
  overlock report before.jsonl after.jsonl -o both.html   # the same points side by side
  overlock compare --json -- sort --parallel=4 /etc/passwd | overlock report - -o sort.html
  overlock bench --in kvm --cpus 8 --timeline 20ms --out t.jsonl   # where the timelines come from
  overlock report t.jsonl --chart timeline -o t.svg       # one chart, as a picture
  overlock report --check before.jsonl                    # does it keep its promises?

A line that is not a record is named with its file and number; all others are still reported, the
page says what is missing, and the exit code is 2. docs/report.md has the rules.
What the columns mean: overlock reference
Exit codes: 0 fine, 1 --check found a bound missed, 2 a file could not be read completely, or the page could not be written.";

pub(crate) fn main(args: &ReportArgs) -> Result<Outcome> {
    if args.check {
        return check(&args.files);
    }
    if args.files.iter().any(|file| is_same(file, &args.output)) {
        bail!("{} has the results and would be overwritten", args.output.display());
    }
    let results = overlock_results::page::files(&args.files)?;
    for complaint in &results.complaints {
        output::complain(&format!("overlock: {complaint}"));
    }
    if !results.runs.iter().any(Recording::has_results) {
        bail!(
            "there is nothing to report; results come from --json or --out of bench, compare, ..."
        );
    }
    let text = match args.chart {
        Some(kind) => overlock_results::page::picture(kind, &results)?,
        None => overlock_results::page::page(&results, args.title.as_deref()),
    };
    write(&args.output, &text)?;
    if args.output.as_os_str() != "-" {
        output::complain(&format!("{}: {}", args.output.display(), results.extent()));
    }
    // Every complaint has been printed; the exit code shows that there were some.
    Ok(if results.complaints.is_empty() { Outcome::Fine } else { Outcome::Code(2) })
}

/// Judges the rows of files. Lines that are none are named, and all others are judged.
fn check(files: &[PathBuf]) -> Result<Outcome> {
    let (rows, complaints) = overlock_results::page::rows(files)?;
    for complaint in &complaints {
        output::complain(&format!("overlock: {complaint}"));
    }
    let mut sink = Sink::default();
    let verdicts = [process::report::judge(&rows, &mut sink)?, bench::judge(&rows, &mut sink)?];
    if verdicts == [None, None] {
        bail!("there is nothing to judge: no bound is about these results");
    }
    sink.end(match (complaints.is_empty(), verdicts.contains(&Some(false))) {
        (false, _) => Outcome::Code(2),
        (true, true) => Outcome::CheckFailed,
        (true, false) => Outcome::Fine,
    })
}

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
    // As readable as any new file, by the umask.
    let readable = fs::Permissions::from_mode(0o666);
    let draft = tempfile::Builder::new().permissions(readable).tempfile_in(folder);
    let mut draft = draft.with_context(what)?;
    draft.write_all(text.as_bytes()).with_context(what)?;
    draft.persist(&path).with_context(what)?;
    Ok(())
}
