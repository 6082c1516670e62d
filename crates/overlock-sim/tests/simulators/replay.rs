//! Is a run a function of its lock and plan, and of nothing else?

use overlock_sim::{FaultPlan, run, seed_of, subject, torture};

use crate::support::good;

#[test]
fn a_run_repeats_bit_for_bit() {
    for subject in good() {
        for index in 0..5 {
            let seed = seed_of(1, index);
            let report = torture(subject, seed, 5_000);
            assert_eq!(report, torture(subject, seed, 5_000), "{} {seed:#x}", subject.name);
        }
    }
}

#[test]
fn a_run_is_the_same_on_another_thread_and_after_other_runs() {
    let hybrid = subject("hybrid").unwrap();
    let here = torture(hybrid, 3, 20_000);
    torture(subject("ticket").unwrap(), 4, 20_000);
    let there = std::thread::spawn(move || torture(hybrid, 3, 20_000)).join().unwrap();
    assert_eq!(here, there);
}

#[test]
fn another_seed_is_another_run() {
    let queued = subject("queued").unwrap();
    let mut hashes: Vec<u64> = (0..50).map(|seed| torture(queued, seed, 2_000).hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 50);
}

#[test]
fn a_failure_repeats_from_what_can_be_typed() {
    let bad = subject("broken-lost-wakeup").unwrap();
    let failing = (0..).map(|index| FaultPlan::Random { seed: index, steps: 20_000, cpus: None });
    let (plan, report) =
        failing.map(|plan| (plan, run(bad, plan))).find(|(_, r)| r.failure.is_some()).unwrap();
    assert!(!report.trace.is_empty());
    assert_eq!(run(bad, plan.to_string().parse().unwrap()), report);
}
