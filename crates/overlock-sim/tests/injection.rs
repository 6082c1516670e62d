// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do the locks keep their promises when one CPU is taken away at any step?

use overlock::counters::Event;
use overlock_sim::{Subject, injections, subjects};

fn good() -> impl Iterator<Item = &'static Subject> {
    subjects().filter(|subject| subject.known_bad.is_none())
}

#[test]
fn every_lock_survives_the_loss_of_any_cpu_at_any_step() {
    for subject in good() {
        let mut taken_away = 0;
        for (plan, report) in injections(subject) {
            if let Some(failure) = report.failure {
                panic!("{} {plan}: {failure}\n{}", subject.name, report.trace.join("\n"));
            }
            taken_away += u64::from(report.injected);
        }
        assert!(taken_away > 200, "{}: only {taken_away} steps", subject.name);
    }
}

/// The oracle of the bypass bound is worth something only if the bound is nearly reached.
#[test]
fn the_first_in_line_of_hybrid_is_passed_nearly_as_often_as_it_may_be() {
    let hybrid = overlock_sim::subject("hybrid").unwrap();
    let most = injections(hybrid).map(|(_, report)| report.longest_bypass).max().unwrap();
    assert!((4_000..=4_095).contains(&most), "{most}");
}

/// An injection at every step means little if the steps of waiting and waking are not among them.
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
