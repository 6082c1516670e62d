//! The simulator as a world: runs are made in advance, in many processes.

mod pool;
mod task;

use crate::worlds::options::Options;
use anyhow::Result;
use overlock_bench::{Failed, Job, Tell, World};
use overlock_results::locks::Lock;
use overlock_results::{Error, Run};
use overlock_sim::hosts::{HostProfile, Simulator};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use task::Task;

pub(crate) use pool::obey;

pub(super) struct Simulated {
    simulator: Simulator,
    options: Options,
    /// The runs that have been made, by the keys of their tasks.
    made: RefCell<BTreeMap<String, Run>>,
}

impl Simulated {
    pub(super) fn new(host: HostProfile, options: &Options) -> Self {
        let options = options.clone();
        Self {
            simulator: Simulator { host, more: options.more },
            options,
            made: RefCell::default(),
        }
    }

    fn task(&self, job: &Job) -> Task {
        Task { host: self.simulator.host.clone(), job: job.clone() }
    }

    fn make(&self, jobs: &[Job], cancel: &AtomicBool, tell: Tell<'_>) -> Result<bool> {
        let Options { commit, note, .. } = self.options;
        let tasks: BTreeMap<String, Task> =
            jobs.iter().map(|job| self.task(job)).map(|task| (task.key(commit), task)).collect();
        let mut made = self.made.borrow_mut();
        let missing: Vec<&Task> = tasks
            .iter()
            .filter_map(|(key, task)| (!made.contains_key(key)).then_some(task))
            .collect();
        let mut kept = 0;
        tell("finished runs", (tasks.len() - missing.len()) as u64);
        pool::run(&missing, self.options.more, cancel, |task, ran| {
            // A failed run is told when it is asked for.
            if let Ok(run) = ran {
                kept += 1;
                made.insert(task.key(commit), run);
            }
            tell(&task.name(), 1);
            Ok(())
        })?;
        if cancel.load(Relaxed) {
            note(&format!(
                "interrupted: {kept} of {} runs were made, so there are no results",
                missing.len()
            ));
            return Ok(false);
        }
        Ok(true)
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
        made.map_or_else(|| task.run(self.options.more, cancel), Ok)
    }
}
