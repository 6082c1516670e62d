// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock run`: an unmodified program under a chosen lock.
//!
//! The program keeps the terminal, the signals and the exit code; this process only waits beside
//! it, passes on signals that are sent to it instead, and prints the library's counters afterwards:
//! to standard error, because standard output is the program's, or to a file.

use super::launch::{self, Ended};
use super::preload::{self, LIBC, NONE, Target};
use crate::Outcome;
use crate::args::RunArgs;
use crate::output::{self, ResultFile};
use crate::sys;
use crate::table::Table;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use std::collections::BTreeMap;
use std::time::Duration;

/// The variable that names the file to which the library appends its counters when a process ends.
pub(crate) const COUNTERS: &str = "OVERLOCK_COUNTERS";

/// The counter that is not a number of events: of several processes, the longest counts.
pub(crate) const LONGEST_STALL: &str = "mutex.longest_stall_ns";

/// Signals that are passed on to the program when another process has sent them to this one, as
/// supervisors do. Signals of the terminal (Ctrl-C, Ctrl-\) come from the kernel and reach the
/// program directly; here they only must not kill.
const PASSED_ON: [i32; 6] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Runs the sub-command.
pub(crate) fn main(args: &RunArgs) -> Result<Outcome> {
    let lock = args.lock.as_deref().or(args.lock_first.as_deref()).unwrap_or("hybrid");
    preload::known(lock)?;
    let target = Target::new(&args.command, &[lock.to_owned()])?;
    if lock == LIBC && args.out.is_some() {
        bail!(
            "under {LIBC} nothing counts, so --out would stay empty; use {NONE} to count its waits"
        );
    }
    let out = args.out.as_deref().map(ResultFile::create).transpose()?;
    let counters = tempfile::NamedTempFile::new().context("can't make a file for the counters")?;
    let mut command = target.command(lock);
    if lock != LIBC {
        command.env(COUNTERS, counters.path());
    }

    // A signal that is ignored here (`nohup`) must be ignored there; a handler would undo that.
    let signals = PASSED_ON.iter().filter(|signal| !sys::is_ignored(**signal));
    let mut signals = SignalsInfo::<WithOrigin>::new(signals).context("can't watch for signals")?;
    let mut child = launch::Running::start(command)?;
    let ended = loop {
        if let Some(ended) = child.wait(Duration::from_millis(100))? {
            break ended;
        }
        signals
            .pending()
            .filter(|origin| matches!(origin.cause, Cause::Sent(_)))
            .for_each(|origin| child.signal(origin.signal));
    };
    if lock != LIBC {
        let text = std::fs::read_to_string(counters.path()).unwrap_or_default();
        match out {
            // The program has ended, and will not run again for its counters.
            Some(file) => keep_counters(&text, file).inspect_err(|_| {
                print_counters(&text, true);
                output::complain(&format!("overlock: the program {ended}"));
            })?,
            None => print_counters(&text, args.json),
        }
    }
    Ok(Outcome::Code(match ended {
        Ended::Code(code) => u8::try_from(code).unwrap_or(u8::MAX),
        Ended::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
    }))
}

const NO_COUNTERS: &str =
    "overlock: the program left no counters (a signal or _exit may have ended it)";

/// Writes the counters of the program's processes to a file, one line each.
fn keep_counters(text: &str, mut file: ResultFile) -> Result<()> {
    let objects = objects(text);
    if objects.is_empty() {
        output::complain(NO_COUNTERS);
    }
    objects.iter().try_for_each(|object| file.write(&object.to_string()))?;
    file.end()
}

/// Prints the counters of the program's processes: one object each, or their sum.
fn print_counters(text: &str, json: bool) {
    let objects = objects(text);
    if objects.is_empty() {
        output::complain(NO_COUNTERS);
    } else if json {
        objects.iter().for_each(|object| output::complain(&object.to_string()));
    } else {
        let plural = if objects.len() == 1 { "process" } else { "processes" };
        let count = objects.len();
        output::complain(&format!(
            "overlock: counters of {count} {plural} at exit\n{}",
            table(&objects)
        ));
    }
}

/// Parses what each process has written.
fn objects(text: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(text).into_iter().map_while(Result::ok).collect()
}

/// Adds up the counters of all processes; returns nothing if none has written any.
pub(crate) fn counters(text: &str) -> Option<BTreeMap<String, u64>> {
    let objects = objects(text);
    (!objects.is_empty()).then(|| sums(&objects))
}

fn table(objects: &[Value]) -> Table {
    let sums = sums(objects);
    let mut table = Table::new(&["counter", "events"]);
    if sums.is_empty() {
        table.row(vec!["(no lock was ever contended)".into()]);
    }
    sums.into_iter().for_each(|(name, sum)| table.row(vec![name, sum.to_string()]));
    table
}

/// Adds up the counters of all processes, inner ones as `outer.inner`; leaves out zeros. Of the
/// longest waits it takes the longest.
fn sums(objects: &[Value]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    objects.iter().for_each(|object| add("", object, &mut sums));
    sums.remove("pid");
    sums.retain(|_, sum| *sum > 0);
    sums
}

fn add(name: &str, value: &Value, sums: &mut BTreeMap<String, u64>) {
    match value {
        Value::Object(fields) => {
            let dot = if name.is_empty() { "" } else { "." };
            fields
                .iter()
                .for_each(|(field, value)| add(&format!("{name}{dot}{field}"), value, sums));
        }
        Value::Number(number) => {
            let (sum, own) = (sums.entry(name.to_owned()).or_default(), number.as_u64());
            let own = own.unwrap_or(0);
            *sum = if name == LONGEST_STALL { own.max(*sum) } else { *sum + own };
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_all_processes_are_added_up() {
        let first = serde_json::json!({"pid": 7, "lock": "hybrid", "events": {"pv_wait_node": 3, "pv_wait_head": 0}});
        let second = serde_json::json!({"pid": 8, "lock": "hybrid", "events": {"pv_wait_node": 4}});
        let text = table(&[first, second]).to_string();
        assert_eq!(text, "  counter              events\n  events.pv_wait_node       7\n");
    }

    #[test]
    fn of_the_stalls_of_all_processes_the_longest_counts() {
        let process = |ns: u64| serde_json::json!({"mutex": {"longest_stall_ns": ns}});
        let sums = sums(&[process(3), process(9), process(4)]);
        assert_eq!(sums.get(LONGEST_STALL), Some(&9));
    }
}
