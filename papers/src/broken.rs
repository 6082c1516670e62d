//! Can verdicts fail? With another cost, a broken policy or a broken lock, predictions change.

use crate::cfs::Cfs;
use crate::{ADDED, Locks, MORE};
use overlock_bench::experiment::Experiment;
use overlock_bench::published::beside;
use overlock_bench::vcpus::{MoreLocks, UseLock};
use overlock_bench::{HostScheduler, Job, Verbs, World, point_of, workload};
use overlock_results::row::Agreement::{No, Yes};
use overlock_results::{PublishedFigure, Run};
use overlock_sim::hosts::{HostProfile, More, Simulator};
use overlock_vcpu::host::sched::yield_to::by_name;
use std::sync::atomic::AtomicBool;

/// The direction and the size of the figures of `name` that `wanted` chooses, on a host that
/// `change` may change.
fn verdicts(
    name: &str,
    seconds: f64,
    wanted: impl Fn(&PublishedFigure) -> bool,
    more: More,
    change: impl FnOnce(&mut HostProfile),
) -> Vec<[overlock_results::row::Agreement; 2]> {
    let text = ADDED.experiments.iter().find(|(of, _)| *of == name).unwrap().1;
    let mut experiment = Experiment::parse(name, text).unwrap();
    experiment.host.seconds = seconds;
    experiment.published.retain(|one| wanted(one));
    let mut host = HostProfile::named(experiment.host.machine.as_deref().unwrap()).unwrap();
    change(&mut host);
    let world = Simulator { host, more };
    let plan =
        experiment.plan(&world, 1, |_| unreachable!("no length depends on another")).unwrap();
    // The points of the figures and of their bases, and no others.
    let is_asked = |job: &&Job| {
        experiment.published.iter().any(|one| {
            let over = one.over.clone().unwrap_or_default();
            let locks = [Some(&one.lock), over.lock.as_ref()];
            let policies = [Some(&one.policy), over.policy.as_ref()];
            locks.contains(&Some(&job.lock))
                && policies.contains(&Some(&job.policy))
                && [Some(one.cpus), over.cpus].contains(&Some(job.cpus))
        })
    };
    let run = |job: &Job, seed| -> Run {
        world.run(&Job { seed, ..job.clone() }, &AtomicBool::new(false)).unwrap()
    };
    let points: Vec<_> = plan
        .jobs()
        .filter(is_asked)
        .map(|job| point_of(world.name(), job, (1..=7).map(|seed| run(job, seed)).collect()))
        .collect();
    let besides = beside(&experiment, &world, &points);
    besides.iter().map(|one| [one.direction, one.size]).collect()
}

#[test]
fn the_gain_of_a_weaker_ordering_ends_where_a_full_barrier_costs_no_more() {
    let gain =
        |change: fn(&mut HostProfile)| verdicts("s3", 0.005, |one| one.cpus == 8, MORE, change);
    assert_eq!(gain(|_| ())[0][0], Yes);
    assert_eq!(gain(|host| host.costs.full.ns = host.costs.acquire.ns)[0], [No, No]);
}

#[test]
fn the_gain_of_skipping_spinners_ends_with_a_policy_that_skips_none() {
    const SKIPS_NONE: More = More {
        scheduler: Some(|scheduler, vcpus, pcpus, policy| {
            let broken = format!("{policy:?}").starts_with("SkipSpinners");
            let policy = if broken { by_name("round-robin", vcpus.0).unwrap() } else { policy };
            Box::new(Cfs::new(vcpus, pcpus, scheduler == HostScheduler::Linux35, policy))
        }),
        ..MORE
    };
    let gain = |more| {
        let wanted = |one: &PublishedFigure| one.cpus == 32 && one.value.is_some();
        verdicts("s2-ebizzy", 0.01, wanted, more, |_| ())
    };
    assert_eq!(gain(MORE)[0][0], Yes);
    assert_eq!(gain(SKIPS_NONE)[0], [No, No]);
}

/// The documents' locks, of which the hybrid one keeps a strict order.
#[derive(Clone, Copy, Debug)]
struct Strict;

impl MoreLocks for Strict {
    fn with<W: Verbs, U: UseLock>(name: &str, user: U) -> Option<U::Output> {
        let is_broken = name == "published-hybrid";
        Locks::with::<W, U>(if is_broken { "published-ticket" } else { name }, user)
    }
}

#[test]
fn the_throughput_of_a_lock_that_steals_ends_with_one_in_strict_order() {
    const STRICT: More = More {
        run: |simulation, config, profile, lock| {
            workload::run_with::<_, Strict>(simulation, config, profile, lock)
        },
        ..MORE
    };
    let rate = |more| {
        let wanted = |one: &PublishedFigure| one.figure == "ops_per_s" && one.cpus == 54;
        verdicts("s4-micro", 0.01, wanted, more, |_| ())
    };
    assert_eq!(rate(MORE)[0][1], Yes);
    assert_eq!(rate(STRICT)[0][1], No);
}
