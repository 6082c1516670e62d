// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sweep's folder: finished runs, in files that can be copied together.
//!
//! Each part of a sweep appends lines to its own file. A reader of the folder takes the lines of
//! all files, so parts merge when their files lie in one folder. Only complete lines count, so a
//! sweep that was killed continues where it was.

use super::task::Task;
use crate::options::{Note, Shard};
use anyhow::{Context, Result};
use overlock_world::Run;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

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
    pub(super) fn open(
        path: &Path,
        shard: Shard,
        note: Note,
    ) -> Result<(Self, BTreeMap<String, Run>)> {
        let name = path.display();
        fs::create_dir_all(path).with_context(|| format!("can't make the folder {name}"))?;
        let mut found = BTreeMap::new();
        let entries = fs::read_dir(path).with_context(|| format!("can't read {name}"))?;
        for entry in entries {
            let file = entry.with_context(|| format!("can't read {name}"))?.path();
            if file.extension().is_some_and(|extension| extension == "jsonl") {
                found.extend(read(&file, note)?);
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
    pub(super) fn add(&mut self, task: &Task, key: String, record: &Run) -> Result<()> {
        let cell = Cell { kind: "cell", key, run: task.name(), record: record.clone() };
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
fn read(path: &Path, note: Note) -> Result<BTreeMap<String, Run>> {
    let name = path.display();
    let bytes = fs::read(path).with_context(|| format!("can't read {name}"))?;
    let mut found = BTreeMap::new();
    for (number, line) in (1..).zip(String::from_utf8_lossy(&bytes).lines()) {
        match serde_json::from_str::<Cell<'_>>(line) {
            Ok(cell) => drop(found.insert(cell.key, cell.record)),
            Err(_) if line.is_empty() => {}
            Err(_) => note(&format!(
                "note: {name}:{number} is not a complete run of this version: ignored"
            )),
        }
    }
    Ok(found)
}
