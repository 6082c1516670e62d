//! Uncontended pairs of all locks.

use crate::interrupt;
use anyhow::{Result, bail};
use overlock_bench::experiment::Plan;
use overlock_bench::{Failed, World};
use overlock_results::row::{Failure, Pair};
use overlock_results::stats::{Interval, unique};

/// How many samples of each lock's pair are taken, at least.
const SAMPLES: usize = 200;

/// The samples so far. A share is taken in each round of each group: what slows a core for some
/// seconds, and the locks unequally, then spoils only some of them.
pub(super) struct Pairs {
    pairs: Vec<Pair>,
    share: usize,
    /// Whether a pair has ended the process, or hung, since a lock was last dropped.
    is_off: bool,
}

impl Pairs {
    pub(super) fn new(plan: &Plan) -> Self {
        let none = |lock| Pair { lock, ns: None, samples: Vec::new() };
        let locks = unique(plan.jobs().map(|job| job.lock.clone()));
        let rounds = plan.groups.len() * usize::from(plan.rounds);
        Pairs {
            pairs: locks.into_iter().map(none).collect(),
            share: SAMPLES.div_ceil(rounds.max(1)),
            is_off: false,
        }
    }

    /// Takes a share of the samples of all locks that have not failed.
    pub(super) fn sample(&mut self, world: &dyn World, failures: &[Failure]) -> Result<()> {
        if self.pairs.is_empty() || self.is_off || interrupt::seen() {
            return Ok(());
        }
        let has_failed = |lock: &str| failures.iter().any(|of| of.lock.as_deref() == Some(lock));
        let (locks, samples): (Vec<&str>, Vec<&mut Vec<f64>>) = self
            .pairs
            .iter_mut()
            .filter(|pair| !has_failed(&pair.lock))
            .map(|Pair { lock, samples, .. }| (&**lock, samples))
            .unzip();
        match world.pairs(&locks, self.share, interrupt::flag()) {
            Ok(Some(new)) => {
                samples.into_iter().zip(new).for_each(|(known, new)| known.extend(new));
            }
            // It has none of any lock.
            Ok(None) => self.pairs.clear(),
            Err(Failed::Subject(_)) => self.is_off = true,
            Err(Failed::Cancelled) => {}
            Err(Failed::World(said)) => bail!("{said}"),
        }
        Ok(())
    }

    /// Goes on after a lock was dropped, which may be the one that failed.
    pub(super) fn resume(&mut self) {
        self.is_off = false;
    }

    pub(super) fn end(mut self) -> Vec<Pair> {
        self.pairs.retain(|pair| !pair.samples.is_empty());
        self.pairs.iter_mut().for_each(|pair| pair.ns = Interval::of(&pair.samples));
        self.pairs
    }
}
