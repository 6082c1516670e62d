// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do the workloads run under every lock, and do their records add up?

use std::time::Duration;

use overlock_lab::workload::{HAND_OVER, LOCKS, Profile, Record, run};
use overlock_lab::{Config, Engine, Error, PmTimerRule};

crate::on_both_engines!(
    every_lock_carries_the_micro_workload,
    every_profile_runs,
    shootdowns_are_answered_by_halted_and_preempted_vcpus,
    every_rule_keeps_the_timer_monotone,
    locks_that_may_not_wait_do_not_halt,
    each_change_of_hands_is_a_kick_and_a_halt,
    a_preempted_holder_is_blamed_for_the_waits_behind_it,
    pause_loops_are_reported_by_locks_that_know_nothing,
    unknown_names_are_refused,
);

fn config(vcpus: u32) -> Config<'static> {
    let mut config = Config::new(vcpus, 2);
    config.duration = Duration::from_millis(60);
    config
}

fn point<E: Engine>(config: &Config, profile: &str, lock: &str) -> Record {
    run::<E>(config, &Profile::named(profile).unwrap(), lock).unwrap()
}

fn every_lock_carries_the_micro_workload<E: Engine>() {
    for lock in LOCKS {
        let record = point::<E>(&config(4), "micro", lock);
        assert!(record.ops_per_s > 0.0 && record.ops_per_cpu.max > 0, "{record:?}");
        assert!((0.0..=1.0 + 1e-9).contains(&record.jain), "{record:?}");
        assert!(record.wait_ns.p50 <= record.wait_ns.p99, "{record:?}");
        assert!(record.longest_stall_ns >= record.wait_ns.max, "{record:?}");
        assert!(!record.counters.is_empty(), "{lock} was never contended");
    }
}

fn every_profile_runs<E: Engine>() {
    for profile in Profile::names() {
        let record = point::<E>(&config(4), profile, "hybrid");
        assert!(record.ops_per_s > 0.0, "{record:?}");
        assert!(record.cpu_s_per_s < 4.0, "{record:?}");
    }
}

fn shootdowns_are_answered_by_halted_and_preempted_vcpus<E: Engine>() {
    let mut config = config(6);
    // A lock that only spins needs help to get anywhere on a third of the processors it wants.
    config.pause_window = Duration::from_micros(50);
    config.policy = "yield";
    config.duration = Duration::from_millis(200);
    for lock in ["hybrid", "native-ticket"] {
        let record = point::<E>(&config, "ebizzy", lock);
        assert!(record.exits["interrupt"] >= 5, "{record:?}");
    }
}

fn every_rule_keeps_the_timer_monotone<E: Engine>() {
    use PmTimerRule::{Clamped, LockFree, Mutex, Refresh};
    for rule in [Mutex, Refresh, Clamped, LockFree] {
        let record = point::<E>(&Config { pm_timer: rule, ..config(4) }, "pmtimer", "hybrid");
        assert_eq!(record.timer_backwards, 0, "{rule:?}");
        assert!(record.exits["pm-timer"] > 100, "{record:?}");
        assert!(record.timer_read_ns > 0.0, "{record:?}");
    }
}

fn locks_that_may_not_wait_do_not_halt<E: Engine>() {
    let waiting = point::<E>(&config(6), "micro", "ticket");
    assert!(waiting.exits["halt"] > 0, "{waiting:?}");
    let off = Config { paravirtual: false, ..config(6) };
    assert_eq!(point::<E>(&off, "micro", "ticket").exits["halt"], 0);
    assert_eq!(point::<E>(&config(6), "micro", "native-ticket").exits["halt"], 0);
}

fn each_change_of_hands_is_a_kick_and_a_halt<E: Engine>() {
    // So many that each has halted before the token is back.
    let record = point::<E>(&config(8), "micro", HAND_OVER);
    let operations = record.ops_per_s * record.seconds;
    assert!(operations > 10.0, "{record:?}");
    let each = |exit: &str| record.exits[exit] as f64 / operations;
    assert!((0.9..=1.1).contains(&each("kick")), "{record:?}");
    assert!((0.7..=1.1).contains(&each("halt")), "{record:?}");
    // The token goes round, so nobody can be ahead by more than one.
    assert!(record.ops_per_cpu.max - record.ops_per_cpu.min <= 1, "{record:?}");
}

fn a_preempted_holder_is_blamed_for_the_waits_behind_it<E: Engine>() {
    // Sections as long as slices: nearly every one is interrupted, and hardly any hand-over is.
    let profile = Profile { section_ns: 1_000_000, ..Profile::named("micro").unwrap() };
    let config = Config { duration: Duration::from_millis(300), ..config(6) };
    for lock in ["native-ticket", "native-test-and-set"] {
        let record = run::<E>(&config, &profile, lock).unwrap();
        let [losses] = record.locks[..] else { panic!("{record:?}") };
        assert!(losses.holder_off_ns > losses.waited_ns / 10, "{losses:?}");
        let lost = losses.holder_off_ns + losses.next_off_ns;
        assert!(lost <= losses.waited_ns + losses.waited_ns / 10, "{losses:?}");
        assert_eq!(losses.next_off_ns > 0, lock == "native-ticket", "{losses:?}");
    }
    // Where there is a processor for everyone, nobody is without.
    let record = run::<E>(
        &Config { duration: config.duration, ..Config::new(2, 2) },
        &profile,
        "native-ticket",
    );
    let [losses] = record.unwrap().locks[..] else { panic!("one lock") };
    assert!(losses.waited_ns > 0, "{losses:?}");
    assert!(losses.holder_off_ns + losses.next_off_ns < losses.waited_ns / 10, "{losses:?}");
}

fn pause_loops_are_reported_by_locks_that_know_nothing<E: Engine>() {
    let window = Duration::from_micros(100);
    let reporting = Config { pause_window: window, policy: "skip-spinners", ..config(6) };
    let record = point::<E>(&reporting, "micro", "native-ticket");
    assert!(record.exits["long-spin"] > 0, "{record:?}");
    let decided: u64 = record
        .yields
        .iter()
        .filter(|(reason, _)| !reason.starts_with("skipped"))
        .map(|(_, count)| count)
        .sum();
    assert_eq!(decided, record.exits["long-spin"], "{record:?}");
    assert_eq!(point::<E>(&config(6), "micro", "native-ticket").exits["long-spin"], 0);
}

fn unknown_names_are_refused<E: Engine>() {
    let profile = Profile::named("micro").unwrap();
    let error = run::<E>(&config(2), &profile, "padlock").unwrap_err();
    assert!(matches!(&error, Error::Config(text) if text.contains("hybrid")), "{error}");
    let polite = Config { policy: "polite", ..config(2) };
    let error = run::<E>(&polite, &profile, "hybrid").unwrap_err();
    assert!(matches!(&error, Error::Config(text) if text.contains("skip-spinners")), "{error}");
}
