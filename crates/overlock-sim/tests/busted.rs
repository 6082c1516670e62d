// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is every lock that is wrong on purpose caught, and by the oracle meant for it?

use overlock_sim::{Oracle, Subject, injections, seed_of, subjects, torture};

/// Random runs in which a mistake has to show.
const RUNS: u64 = 600;

fn bad() -> impl Iterator<Item = (&'static Subject, Oracle)> {
    subjects().filter_map(|subject| Some((subject, subject.known_bad?)))
}

#[test]
fn injections_catch_every_mistake() {
    for (subject, oracle) in bad() {
        let failure = injections(subject).find_map(|(_, report)| report.failure);
        let failure = failure.unwrap_or_else(|| panic!("{} is not caught", subject.name));
        assert_eq!(failure.oracle, oracle, "{}: {failure}", subject.name);
    }
}

/// A line that starves its first needs 4,095 passes in a row, which random worlds hardly give: that
/// is for the script.
#[test]
fn torture_catches_every_mistake() {
    for (subject, oracle) in bad().filter(|(subject, _)| subject.name != "broken-bypass") {
        let failure = (0..RUNS).find_map(|i| torture(subject, seed_of(2, i), 20_000).failure);
        let failure = failure.unwrap_or_else(|| panic!("{} is not caught", subject.name));
        assert_eq!(failure.oracle, oracle, "{}: {failure}", subject.name);
    }
}

#[test]
fn every_oracle_has_a_mistake_to_catch() {
    for oracle in [
        Oracle::Exclusion,
        Oracle::LostWakeup,
        Oracle::Progress,
        Oracle::Order,
        Oracle::Bypass,
        Oracle::Freed,
        Oracle::Kicks,
        Oracle::Deadline,
        Oracle::Residue,
        Oracle::Panic,
    ] {
        assert!(bad().any(|(_, meant)| meant == oracle), "{}", oracle.name());
    }
}
