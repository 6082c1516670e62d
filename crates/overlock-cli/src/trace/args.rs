//! The command line of `trace`.

use crate::flags::{time, whole};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use overlock_trace::Wanted;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// Tell why a program's threads wait: which locks, and what their holders did meanwhile.
///
/// The program runs unchanged, with whatever locks it has. The diagnosis splits the time that
/// threads waited for each lock by what its holder did: it ran, it had no processor, its group's
/// quota was spent, it slept, or the lock was free and the next thread on its way. It also finds
/// loops in which threads wait on a processor, which no system call shows.
#[derive(Debug, Args)]
#[command(override_usage = "overlock trace [OPTIONS] -- PROGRAM [ARGS]...\n       \
                            overlock trace [OPTIONS] --pid PID")]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct TraceArgs {
    /// Watch a program that runs already, until Ctrl-C, its end, or --for
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    #[arg(value_parser = |of: &str| whole::<u32>(of, 1..=i32::MAX as u32))]
    pub(crate) pid: Option<u32>,

    /// Stop watching after this time (10s, 500ms); the program itself goes on
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    pub(crate) length: Option<Duration>,

    /// Where the knowledge comes from
    #[arg(long, default_value = "auto", value_parser = sources())]
    pub(crate) source: Wanted,

    /// Show this many locks and loops
    #[arg(long, value_name = "N", default_value = "10")]
    #[arg(value_parser = |of: &str| whole(of, NonZeroUsize::MIN..=NonZeroUsize::MAX))]
    pub(crate) top: NonZeroUsize,

    /// Write JSON Lines instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write JSON Lines to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Write a timeline of all threads for Perfetto (ui.perfetto.dev) and chrome://tracing, or, if
    /// the name ends in .profile.json, for the Firefox Profiler (profiler.firefox.com)
    #[arg(long, value_name = "FILE")]
    pub(crate) timeline: Vec<PathBuf>,

    /// Write the waits as folded stacks for flame graphs, in microseconds
    #[arg(long, value_name = "FILE")]
    pub(crate) folded: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required_unless_present = "pid", value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

/// The sources of knowledge about threads.
const SOURCES: [(Wanted, &str, &str); 4] = [
    (Wanted::Auto, "auto", "Tracepoints if they are allowed, else a preloaded library, else looks"),
    (
        Wanted::Tracepoints,
        "tracepoints",
        "Every wait and switch, by the kernel's tracepoints: needs root or CAP_PERFMON",
    ),
    (
        Wanted::Preload,
        "preload",
        "Every wait in the C library's calls, by a preloaded library: needs no rights, but a \
         dynamically linked program that it starts itself",
    ),
    (
        Wanted::Looks,
        "looks",
        "A look at all threads many times a second: needs no rights over own programs",
    ),
];

fn sources() -> impl TypedValueParser<Value = Wanted> {
    let names = SOURCES.map(|(_, name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(names).map(|name| {
        SOURCES.iter().find(|(_, known, _)| *known == name).map_or(Wanted::Auto, |one| one.0)
    })
}

const EXAMPLES: &str = "\
Examples:
  overlock trace -- sort --parallel=4 /etc/passwd
  overlock trace --for 10s -- tar cf /dev/null /etc/passwd
  overlock trace --json --out trace.jsonl -- sort --parallel=4 /etc/passwd
  overlock trace --folded waits.txt --timeline waits.json -- sort --parallel=4 /etc/passwd

As root, or with CAP_PERFMON, every wait is seen; otherwise those in the C library's calls are,
or threads are looked at, often.
The report goes to standard error; with --pid, to standard output.
Ctrl-C ends the watching; what was seen is printed.
Exit codes: those of the program (128 + n if it was killed by signal n), 125 could not run or write,
130 interrupted; with --pid 0, 2 and 130.";
