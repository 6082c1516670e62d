//! A world: somewhere to run a [`Job`].
//!
//! A world is a value: threads of this machine, vCPUs of `/dev/kvm`, a host that is simulated, a
//! kernel in an emulator. A virtual call is made for a run, never for an operation: the loops that
//! are measured are monomorphic, in the crate of their engine.

use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::Job;
use overlock_results::locks::Lock;
use overlock_results::{Error, Run, Takers};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The lock's or the guest's own fault: this point has none, others may.
    #[error("{0}")]
    Subject(String),
    /// The world can't run it, and nothing like it.
    #[error("{0}")]
    World(String),
    #[error("cancelled")]
    Cancelled,
}

impl From<Error> for Failed {
    fn from(Error(said): Error) -> Self {
        Self::World(said)
    }
}

/// Tells how far a world is with what it does in advance: a sentence for people, and how many runs
/// have ended since the last call.
pub type Tell<'a> = &'a mut dyn FnMut(&str, u64);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SelfCheck {
    pub what: String,
    pub fine: bool,
    pub found: String,
}

/// What a world tells while it checks itself.
#[derive(Clone, Copy, Debug)]
pub enum Heard<'a> {
    Progress(&'a str),
    Check(&'a SelfCheck),
}

pub trait World {
    fn name(&self) -> &'static str;

    /// A description for people: `2 pCPUs of /dev/kvm`.
    fn about(&self) -> String {
        self.name().to_owned()
    }

    /// Whether what else this machine does affects the results.
    fn is_real(&self) -> bool;

    /// How many CPUs it has by default, for threads or vCPUs to share.
    fn pcpus(&self) -> u32;

    fn locks(&self) -> Vec<Lock>;

    fn takers(&self) -> Takers {
        Takers::of(self.name())
    }

    /// Refuses what could not run here, before anything is measured.
    fn check(&self, job: &Job) -> Result<(), Error>;

    /// Makes `jobs` in advance, where that is better than one after the other. [`run`](Self::run)
    /// then finds them. Returns whether it will find them.
    fn ahead(&self, jobs: &[Job], cancel: &AtomicBool, tell: Tell<'_>) -> Result<bool, Failed> {
        let _ = (jobs, cancel, tell);
        Ok(true)
    }

    /// Checks itself on these numbers of CPUs, or on its own, if it can: `None` if it can't. Tells
    /// `hear` how far it is, until that returns false; returns whether every check holds.
    fn verify(
        &self,
        cpus: &[u32],
        hear: &mut dyn FnMut(Heard<'_>) -> bool,
    ) -> Option<Result<bool, Failed>> {
        let _ = (cpus, hear);
        None
    }

    /// By which share the speed of work has changed since the world was opened, where that matters.
    fn drift(&self) -> Option<f64> {
        None
    }

    fn run(&self, job: &Job, cancel: &AtomicBool) -> Result<Run, Failed>;

    /// Times uncontended pairs of lock and unlock of all `locks` in turns, `samples` times: for
    /// each lock its samples in nanoseconds. None where that is no question.
    fn pairs(
        &self,
        locks: &[&str],
        samples: usize,
        cancel: &AtomicBool,
    ) -> Result<Option<Vec<Vec<f64>>>, Failed> {
        let _ = (locks, samples, cancel);
        Ok(None)
    }

    /// The job that does the same work by one thread without a lock; `None` where that is no
    /// question. Its time is the *floor* of a point.
    fn floor(&self, job: &Job) -> Option<Job> {
        let _ = job;
        None
    }
}
