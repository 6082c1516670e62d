// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do the locks keep their promises when one CPU is taken away at any step?

use std::collections::BTreeMap;

use overlock::counters::Event;
use overlock_sim::{Report, injections, interruptions};

use crate::support::{each, good};

#[test]
fn every_lock_survives_the_loss_of_any_cpu_at_any_step() {
    each("injection::every_lock_survives_the_loss_of_any_cpu_at_any_step", good(), |subject| {
        let mut taken_away = 0;
        for (plan, report) in injections(subject) {
            if let Some(failure) = report.failure {
                panic!("{} {plan}: {failure}\n{}", subject.name, report.trace.join("\n"));
            }
            taken_away += u64::from(report.injected);
        }
        assert!(taken_away > 200, "{}: only {taken_away} steps", subject.name);
    });
}

/// The oracle of the bypass bound proves something only if the bound is nearly reached.
#[test]
fn the_queue_head_of_hybrid_is_passed_nearly_as_often_as_it_may_be() {
    let hybrid = overlock_sim::subject("hybrid").unwrap();
    let most = injections(hybrid).map(|(_, report)| report.longest_bypass).max().unwrap();
    assert!((4_000..=4_095).contains(&most), "{most}");
}

/// An injection at every step means little if it misses the steps of waiting and waking.
#[test]
fn injections_go_through_halting_and_giving_up() {
    for (name, events) in [
        ("ticket", &[Event::PvWaitNode, Event::PvKickUnlock, Event::PvKickWake][..]),
        ("queued", &[Event::PvWaitHead, Event::PvWaitNode, Event::LockTimeout]),
        ("hybrid", &[Event::PvWaitNode, Event::PvLockStealing, Event::LockTimeout]),
    ] {
        let subject = overlock_sim::subject(name).unwrap();
        let reports: Vec<_> = injections(subject).map(|(_, report)| report).collect();
        for &event in events {
            let count: u64 = reports.iter().map(|report| report.events[event as usize]).sum();
            assert!(count > 0, "{name}: {}", event.name());
        }
    }
}

/// Found by torture, after some 100 million steps: a release marked a waiter as kicked, and was
/// interrupted before it kicked. By then that waiter had halted for another lock, whose releases
/// saw the mark and left the kick to the first; and the handler waited for that lock behind it. So
/// the mark now says that the kick is still to come, and every release that finds it kicks (Q6 in
/// `queue.rs`).
#[test]
fn a_release_interrupted_before_its_kick_leaves_nobody_halted() {
    each(
        "injection::a_release_interrupted_before_its_kick_leaves_nobody_halted",
        good(),
        |subject| {
            let runs: Vec<_> =
                interruptions(subject).filter(|(_, report)| report.injected).collect();
            for (plan, report) in &runs {
                let name = subject.name;
                assert_eq!(report.failure, None, "{name} {plan}\n{}", report.trace.join("\n"));
            }
            if ["queued", "hybrid"].contains(&subject.name) {
                // These are the runs in which it comes to this: the head halts for both locks,
                // and so does the handler.
                let halts = |report: &&Report| {
                    report.events[Event::PvWaitHead as usize] >= 2
                        && report.events[Event::PvWaitNode as usize] >= 1
                };
                let halted = runs.iter().map(|(_, report)| report).filter(halts).count();
                assert!(halted > 20, "{}: {halted} of {}", subject.name, runs.len());
                // In some of them a release replaces the name of the CPU that is away by its own.
                let taken_over = runs.iter().filter(|(_, report)| report.takeovers > 0).count();
                assert!(taken_over > 5, "{}: {taken_over} of {}", subject.name, runs.len());
            }
        },
    );
}

/// The kinds of locks share the nodes of a CPU. In the script for each pair of kinds, a kick for
/// one has to find its CPU waiting for the other.
#[test]
fn kicks_of_every_kind_meet_waiters_of_every_other() {
    let mut crossed: BTreeMap<String, u64> = BTreeMap::new();
    for (plan, report) in injections(overlock_sim::subject("mixed").unwrap()) {
        let plan = plan.to_string();
        let script = plan.split(':').nth(1).unwrap();
        *crossed.entry(script.to_owned()).or_default() += report.crossed_kicks;
    }
    assert_eq!(crossed.len(), 20, "of five kinds, each with each other one: {crossed:?}");
    assert!(crossed.values().all(|kicks| *kicks > 0), "{crossed:?}");
}
