//! An unmodified program as a world: a job is one run of it under a lock.

use super::expect::Expected;
use anyhow::Result;
use overlock_bench::experiment::{Host, Plan};
use overlock_bench::workload::Profile;
use overlock_bench::{Failed, Job, World};
use overlock_programs::{Good, Input, LIBC, Rules, Shared, Target, Trial};
use overlock_results::locks::Lock;
use overlock_results::row::PROCESS;
use overlock_results::{Error, Run};
use std::sync::atomic::AtomicBool;

pub(super) struct Program {
    pub(super) rules: Rules,
    pub(super) target: Target,
    pub(super) input: Input,
    pub(super) expected: Option<Expected>,
    pub(super) pcpus: u32,
}

impl Program {
    /// Returns the jobs of a comparison: the program brings its own work and threads.
    pub(super) fn plan(&self, locks: &[String], rounds: u16) -> Result<Plan> {
        let profile = Profile { name: self.target.typed(), ..Profile::named("micro")? };
        let host = Host { pcpus: self.pcpus, ..Host::default() };
        let job = |lock: &String| Job::new(profile.clone(), lock, 0, host.clone());
        Ok(Plan { groups: vec![locks.iter().map(job).collect()], rounds })
    }

    pub(super) fn trial(&self, lock: &str, shared: Option<&Shared>) -> Result<Good, Failed> {
        match self.rules.run(&self.target, lock, &self.input, shared).map_err(failed)? {
            Trial::Good(good) => match self.difference(lock, &good.stdout)? {
                None => Ok(*good),
                Some(difference) => {
                    Err(Failed::Subject(format!("printed something else: {difference}")))
                }
            },
            Trial::Bad(complaint) => Err(Failed::Subject(complaint)),
            Trial::Interrupted => Err(Failed::Cancelled),
        }
    }

    /// Describes where standard output differs from that of the first run, if it must not differ.
    fn difference(&self, lock: &str, stdout: &[u8]) -> Result<Option<String>, Failed> {
        let difference = self.expected.as_ref().and_then(|expected| expected.difference(stdout));
        match difference {
            Some(difference) if lock == LIBC => Err(Failed::World(format!(
                "--check-output can't tell: the output varies with the program's own locks \
                 ({difference}); leave lines that vary out with --ignore REGEX"
            ))),
            difference => Ok(difference),
        }
    }
}

fn failed(error: anyhow::Error) -> Failed {
    Failed::World(format!("{error:#}"))
}

impl World for Program {
    fn name(&self) -> &'static str {
        PROCESS
    }

    fn is_real(&self) -> bool {
        true
    }

    fn pcpus(&self) -> u32 {
        self.pcpus
    }

    fn locks(&self) -> Vec<Lock> {
        Vec::new()
    }

    fn check(&self, _: &Job) -> Result<(), Error> {
        Ok(())
    }

    fn run(&self, job: &Job, _: &AtomicBool) -> Result<Run, Failed> {
        let shared = (job.lock != LIBC).then(Shared::new).transpose().map_err(failed)?;
        self.trial(&job.lock, shared.as_ref()).map(|good| good.run)
    }
}
