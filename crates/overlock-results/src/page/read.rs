//! Reads files into runs. A line that is not a record is reported, and all others are kept.

use crate::Error;
use crate::row::{Head, Point, Row, Summary, TimelineRow};
use crate::units::counted;
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
pub struct Recording {
    pub(crate) name: String,
    pub(crate) file: String,
    /// Absent if the file does not have it.
    pub(crate) head: Option<Head>,
    pub(crate) points: Vec<Point>,
    pub(crate) summaries: Vec<Summary>,
    pub(crate) timelines: Vec<TimelineRow>,
    pub(crate) others: Vec<Other>,
}

/// A row that is shown as it was written: a sentence, or a row of a table.
#[derive(Debug)]
pub(crate) struct Other {
    pub(crate) kind: String,
    pub(crate) value: Value,
}

/// What was read, and what could not be.
#[derive(Debug, Default)]
pub struct Results {
    pub runs: Vec<Recording>,
    /// Sentences, each of which names file and line.
    pub complaints: Vec<String>,
}

/// Hands each file to `read`, with its name; returns complaints about those that can't be opened.
/// A path that is named twice is an error: as two runs, a file would seem to agree with itself.
fn each(
    paths: &[PathBuf],
    mut read: impl FnMut(&str, &mut dyn BufRead),
) -> Result<Vec<String>, Error> {
    let (mut complaints, mut known) = (Vec::new(), Vec::new());
    for path in paths {
        let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
        if known.contains(&whole) {
            let name = path.display();
            return Err(Error(format!(
                "{name} is named twice; a run can't be compared with itself"
            )));
        }
        known.push(whole);
        if path.as_os_str() == "-" {
            read("standard input", &mut std::io::stdin().lock());
            continue;
        }
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => read(&name, &mut BufReader::new(file)),
            Err(error) => complaints.push(format!("{name}: can't open it: {error}")),
        }
    }
    Ok(complaints)
}

/// Reads all files; `-` is standard input. What can't be read is in the complaints of the results.
pub fn files(paths: &[PathBuf]) -> Result<Results, Error> {
    let mut results = Results::default();
    let unopened = each(paths, |name, input| results.read(name, input))?;
    results.complaints.extend(unopened);
    Ok(results)
}

/// Reads the rows of all files; `-` is standard input. Also returns complaints about what is none.
pub fn rows(paths: &[PathBuf]) -> Result<(Vec<Row>, Vec<String>), Error> {
    let (mut rows, mut complaints) = (Vec::new(), Vec::new());
    let unopened = each(paths, |name, input| {
        lines(input, name, &mut complaints, |row, _| {
            rows.push(row);
            Ok(())
        });
    })?;
    complaints.extend(unopened);
    Ok((rows, complaints))
}

/// Formats A to Z, then AA, AB, ...
fn letters(number: usize) -> String {
    let last = char::from(b'A' + (number % 26) as u8);
    let before = number.checked_sub(26).map_or_else(String::new, |rest| letters(rest / 26));
    format!("{before}{last}")
}

/// Hands each row to `take`, with its line, to the end, or until it is clear that these are
/// something else.
fn lines(
    mut input: impl BufRead,
    name: &str,
    complaints: &mut Vec<String>,
    mut take: impl FnMut(Row, &str) -> Result<(), String>,
) {
    let (mut kept, mut bad) = (0_usize, 0);
    for number in 1_usize.. {
        let mut bytes = Vec::new();
        match (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) if number == 1 => complaints.push(format!(
                "{name}: it is empty; was the command interrupted before its first result?"
            )),
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                complaints.push(format!("{name}: can't read line {number}: {error}"));
                return;
            }
        }
        let taken = match std::str::from_utf8(&bytes) {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => Row::parse(text.trim_end())
                .map_err(|why| format!("not a record: {why}"))
                .and_then(|row| take(row, text)),
            Err(_) => Err("this is not text".into()),
        };
        match taken {
            Ok(()) => kept += 1,
            Err(why) => {
                complaints.push(format!("{name}:{number}: {why}"));
                bad += 1;
            }
        }
        if bad == HOPELESS && kept == 0 {
            complaints.push(format!(
                "{name}: the rest is not read: it does not seem to be results of overlock --json"
            ));
            return;
        }
    }
}

impl Results {
    /// Adds what `input` has, under the name of its file. What can't be read is a complaint.
    pub fn read(&mut self, name: &str, input: impl BufRead) {
        let Results { runs, complaints } = self;
        let mut run = Recording { file: name.to_owned(), ..Recording::default() };
        lines(input, name, complaints, |row, line| run.take(row, line, runs));
        runs.push(run);
        self.runs.retain(|run| !run.is_empty());
        for (number, run) in self.runs.iter_mut().enumerate() {
            run.name = letters(number);
        }
    }

    /// Describes how much there is: `2 runs, 40 points, 1 timeline`.
    pub fn extent(&self) -> String {
        let points: usize = self.runs.iter().map(|run| run.points.len()).sum();
        let timelines: usize = self.runs.iter().map(|run| run.timelines.len()).sum();
        let runs = counted(self.runs.len(), "run");
        format!("{runs}, {}, {}", counted(points, "point"), counted(timelines, "timeline"))
    }
}

impl Recording {
    fn is_empty(&self) -> bool {
        self.head.is_none() && !self.has_results()
    }

    pub fn has_results(&self) -> bool {
        !(self.points.is_empty()
            && self.summaries.is_empty()
            && self.timelines.is_empty()
            && self.others.is_empty())
    }

    /// Returns whether both come from the same machine and the same commit, as far as both record
    /// it; a run that does not record it is only like runs of its own file.
    pub(crate) fn is_like(&self, other: &Recording) -> bool {
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
    fn take(&mut self, row: Row, line: &str, runs: &mut Vec<Recording>) -> Result<(), String> {
        match row {
            Row::Run(head) => {
                let next =
                    Recording { file: self.file.clone(), head: Some(head), ..Recording::default() };
                runs.push(std::mem::replace(self, next));
            }
            Row::Point(point) if point.world.is_empty() => {
                return Err("not a record: it is a point, but has no world".into());
            }
            Row::Point(point) => self.points.push(*point),
            Row::Timeline(timeline) => {
                check(&timeline).map_err(|why| format!("a broken timeline: {why}"))?;
                self.timelines.push(*timeline);
            }
            // Each run of a program is also in the samples of its point.
            Row::Sample(_) => {}
            Row::Other(value) if value["kind"] == "sample" => {}
            row => {
                if let Row::Summary(summary) = row {
                    self.summaries.push(summary);
                }
                // As it was written: a field that an old version did not have is no zero.
                let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
                let kind = value["kind"].as_str().unwrap_or_default().to_owned();
                self.others.push(Other { kind, value });
            }
        }
        Ok(())
    }
}

fn check(timeline: &TimelineRow) -> Result<(), String> {
    let TimelineRow { from_ns, to_ns, cpus, stints, holds, .. } = timeline;
    if from_ns >= to_ns {
        return Err(format!("it ends at {to_ns} ns, but begins at {from_ns} ns"));
    }
    let vcpus = stints.iter().map(|stint| stint.0).chain(holds.iter().map(|hold| hold.0));
    match vcpus.filter(|vcpu| vcpu >= cpus).max() {
        Some(vcpu) => Err(format!("it names vCPU {vcpu}, but there are only {cpus}")),
        None => Ok(()),
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
            ("[1,2]", "f:2: not a record: it has no kind"),
            (r#"{"kind":"point"}"#, "f:2: not a record: it is a point, but has no world"),
            (
                r#"{"kind":"run","seed":-1}"#,
                "f:2: not a record: its kind is \"run\", but invalid value",
            ),
        ] {
            let results = read(&format!("{POINT}\n{line}\n{POINT}\n"));
            assert_eq!(results.complaints.len(), 1, "{results:?}");
            assert!(results.complaints[0].starts_with(sentence), "{results:?}");
            assert_eq!(results.runs.iter().map(|run| run.points.len()).sum::<usize>(), 2);
        }
    }

    #[test]
    fn a_timeline_that_can_not_be_drawn_is_a_complaint() {
        let timeline = |to: u64, vcpu: u32| {
            let line = format!(
                r#"{{"kind":"timeline","world":"kvm","workload":"micro","lock":"hybrid",
                "policy":"none","cpus":2,"pcpus":1,"cs_ns":0,"ncs_ns":0,"from_ns":5,"to_ns":{to},
                "stints":[[{vcpu},"running",0,5,9]],"holds":[]}}"#
            );
            read(&line.replace('\n', "")).complaints.join("; ")
        };
        assert_eq!(timeline(9, 1), "");
        assert_eq!(timeline(5, 1), "f:1: a broken timeline: it ends at 5 ns, but begins at 5 ns");
        let unknown = "f:1: a broken timeline: it names vCPU 2, but there are only 2";
        assert_eq!(timeline(9, 2), unknown);
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
