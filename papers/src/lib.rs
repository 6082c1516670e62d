//! What the documents S1 to S5 need and nothing else does: their locks as they were published, and
//! Linux's schedulers of their time.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[cfg(test)]
mod broken;
mod cfs;
mod seeds;

use anyhow::{Result, bail};
use cfs::Cfs;
use overlock_bench::vcpus::{MoreLocks, UseLock};
use overlock_bench::{HostScheduler, Verbs, World, workload};
use overlock_cli::{Added, Options};
use overlock_results::locks::PUBLISHED;
use overlock_sim::hosts::More;
use overlock_vcpu::lab::Laboratory;

/// The documents' locks.
#[derive(Clone, Copy, Debug)]
pub struct Locks;

impl MoreLocks for Locks {
    fn with<W: Verbs, U: UseLock>(name: &str, user: U) -> Option<U::Output> {
        Some(match name {
            "published-ticket" => user.with::<seeds::Ticket<W::Aware>>(),
            "published-queued" => user.with::<seeds::Queue<W::Aware, false, false>>(),
            "published-queued-full" => user.with::<seeds::Queue<W::Aware, false, true>>(),
            "published-hybrid" => user.with::<seeds::Queue<W::Aware, true, false>>(),
            "published-unfair" => user.with::<seeds::Unfair<W::Native>>(),
            _ => return None,
        })
    }
}

/// What simulations have besides.
pub const MORE: More = More {
    run: |simulation, config, profile, lock| {
        workload::run_with::<_, Locks>(simulation, config, profile, lock)
    },
    scheduler: Some(|scheduler, vcpus, pcpus, policy| {
        let is_2012 = scheduler == HostScheduler::Linux35;
        Box::new(Cfs::new(vcpus, pcpus, is_2012, policy))
    }),
};

macro_rules! experiments {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../experiments/", $name, ".toml")))),*]
    };
}

/// What the command has besides.
pub const ADDED: Added = Added {
    experiments: experiments! {
        "s1" "s2-kernbench" "s2-oltp" "s2-ebizzy" "s3" "s4-36-cores" "s4-16-cores" "s4-micro" "s5"
    },
    worlds: &[("kvm", "tour")],
    open,
    missing: Added::NOTHING.missing,
    locks: &PUBLISHED,
    more: MORE,
};

fn open(name: &str, _: &Options) -> Result<Box<dyn World>> {
    match name {
        "kvm" => Ok(Box::new(Laboratory::<Locks>::open()?)),
        _ => bail!("there is no world {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlock_bench::experiment::Experiment;
    use overlock_results::row::Agreement;

    #[test]
    fn each_published_figure_that_is_missed_has_its_reason() {
        for (name, text) in ADDED.experiments {
            let experiment = Experiment::parse(name, text).unwrap();
            assert!(!experiment.published.is_empty(), "{name}");
            for one in experiment.published {
                let misses = one.pinned.is_some_and(|pinned| pinned.contains(&Agreement::No));
                assert!(!misses || one.note.is_some(), "{name}: {one:?}");
            }
        }
    }
}
