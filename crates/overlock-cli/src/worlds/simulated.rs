//! The simulator as a world: runs are made in advance, in many processes.

mod pool;

use crate::worlds::options::Options;
use anyhow::Result;
use overlock_bench::{Failed, Job, Tell, World};
use overlock_results::locks::Lock;
use overlock_results::{Error, Run};
use overlock_sim::hosts::{HostProfile, Simulator};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub(crate) use pool::obey;

pub(super) struct Simulated {
    simulator: Simulator,
    options: Options,
    /// The runs that have been made, by their jobs.
    made: RefCell<BTreeMap<String, Run>>,
}

/// Returns a job as text, which says all that determines its run on a host.
fn key(job: &Job) -> String {
    serde_json::to_string(job).expect("a job is always text")
}

impl Simulated {
    pub(super) fn new(host: HostProfile, options: &Options) -> Self {
        let (options, made) = (options.clone(), RefCell::default());
        Self { simulator: Simulator { host, more: options.more }, options, made }
    }

    fn make(&self, jobs: &[Job], cancel: &AtomicBool, tell: Tell<'_>) -> Result<bool> {
        let all: BTreeMap<String, &Job> = jobs.iter().map(|job| (key(job), job)).collect();
        let mut made = self.made.borrow_mut();
        let missing = all.iter().filter(|(key, _)| !made.contains_key(*key));
        let missing: Vec<&Job> = missing.map(|(_, job)| *job).collect();
        let mut kept = 0;
        tell("finished runs", (all.len() - missing.len()) as u64);
        pool::run(&self.simulator, &missing, cancel, |job, ran| {
            // A failed run is told when it is asked for.
            if let Ok(run) = ran {
                kept += 1;
                made.insert(key(job), run);
            }
            tell(&pool::name(job), 1);
            Ok(())
        })?;
        if cancel.load(Relaxed) {
            (self.options.note)(&format!(
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
        let made = self.made.borrow().get(&key(job)).cloned();
        made.map_or_else(|| self.simulator.run(job, cancel), Ok)
    }
}
