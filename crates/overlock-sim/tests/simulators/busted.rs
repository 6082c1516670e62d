//! Is every faulty lock caught, and by the oracle meant for it?

use overlock_sim::{Property, Subject, TortureReport, injections, seed_of, torture};

use crate::support::{bad, each};

/// How many random runs a mistake has to show itself in. Most need a few, two need hundreds.
const RUNS: u64 = 6_000;

fn is_caught_as_meant(subject: &Subject, mut reports: impl Iterator<Item = TortureReport>) {
    let failure = reports.find_map(|report| report.failure);
    let failure = failure.unwrap_or_else(|| panic!("{} is not caught", subject.name));
    assert!(subject.known_bad.contains(&failure.oracle), "{}: {failure}", subject.name);
}

#[test]
fn injections_catch_every_mistake() {
    // No script leaves a lock to another CPU.
    let scripted = bad().filter(|subject| subject.name != "broken-given");
    each("busted::injections_catch_every_mistake", scripted, |subject| {
        is_caught_as_meant(subject, injections(subject).map(|(_, report)| report));
    });
}

/// Starving a queue head takes hundreds of passes in a row, and no CPU is stopped for long in
/// random worlds: scripts do that.
#[test]
fn torture_catches_every_mistake() {
    each(
        "busted::torture_catches_every_mistake",
        bad().filter(|subject| !["broken-bypass", "broken-deference"].contains(&subject.name)),
        |subject| {
            is_caught_as_meant(subject, (0..RUNS).map(|i| torture(subject, seed_of(2, i), 20_000)));
        },
    );
}

#[test]
fn every_oracle_has_a_mistake_to_catch() {
    for oracle in Property::ALL {
        assert!(bad().any(|subject| subject.known_bad == [oracle]), "{}", oracle.name());
    }
}
