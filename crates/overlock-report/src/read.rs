// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads files into runs. A line that is not a record is reported, and all others are kept.

use crate::record::{Head, Other, Point, Summary, Timeline};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

/// A line longer than this is not a record: the largest have samples of a thousand vCPUs.
const LONGEST_LINE: u64 = 256 << 20;

/// The number of complaints after which the rest of a file is not read: it is something else
/// altogether.
const HOPELESS: usize = 5;

/// All records from one `run` record to the next.
#[derive(Debug, Default)]
pub struct Run {
    /// A, B, C, ...
    pub(crate) name: String,
    pub(crate) file: String,
    /// Absent if the file does not have it.
    pub(crate) head: Option<Head>,
    pub(crate) points: Vec<Point>,
    pub(crate) summaries: Vec<Summary>,
    pub(crate) timelines: Vec<Timeline>,
    pub(crate) others: Vec<Other>,
}

/// What was read, and what could not be.
#[derive(Debug, Default)]
pub struct Results {
    /// In the order in which they were read.
    pub runs: Vec<Run>,
    /// Sentences, each of which names file and line.
    pub complaints: Vec<String>,
}

/// Reads all files. The only error is a path that is named twice.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Results, PathBuf> {
    let mut results = Results::default();
    let mut known = Vec::new();
    for path in paths {
        let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
        if known.contains(&whole) {
            return Err(path.clone());
        }
        known.push(whole);
        if path.as_os_str() == "-" {
            results.read("standard input", std::io::stdin().lock());
            continue;
        }
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => results.read(&name, BufReader::new(file)),
            Err(error) => results.complaints.push(format!("{name}: can't open it: {error}")),
        }
    }
    Ok(results)
}

/// Formats A to Z, then AA, AB, ...
fn letters(number: usize) -> String {
    let last = char::from(b'A' + (number % 26) as u8);
    let before = number.checked_sub(26).map_or_else(String::new, |rest| letters(rest / 26));
    format!("{before}{last}")
}

/// Reads lines to the end, or until it is clear that they are something else.
fn lines(mut input: impl BufRead, name: &str, results: &mut Results) -> Result<(), String> {
    let (mut run, mut bad) = (Run { file: name.to_owned(), ..Run::default() }, 0);
    let (mut number, mut read) = (0, 0_usize);
    loop {
        number += 1;
        let mut bytes = Vec::new();
        let length = (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut bytes);
        if length.map_err(|error| format!("can't read line {number}: {error}"))? == 0 {
            break;
        }
        read += 1;
        let kept = match std::str::from_utf8(&bytes) {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => run.take(text, results),
            Err(_) => Err("this is not text".into()),
        };
        if let Err(error) = kept {
            results.complaints.push(format!("{name}:{number}: {error}"));
            bad += 1;
        }
        if bad == HOPELESS && run.is_empty() {
            results.runs.push(run);
            return Err(
                "the rest is not read: it does not seem to be results of overlock --json".into()
            );
        }
    }
    results.runs.push(run);
    if read == 0 {
        return Err("it is empty; was the command interrupted before its first result?".into());
    }
    Ok(())
}

impl Results {
    /// Adds what `input` has, under the name of its file. What can't be read is a complaint.
    pub fn read(&mut self, name: &str, input: impl BufRead) {
        if let Err(error) = lines(input, name, self) {
            self.complaints.push(format!("{name}: {error}"));
        }
        self.runs.retain(|run| !run.is_empty());
        for (number, run) in self.runs.iter_mut().enumerate() {
            run.name = letters(number);
        }
    }

    /// Describes how much there is: `2 runs, 40 points, 1 timeline`.
    #[must_use]
    pub fn extent(&self) -> String {
        let plural = |n: usize, name: &str| format!("{n} {name}{}", if n == 1 { "" } else { "s" });
        let points: usize = self.runs.iter().map(|run| run.points.len()).sum();
        let timelines: usize = self.runs.iter().map(|run| run.timelines.len()).sum();
        let runs = plural(self.runs.len(), "run");
        format!("{runs}, {}, {}", plural(points, "point"), plural(timelines, "timeline"))
    }
}

impl Run {
    /// Returns whether nothing is known, not even the command.
    fn is_empty(&self) -> bool {
        self.head.is_none() && !self.has_results()
    }

    /// Returns whether there is anything to show.
    #[must_use]
    pub fn has_results(&self) -> bool {
        !(self.points.is_empty()
            && self.summaries.is_empty()
            && self.timelines.is_empty()
            && self.others.is_empty())
    }

    /// Returns whether both come from the same machine and the same commit, as far as both record
    /// it; a run that does not record it is only like runs of its own file.
    pub(crate) fn is_like(&self, other: &Run) -> bool {
        match (&self.head, &other.head) {
            (Some(one), Some(other)) => {
                one.machine.is(&other.machine)
                    && (&one.commit, &one.version) == (&other.commit, &other.version)
            }
            (None, None) => self.file == other.file,
            _ => false,
        }
    }

    /// Takes one record. One of the kind `run` ends this run and begins another.
    fn take(&mut self, line: &str, results: &mut Results) -> Result<(), String> {
        let value: Value = serde_json::from_str(line.trim_end()).map_err(|error| {
            // The position within a line tells more than "line 1".
            let cause = error.to_string();
            let cause = cause.split(" at line ").next().unwrap_or_default().to_owned();
            format!("not a record: {cause} at column {}", error.column())
        })?;
        let kind = value.get("kind").and_then(Value::as_str).map(str::to_owned);
        let Some(kind) = kind else {
            return Err("not a record of overlock: it has no \"kind\"".into());
        };
        let broken =
            |error: serde_json::Error| format!("a broken record of kind {kind:?}: {error}");
        match kind.as_str() {
            "run" => {
                let head = serde_json::from_value(value).map_err(broken)?;
                let next = Run { file: self.file.clone(), head: Some(head), ..Run::default() };
                results.runs.push(std::mem::replace(self, next));
            }
            "point" => self.points.push(serde_json::from_value(value).map_err(broken)?),
            "summary" => {
                self.summaries.push(Summary::deserialize_ref(&value).map_err(broken)?);
                self.others.push(Other { kind, value });
            }
            "timeline" => {
                let timeline: Timeline = serde_json::from_value(value).map_err(broken)?;
                timeline
                    .check()
                    .map_err(|error| format!("a broken record of kind {kind:?}: {error}"))?;
                self.timelines.push(timeline);
            }
            // Each run of a program is also in the samples of its point.
            "sample" => {}
            _ => self.others.push(Other { kind, value }),
        }
        Ok(())
    }
}

impl Summary {
    fn deserialize_ref(value: &Value) -> serde_json::Result<Self> {
        serde::Deserialize::deserialize(value)
    }
}

impl Timeline {
    /// Checks the facts on which a chart relies.
    fn check(&self) -> Result<(), String> {
        if self.from_ns >= self.to_ns {
            let (from, to) = (self.from_ns, self.to_ns);
            return Err(format!("it ends at {to} ns, but begins at {from} ns"));
        }
        let vcpus = self.stints.iter().map(|stint| stint.0).chain(self.holds.iter().map(|h| h.0));
        if let Some(vcpu) = vcpus.filter(|vcpu| *vcpu >= self.cpus).max() {
            return Err(format!("it names vCPU {vcpu}, but there are only {}", self.cpus));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Results {
        let mut results = Results::default();
        results.read("f", text.as_bytes());
        results
    }

    const POINT: &str = r#"{"kind":"point","world":"kvm","workload":"micro","lock":"hybrid"}"#;

    #[test]
    fn a_broken_line_is_named_and_the_others_are_kept() {
        for (line, sentence) in [
            ("{\"kind\":", "f:2: not a record: EOF while parsing a value at column 8"),
            ("[1,2]", "f:2: not a record of overlock: it has no \"kind\""),
            (
                r#"{"kind":"point"}"#,
                "f:2: a broken record of kind \"point\": missing field `world`",
            ),
            (r#"{"kind":"run","seed":-1}"#, "f:2: a broken record of kind \"run\": invalid value"),
        ] {
            let results = read(&format!("{POINT}\n{line}\n{POINT}\n"));
            assert_eq!(results.complaints.len(), 1, "{results:?}");
            assert!(results.complaints[0].starts_with(sentence), "{results:?}");
            assert_eq!(results.runs.iter().map(|run| run.points.len()).sum::<usize>(), 2);
        }
    }

    #[test]
    fn a_run_ends_where_the_next_begins() {
        let results =
            read(&format!("{{\"kind\":\"run\"}}\n{POINT}\n{{\"kind\":\"run\"}}\n{POINT}"));
        let points = |run: &Run| (run.head.is_some(), run.points.len());
        let runs: Vec<_> = results.runs.iter().filter(|run| !run.is_empty()).map(points).collect();
        assert_eq!((runs, results.complaints.len()), (vec![(true, 1), (true, 1)], 0));
    }

    #[test]
    fn a_file_of_something_else_is_given_up_soon() {
        let results = read(&"nonsense\n".repeat(1_000));
        assert_eq!(results.complaints.len(), HOPELESS + 1);
        assert!(results.complaints[HOPELESS].contains("the rest is not read"));
        assert!(read("").complaints[0].contains("f: it is empty"));
    }

    #[test]
    fn runs_are_named_beyond_z() {
        assert_eq!([0, 25, 26, 27, 52].map(letters), ["A", "Z", "AA", "AB", "BA"]);
    }
}
