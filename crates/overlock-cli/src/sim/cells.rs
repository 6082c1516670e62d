// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runs of a command: planned, made in many processes, kept, and found when they are needed.
//!
//! A caller asks for a run by its configuration alone, and for the nth time in the nth round. So
//! its seed is that of the round, the same for all points: they differ only in their configuration,
//! not by chance.

use super::pool;
use super::sweep::{Folder, Shard};
use super::task::Task;
use crate::lab::{Planned, Ran, Record};
use crate::progress::Progress;
use crate::{Outcome, interrupt, output};
use anyhow::Result;
use overlock_sim::performance::{HostProfile, Setup};
use overlock_sim::seed_of;
use overlock_world::Config;
use overlock_world::workload::Profile;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) host: HostProfile,
    pub(super) seed: u64,
    pub(super) seq_cst: bool,
    pub(super) jobs: usize,
    pub(super) sweep: Option<PathBuf>,
    pub(super) shard: Option<Shard>,
    /// How often each run was requested.
    pub(super) asked: RefCell<BTreeMap<String, u64>>,
    /// The runs that have been made.
    pub(super) made: RefCell<BTreeMap<String, Record>>,
}

impl Cells {
    fn task(&self, config: &Config<'_>, profile: &Profile, lock: &str, round: u64) -> Task {
        let setup = Setup {
            host: self.host.clone(),
            seed: seed_of(self.seed, round),
            seq_cst: self.seq_cst,
        };
        Task::new(&setup, config, profile, lock)
    }

    /// Returns what distinguishes a run from others, except for its round.
    fn point(&self, config: &Config<'_>, profile: &Profile, lock: &str) -> Result<String> {
        self.task(config, profile, lock, 0).key()
    }

    /// Returns the next run of a point: one that has been made, or made now.
    pub(super) fn run(&self, config: &Config<'_>, profile: &Profile, lock: &str) -> Result<Ran> {
        if config.timeline.is_some() {
            // Beyond all rounds, and in no file.
            let setup = Setup { host: self.host.clone(), seed: self.seed, seq_cst: self.seq_cst };
            return super::simulate(&setup, config, profile, lock);
        }
        let point = self.point(config, profile, lock)?;
        let round = {
            let mut asked = self.asked.borrow_mut();
            let times = asked.entry(point).or_default();
            *times += 1;
            *times
        };
        let task = self.task(config, profile, lock, round);
        let made = self.made.borrow().get(&task.key()?).cloned();
        made.map_or_else(|| task.run(), |record| Ok(Ok(record)))
    }

    /// Makes the planned runs that are missing. Returns the outcome if there is nothing to report:
    /// it was interrupted, or is a part of a sweep whose other parts are missing.
    pub(super) fn ahead(&self, plan: &[Planned<'_>], rounds: usize) -> Result<Option<Outcome>> {
        let mut tasks = Vec::new();
        for round in 1..=rounds as u64 {
            for (config, profile, lock) in plan {
                let asked = self.asked.borrow();
                let before = asked.get(&self.point(config, profile, lock)?).copied();
                let task = self.task(config, profile, lock, before.unwrap_or(0) + round);
                tasks.push((task.key()?, task));
            }
        }
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        let mut folder = match &self.sweep {
            Some(path) => {
                let commit = env!("OVERLOCK_COMMIT");
                if commit.ends_with("-dirty") || commit == "unknown" {
                    output::complain(
                        "warning: this program was built from changes without a commit; it \
                         takes runs of other such builds for its own: use a new folder for each",
                    );
                }
                let (folder, found) = Folder::open(path, shard)?;
                self.made.borrow_mut().extend(found);
                Some(folder)
            }
            None => None,
        };
        let mine = (0..).zip(&tasks).filter(|(at, _)| shard.has(*at)).map(|(_, task)| task);
        let (found, missing): (Vec<_>, Vec<_>) =
            mine.partition(|(key, _)| self.made.borrow().contains_key(key));
        let missing: Vec<&Task> = missing.into_iter().map(|(_, task)| task).collect();
        let progress = Progress::new(missing.len() as u64);
        let (mut kept, mut failed) = (0, Vec::new());
        pool::run(&missing, self.jobs, |task, ran| {
            progress.say(&task.name());
            progress.step();
            let record = match ran {
                Ok(record) => record,
                Err(said) => {
                    failed.push(format!("failed: {}: {said}", task.name()));
                    return Ok(());
                }
            };
            kept += 1;
            if let Some(folder) = &mut folder {
                folder.add(task, &record)?;
            }
            self.made.borrow_mut().insert(task.key()?, record);
            Ok(())
        })?;
        progress.finish();
        if interrupt::seen() {
            match &self.sweep {
                Some(folder) => output::complain(&format!(
                    "interrupted: {} of {} runs are in {}; the same command continues from there",
                    found.len() + kept,
                    found.len() + missing.len(),
                    folder.display()
                )),
                None => output::complain(&format!(
                    "interrupted: {kept} of {} runs were made, so there are no results; with \
                     --sweep FOLDER runs are kept, and the same command continues from there",
                    missing.len()
                )),
            }
            return Ok(Some(Outcome::Interrupted));
        }
        let made = self.made.borrow();
        let absent = tasks.iter().filter(|(key, _)| !made.contains_key(key)).count();
        if self.sweep.is_some() {
            let (number, of) = (shard.number, shard.of);
            output::complain(&format!(
                "part {number} of {of}: {} runs found, {kept} made; {absent} of all {} are missing",
                found.len(),
                tasks.len(),
            ));
        }
        if absent == 0 || self.shard.is_none() {
            // A failed run is reported when it is requested.
            return Ok(None);
        }
        failed.iter().for_each(|said| output::complain(said));
        Ok(Some(if failed.is_empty() { Outcome::Fine } else { Outcome::CheckFailed }))
    }
}
