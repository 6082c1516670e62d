//! Do the workloads run under every lock, and do their records add up?

use std::time::Duration;

use crate::until;
use overlock_results::locks::{HAND_OVER, LOCKS};
use overlock_results::{Losses, Run};
use overlock_vcpu::lab::workload::{Profile, run};
use overlock_vcpu::lab::{Error, KvmEngine, PmTimerRule, RunConfig};

crate::on_kvm!(
    every_lock_carries_the_micro_workload,
    every_profile_runs,
    shootdowns_are_answered_by_halted_and_preempted_vcpus,
    every_rule_keeps_the_timer_monotone,
    locks_that_may_not_wait_do_not_halt,
    each_hand_over_is_a_kick_and_a_halt,
    an_acquisition_at_the_first_attempt_is_a_wait_of_no_length,
    a_preempted_holder_is_blamed_for_the_waits_behind_it,
    native_locks_report_pause_loops,
    unknown_names_are_refused,
    slices_are_as_long_as_they_should_be_for_every_lock,
    what_locks_publish_leads_to_the_holder_and_costs_nothing_unless_asked_for,
    a_wake_up_is_measured_and_recorded,
);

fn config(vcpus: u32) -> RunConfig<'static> {
    let mut config = RunConfig::new(vcpus, 2);
    config.duration = Duration::from_millis(60);
    config
}

fn point(config: &RunConfig, profile: &str, lock: &str) -> Run {
    run(&KvmEngine, config, &Profile::named(profile).unwrap(), lock).unwrap()
}

/// As `point`, for the configured time or for longer: until there is enough in the record.
fn point_until(
    config: &RunConfig,
    profile: &Profile,
    lock: &str,
    enough: impl Fn(&Run) -> bool,
) -> Run {
    let longer = |factor| RunConfig { duration: config.duration * factor, ..*config };
    until(|factor| run(&KvmEngine, &longer(factor), profile, lock).unwrap(), enough)
}

fn every_lock_carries_the_micro_workload() {
    for lock in LOCKS {
        // Critical sections that are long enough for two vCPUs to meet in, however busy the machine
        // is.
        let profile = Profile { section_ns: 5_000, ..Profile::named("micro").unwrap() };
        let record = run(&KvmEngine, &config(4), &profile, lock).unwrap();
        assert!(record.ops_per_s > 0.0 && record.ops_per_cpu.max > 0, "{record:?}");
        assert!((0.0..=1.0 + 1e-9).contains(&record.jain), "{record:?}");
        assert!(record.wait_ns.p50 <= record.wait_ns.p99, "{record:?}");
        assert!(record.stall_ns() >= record.wait_ns.max as f64, "{record:?}");
        assert!(!record.counters.is_empty(), "{lock} was never contended");
    }
}

fn every_profile_runs() {
    for profile in Profile::names() {
        let record = point(&config(4), profile, "hybrid");
        assert!(record.ops_per_s > 0.0, "{record:?}");
        assert!(record.cpu_s_per_s < 4.0, "{record:?}");
    }
}

fn shootdowns_are_answered_by_halted_and_preempted_vcpus() {
    let mut config = config(6);
    // A lock that only spins needs help to make progress on a third of the processors that it
    // wants.
    config.pause_window = Duration::from_micros(50);
    config.policy = "yield";
    config.duration = Duration::from_millis(200);
    for lock in ["hybrid", "native-ticket"] {
        let profile = Profile::named("ebizzy").unwrap();
        let enough = |record: &Run| record.exits["interrupt"] >= 2;
        let record = point_until(&config, &profile, lock, enough);
        // One exit for each shootdown, however many vCPUs it interrupts.
        assert!(record.exits["interrupt"] >= 2, "{record:?}");
        let shootdowns = record.ops_per_s * record.seconds / 16.0;
        assert!(record.exits["interrupt"] as f64 <= shootdowns + 6.0, "{record:?}");
    }
}

fn every_rule_keeps_the_timer_monotone() {
    for rule in PmTimerRule::ALL {
        let record = point(&RunConfig { pm_timer: rule, ..config(4) }, "pmtimer", "hybrid");
        assert_eq!(record.timer_backwards, 0, "{rule:?}");
        assert!(record.exits["pm-timer"] > 100, "{record:?}");
        assert!(record.timer_read_ns > 0.0, "{record:?}");
    }
}

fn locks_that_may_not_wait_do_not_halt() {
    let profile = Profile::named("micro").unwrap();
    let halts = |record: &Run| record.exits["halt"] > 0;
    let waiting = point_until(&config(6), &profile, "ticket", halts);
    assert!(waiting.exits["halt"] > 0, "{waiting:?}");
    let off = RunConfig { paravirtual: false, ..config(6) };
    assert_eq!(point(&off, "micro", "ticket").exits["halt"], 0);
    assert_eq!(point(&config(6), "micro", "native-ticket").exits["halt"], 0);
}

fn an_acquisition_at_the_first_attempt_is_a_wait_of_no_length() {
    let count = |record: &Run| record.wait_counts.iter().map(|&(_, n)| n).sum::<u64>();
    // A vCPU that is stopped by force may not have counted its last operation, or its last wait.
    let done = |record: &Run| (record.ops_per_s * record.seconds).round() as u64;
    let alone = point(&config(1), "micro", "hybrid");
    assert_eq!((alone.longest_stall_ns, alone.spin_s_per_s), (Some(0), 0.0), "{alone:?}");
    assert!(alone.wait_counts.len() == 1 && count(&alone).abs_diff(done(&alone)) <= 1, "{alone:?}");
    // Behind a holder of 50 us, others wait, and all of their waits are timed.
    let profile = Profile { section_ns: 50_000, ..Profile::named("micro").unwrap() };
    let slow = |record: &Run| record.counters.get("lock_slowpath").copied().unwrap_or(0);
    let record = point_until(&config(4), &profile, "ticket", |record| slow(record) > 40);
    let longer_than = |least: u64| {
        let counts = record.wait_counts.iter().filter(|&&(most, _)| most > least);
        counts.map(|&(_, count)| count).sum::<u64>()
    };
    assert!(slow(&record) > 40 && longer_than(0).abs_diff(slow(&record)) <= 4, "{record:?}");
    assert!(2 * longer_than(10_000) > slow(&record) && record.spin_s_per_s > 0.0, "{record:?}");
    assert!(count(&record).abs_diff(done(&record)) <= 4, "{record:?}");
}

fn each_hand_over_is_a_kick_and_a_halt() {
    // Enough vCPUs that each has halted before the token is back.
    let operations = |record: &Run| record.ops_per_s * record.seconds;
    // The token finds each vCPU awake once, before it has ever halted: so many rounds that these
    // hand-overs don't count.
    let enough = |record: &Run| operations(record) > 200.0;
    let record = point_until(&config(8), &Profile::named("micro").unwrap(), HAND_OVER, enough);
    let operations = operations(&record);
    assert!(operations > 200.0, "{record:?}");
    let each = |exit: &str| record.exits[exit] as f64 / operations;
    assert!((0.9..=1.1).contains(&each("kick")), "{record:?}");
    assert!((0.7..=1.1).contains(&each("halt")), "{record:?}");
    // The token goes round, so no vCPU can be ahead by more than one.
    assert!(record.ops_per_cpu.max - record.ops_per_cpu.min <= 1, "{record:?}");
}

fn a_preempted_holder_is_blamed_for_the_waits_behind_it() {
    // Critical sections as long as slices: nearly every one is interrupted, and hardly any
    // hand-over is.
    let profile = Profile { section_ns: 1_000_000, ..Profile::named("micro").unwrap() };
    let config = RunConfig { duration: Duration::from_millis(300), ..config(6) };
    for lock in ["native-ticket", "native-test-and-set"] {
        // Where the system keeps a vCPU from its pCPU for long, the holder is not without one.
        let is_blamed = |losses: &Losses| losses.holder_off_ns > losses.waited_ns / 10;
        let enough = |record: &Run| record.locks.iter().all(is_blamed);
        let record = point_until(&config, &profile, lock, enough);
        let [losses] = record.locks[..] else { panic!("{record:?}") };
        assert!(is_blamed(&losses), "{losses:?}");
        let lost = losses.holder_off_ns + losses.next_off_ns;
        assert!(lost <= losses.waited_ns + losses.waited_ns / 10, "{losses:?}");
        assert_eq!(losses.next_off_ns > 0, lock == "native-ticket", "{losses:?}");
    }
    // With a processor for every vCPU, none is without.
    let record = run(
        &KvmEngine,
        &RunConfig { duration: config.duration, ..RunConfig::new(2, 2) },
        &profile,
        "native-ticket",
    );
    let [losses] = record.unwrap().locks[..] else { panic!("one lock") };
    assert!(losses.waited_ns > 0, "{losses:?}");
    assert!(losses.holder_off_ns + losses.next_off_ns < losses.waited_ns / 10, "{losses:?}");
}

fn native_locks_report_pause_loops() {
    let window = Duration::from_micros(100);
    let reporting = RunConfig { pause_window: window, policy: "skip-spinners", ..config(6) };
    let profile = Profile::named("micro").unwrap();
    let spins = |record: &Run| record.exits["long-spin"] > 0;
    let record = point_until(&reporting, &profile, "native-ticket", spins);
    assert!(spins(&record), "{record:?}");
    let decided: u64 = record
        .yields
        .iter()
        .filter(|(reason, _)| !reason.starts_with("skipped"))
        .map(|(_, count)| count)
        .sum();
    assert_eq!(decided, record.exits["long-spin"], "{record:?}");
    assert_eq!(point(&config(6), "micro", "native-ticket").exits["long-spin"], 0);
}

fn unknown_names_are_refused() {
    let profile = Profile::named("micro").unwrap();
    let error = run(&KvmEngine, &config(2), &profile, "padlock").unwrap_err();
    assert!(matches!(&error, Error::Config(text) if text.contains("hybrid")), "{error}");
    let generous = RunConfig { policy: "generous", ..config(2) };
    let error = run(&KvmEngine, &generous, &profile, "hybrid").unwrap_err();
    assert!(matches!(&error, Error::Config(text) if text.contains("skip-spinners")), "{error}");
}

fn slices_are_as_long_as_they_should_be_for_every_lock() {
    for lock in ["native-ticket", "queued", "hybrid"] {
        let config = RunConfig { slice: Duration::from_millis(5), ..config(6) };
        let config = RunConfig { duration: Duration::from_millis(400), ..config };
        let record = point(&config, "micro", lock);
        // A lock that halts may leave no slice to end.
        assert!(record.slices_per_s > 0.0 || lock != "native-ticket", "{record:?}");
        // Not timed: on a busy machine slices are late, but never early.
        let nominal = 2.0 / config.slice.as_secs_f64();
        assert!(record.slices_per_s <= 1.1 * nominal, "{lock}: {}", record.slices_per_s);
        assert!((0.0..=1.0).contains(&record.slices_of_nominal), "{record:?}");
    }
}

fn what_locks_publish_leads_to_the_holder_and_costs_nothing_unless_asked_for() {
    let window = Duration::from_micros(100);
    let base = RunConfig { pause_window: window, ..config(6) };
    let run = |policy, enough: fn(&Run) -> bool| {
        let profile = Profile::named("micro").unwrap();
        point_until(&RunConfig { policy, ..base }, &profile, "native-ticket", enough)
    };
    let led = |record: &Run| {
        let codes = ["directed:next-waiter", "directed:lock-holder"];
        codes.iter().any(|code| record.yields.get(*code).is_some_and(|count| *count > 0))
    };
    let hinted = run("pv-hint", led);
    assert!(hinted.publishes && led(&hinted), "{hinted:?}");
    let reported = run("report", |record| record.exits["long-spin"] > 0);
    assert!(!reported.publishes && reported.exits["long-spin"] > 0, "{reported:?}");
    assert_eq!(reported.yields.len(), 1, "a policy that sees spins and never yields");
}

fn a_wake_up_is_measured_and_recorded() {
    let record = point(&config(2), "micro", "hybrid");
    assert!((1_000..=1_000_000).contains(&record.wake_ns), "{} ns", record.wake_ns);
    let told = RunConfig { wake_ns: Some(12_345), ..config(2) };
    assert_eq!(point(&told, "micro", "hybrid").wake_ns, 12_345);
}
