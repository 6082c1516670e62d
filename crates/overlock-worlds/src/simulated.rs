// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator as a world: runs are made in advance, in many processes, and kept if there is a
//! folder for them.

mod pool;
mod sweep;
mod task;

use crate::options::{Options, Shard};
use anyhow::Result;
use overlock_sim::performance::{HostProfile, Simulator};
use overlock_world::locks::Lock;
use overlock_world::{Error, Failed, Job, Run, Tell, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use sweep::Folder;
use task::Task;

pub use pool::obey;

/// See the [module documentation](self).
pub(super) struct Simulated {
    simulator: Simulator,
    options: Options,
    /// The runs that have been made, by the keys of their tasks.
    made: RefCell<BTreeMap<String, Run>>,
}

impl Simulated {
    pub(super) fn new(host: HostProfile, options: &Options) -> Self {
        let options = options.clone();
        Self { simulator: Simulator(host), options, made: RefCell::default() }
    }

    fn task(&self, job: &Job) -> Task {
        Task { host: self.simulator.0.clone(), job: job.clone() }
    }

    fn folder(&self, shard: Shard) -> Result<Option<Folder>> {
        let Some(path) = &self.options.sweep else { return Ok(None) };
        let Options { commit, note, .. } = self.options;
        if commit.ends_with("-dirty") || commit == "unknown" {
            note(
                "warning: this program was built from changes without a commit; it takes runs of \
                 other such builds for its own: use a new folder for each",
            );
        }
        let (folder, found) = Folder::open(path, shard, note)?;
        self.made.borrow_mut().extend(found);
        Ok(Some(folder))
    }

    fn make(&self, jobs: &[Job], cancel: &AtomicBool, tell: Tell<'_>) -> Result<bool> {
        let Options { commit, note, .. } = self.options;
        let tasks: BTreeMap<usize, Task> =
            jobs.iter().map(|job| self.task(job)).enumerate().collect();
        let shard = self.options.shard.unwrap_or(Shard::WHOLE);
        let mut folder = self.folder(shard)?;
        let mine = tasks.iter().filter(|(at, _)| shard.has(**at)).map(|(_, task)| task);
        let (found, missing): (Vec<&Task>, Vec<&Task>) =
            mine.partition(|task| self.made.borrow().contains_key(&task.key(commit)));
        let (mut kept, mut failed) = (0, Vec::new());
        tell("finished runs", found.len() as u64);
        pool::run(&missing, cancel, |task, ran| {
            match ran {
                Ok(run) => {
                    kept += 1;
                    if let Some(folder) = &mut folder {
                        folder.add(task, task.key(commit), &run)?;
                    }
                    self.made.borrow_mut().insert(task.key(commit), run);
                }
                // A failed run is told when it is asked for.
                Err(said) => failed.push(format!("failed: {}: {said}", task.name())),
            }
            tell(&task.name(), 1);
            Ok(())
        })?;
        let made = self.made.borrow();
        let absent = tasks.values().filter(|task| !made.contains_key(&task.key(commit))).count();
        if cancel.load(Relaxed) {
            note(&match &folder {
                Some(folder) => format!(
                    "interrupted: {} of {} runs are in {}; the same command continues from there",
                    found.len() + kept,
                    found.len() + missing.len(),
                    folder.display()
                ),
                None => format!(
                    "interrupted: {kept} of {} runs were made, so there are no results; with \
                     --sweep FOLDER runs are kept, and the same command continues from there",
                    missing.len()
                ),
            });
            return Ok(false);
        }
        if self.options.sweep.is_some() {
            note(&format!(
                "part {} of {}: {} runs found, {kept} made; {absent} of all {} are missing",
                shard.number,
                shard.of,
                found.len(),
                tasks.len(),
            ));
        }
        let is_a_part = absent > 0 && self.options.shard.is_some();
        failed.iter().filter(|_| is_a_part).for_each(|said| note(said));
        Ok(!is_a_part)
    }
}

impl World for Simulated {
    fn name(&self) -> &'static str {
        self.simulator.name()
    }

    fn about(&self) -> String {
        self.simulator.about()
    }

    fn is_real(&self) -> bool {
        false
    }

    fn pcpus(&self) -> u32 {
        self.simulator.pcpus()
    }

    fn locks(&self) -> Vec<Lock> {
        self.simulator.locks()
    }

    fn check(&self, job: &Job) -> Result<(), Error> {
        self.simulator.check(job)
    }

    fn ahead(&self, jobs: &[Job], cancel: &AtomicBool, tell: Tell<'_>) -> Result<bool, Failed> {
        self.make(jobs, cancel, tell).map_err(|error| Failed::World(format!("{error:#}")))
    }

    fn run(&self, job: &Job, cancel: &AtomicBool) -> Result<Run, Failed> {
        let task = self.task(job);
        let made = self.made.borrow().get(&task.key(self.options.commit)).cloned();
        made.map_or_else(|| task.run(cancel), Ok)
    }
}
