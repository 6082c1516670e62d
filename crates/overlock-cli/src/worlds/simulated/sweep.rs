// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sweep's folder: finished runs, in files that can be copied together.
//!
//! Each part of a sweep appends lines to its own file. A reader of the folder takes the lines of
//! all files, so parts merge when their files lie in one folder. Only complete lines count, so a
//! sweep that was killed continues where it was.

use super::task::Task;
use crate::output;
use anyhow::{Context, Result};
use overlock_world::Run;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A part of a sweep: the `number`th of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) number: usize,
    pub(crate) of: usize,
}

impl Shard {
    /// The whole sweep.
    pub(crate) const WHOLE: Self = Self { number: 1, of: 1 };

    /// Returns whether the run at this place in the plan belongs to this part. Neighbours, which
    /// take about the same time, go to different parts.
    pub(super) const fn has(self, at: usize) -> bool {
        at % self.of == self.number - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(number, of)| {
            Some(Self { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        let known = parts.filter(|shard| (1..=shard.of).contains(&shard.number));
        known.ok_or_else(|| "choose 1/N to N/N, as in 2/4".into())
    }
}

/// A finished run, as a line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Cell<'a> {
    kind: &'a str,
    key: String,
    run: String,
    record: Run,
}

/// The folder of a sweep.
#[derive(Debug)]
pub(super) struct Folder {
    file: File,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder, or makes it, and finds the finished runs.
    pub(super) fn open(path: &Path, shard: Shard) -> Result<(Self, BTreeMap<String, Run>)> {
        let name = path.display();
        fs::create_dir_all(path).with_context(|| format!("can't make the folder {name}"))?;
        let mut found = BTreeMap::new();
        let entries = fs::read_dir(path).with_context(|| format!("can't read {name}"))?;
        for entry in entries {
            let file = entry.with_context(|| format!("can't read {name}"))?.path();
            if file.extension().is_some_and(|extension| extension == "jsonl") {
                found.extend(read(&file)?);
            }
        }
        let path = path.join(format!("part-{}-of-{}.jsonl", shard.number, shard.of));
        let file = append(&path).with_context(|| format!("can't write {}", path.display()))?;
        Ok((Self { file, path }, found))
    }

    /// The file, for people.
    pub(super) fn display(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Adds a run.
    pub(super) fn add(&mut self, task: &Task, record: &Run) -> Result<()> {
        let cell = Cell { kind: "cell", key: task.key(), run: task.name(), record: record.clone() };
        let line = serde_json::to_string(&cell)?;
        // In one piece, so that running a part twice by mistake does no harm.
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.with_context(|| format!("can't write {}", self.path.display()))
    }
}

/// Opens a file for appending. If its last line is incomplete, ends that line first.
fn append(path: &Path) -> std::io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    if last != *b"\n" {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// Reads the runs in a file. Other lines are reported and skipped.
fn read(path: &Path) -> Result<BTreeMap<String, Run>> {
    let name = path.display();
    let bytes = fs::read(path).with_context(|| format!("can't read {name}"))?;
    let mut found = BTreeMap::new();
    for (number, line) in (1..).zip(String::from_utf8_lossy(&bytes).lines()) {
        match serde_json::from_str::<Cell<'_>>(line) {
            Ok(cell) => drop(found.insert(cell.key, cell.record)),
            Err(_) if line.is_empty() => {}
            Err(_) => output::complain(&format!(
                "note: {name}:{number} is not a complete run of this version: ignored"
            )),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_read_and_have_each_run_once() {
        for (text, ok) in [("1/1", true), ("2/4", true), ("0/4", false), ("5/4", false)] {
            assert_eq!(text.parse::<Shard>().is_ok(), ok, "{text}");
        }
        for text in ["", "1", "a/b", "-1/2", "1/0"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
        for at in 0..20 {
            let takers = (1..=3).filter(|&number| Shard { number, of: 3 }.has(at)).count();
            assert_eq!(takers, 1);
        }
    }
}
