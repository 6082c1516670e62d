//! Do experiments run on simulated hosts, always with the same result, and with the expected costs?

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use overlock::atomic::Atomic;
use overlock_bench::experiment::Experiment;
use overlock_bench::workload::Profile;
use overlock_bench::{Program, RunConfig, ThisVcpu, Verbs, World as _};
use overlock_results::locks::{HAND_OVER, LOCKS};
use overlock_results::{PmTimerRule, Run};
use overlock_sim::hosts::{Counts, Error, HostProfile, More, Setup, Simulated, Simulator, Timed};

fn setup(host: &str, seed: u64) -> Setup {
    Setup { host: HostProfile::named(host).unwrap(), seed, more: More::NOTHING }
}

fn run(setup: &Setup, config: &RunConfig, workload: &str, lock: &str) -> (Run, Counts) {
    setup.run(config, &Profile::named(workload).unwrap(), lock).unwrap()
}

/// A run of `ms` milliseconds of virtual time, on `vcpus` vCPUs and `pcpus` pCPUs.
fn millis(ms: u64, vcpus: u32, pcpus: u32) -> RunConfig<'static> {
    RunConfig { duration: Duration::from_millis(ms), ..RunConfig::new(vcpus, pcpus) }
}

/// The whole content of a record.
fn text(record: &Run) -> String {
    serde_json::to_string(record).unwrap()
}

#[test]
fn the_laboratorys_experiment_file_runs_and_shows_what_the_project_is_about() {
    let file = include_str!("../../../../experiments/micro.toml");
    let mut experiment = Experiment::parse("micro", file).unwrap();
    experiment.host.seconds = 0.02;
    let mut rates = Vec::new();
    let host = Simulator { host: HostProfile::named("dev-kvm").unwrap(), more: More::NOTHING };
    for job in experiment.plan(&host, 1, |_| unreachable!()).unwrap().jobs() {
        let run = host.run(job, &AtomicBool::new(false)).unwrap();
        assert!(run.ops_per_s > 0.0 && run.cpu_s_per_s <= 2.001, "{run:?}");
        assert_eq!(run.steal_s_per_s > 0.0, job.cpus == 8, "{run:?}");
        rates.push((job.lock.clone(), job.cpus, job.profile.section_ns, run.ops_per_s));
    }
    assert_eq!(rates.len(), 12);
    let of = |lock: &str, cpus: u32| {
        rates.iter().find(|r| (r.0.as_str(), r.1, r.2) == (lock, cpus, 1000)).unwrap().3
    };
    assert!(of("native-ticket", 8) < 0.3 * of("native-ticket", 2), "a strict spin lock collapses");
    assert!(of("hybrid", 8) > 2.0 * of("native-ticket", 8), "one that steals does not");
}

/// In these minutes of virtual time a lone vCPU needs no event.
#[test]
fn a_run_can_be_cancelled() {
    for vcpus in [1, 3] {
        let cancel = AtomicBool::new(false);
        let config = RunConfig { cancel: Some(&cancel), ..millis(200_000, vcpus, 2) };
        let record = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                cancel.store(true, Relaxed);
            });
            run(&setup("dev-kvm", 1), &config, "micro", "hybrid").0
        });
        assert!(record.ops_per_s > 0.0 && record.seconds < 200.0, "{record:?}");
    }
}

/// The host sees modes and senders where the load has them, and no sender of a hidden interrupt.
#[test]
fn modes_and_interrupts_reach_the_policy() {
    let file = include_str!("../../../../experiments/host/ipi-one.toml");
    let load = Experiment::parse("ipi-one", file).unwrap().profile().unwrap();
    let codes = |load: &Profile, policy, hidden_ipis| {
        let (guest_vcpus, pause_window) = (8, Duration::from_micros(2));
        let config =
            RunConfig { policy, guest_vcpus, pause_window, hidden_ipis, ..millis(30, 16, 2) };
        let (run, _) = setup("dev-kvm", 1).run(&config, load, "queued").unwrap();
        move |code: &str| run.yields.get(code).copied().unwrap_or(0)
    };
    let linux = codes(&load, "linux", false);
    assert!(linux("skipped:in-user") > 0 && linux("directed:owes-ipi") == 0);
    let in_kernel = codes(&Profile { think_in_user: false, ..load.clone() }, "linux", false);
    assert!(in_kernel("skipped:in-user") == 0 && in_kernel("directed:not-spinning") > 0);
    let [seen, hidden] = [false, true].map(|hidden| codes(&load, "linux-ipi", hidden));
    assert!(seen("directed:owes-ipi") > 0);
    assert!(hidden("directed:owes-ipi") == 0 && hidden("directed:ipi-pending") > 0);
    let asks = Profile { shootdown_yields: true, ..load };
    assert!(codes(&asks, "none", false)("directed:named") > 0);
}

/// A host polls for the end of a halt only while nobody else wants the pCPU.
#[test]
fn halt_polling_helps_where_pcpus_are_idle_and_changes_nothing_else() {
    let load = Profile { think_ns: 20_000, section_ns: 3_000, ..Profile::named("micro").unwrap() };
    let ran = |pcpus, poll_us| {
        let halt_poll = Duration::from_micros(poll_us);
        let config = RunConfig { halt_poll, ..millis(20, 8, pcpus) };
        setup("e5-2620v4", 1).run(&config, &load, "queued").unwrap().0
    };
    let [without, with] = [0, 200].map(|us| ran(8, us));
    assert!(with.ops_per_s > 1.02 * without.ops_per_s, "{with:?} {without:?}");
    assert_eq!(text(&ran(1, 0)), text(&ran(1, 200)));
}

/// A user who cancels a run does not wait for the whole grace.
#[test]
fn a_cancelled_run_whose_program_does_not_return_is_given_up() {
    let (cancel, last_ns) = (AtomicBool::new(true), AtomicU64::new(0));
    let body = |vcpu: ThisVcpu<Simulated>| {
        loop {
            vcpu.work_ns(1_000_000);
            vcpu.stopping();
            last_ns.store(vcpu.now_ns(), Relaxed);
        }
    };
    let config = RunConfig { cancel: Some(&cancel), ..millis(5, 2, 1) };
    let failed = setup("dev-kvm", 1).run_program(&config, &Odd(body)).unwrap_err();
    assert!(matches!(failed, Error::Runaway { .. }), "{failed}");
    assert!(last_ns.into_inner() < 200_000_000);
}

#[test]
fn every_lock_and_workload_runs_and_repeats_by_its_seed() {
    let mut differ = 0;
    for workload in Profile::names() {
        for lock in LOCKS.into_iter().chain([HAND_OVER]) {
            let config = RunConfig { policy: "pv-hint", ..millis(3, 5, 2) };
            let config = RunConfig { pause_window: Duration::from_micros(20), ..config };
            let (record, counts) = run(&setup("dev-kvm", 7), &config, workload, lock);
            assert!(record.ops_per_s > 0.0, "{workload}, {lock}: {record:?}");
            assert_eq!(record.timer_backwards, 0, "{workload}, {lock}");
            // This moves whatever was on the heap.
            let _moved = vec![0_u8; 12_345];
            let again = run(&setup("dev-kvm", 7), &config, workload, lock);
            assert_eq!((text(&record), counts), (text(&again.0), again.1), "{workload}, {lock}");
            let other = run(&setup("dev-kvm", 8), &config, workload, lock);
            differ += usize::from(text(&record) != text(&other.0));
        }
    }
    assert!(differ > 30, "a seed that changes nothing is none: {differ}");
}

#[test]
fn an_uncontended_pair_takes_what_its_accesses_cost() {
    let mut setup = setup("e5-2699v3", 1);
    setup.host.jitter_percent = 0;
    let rate = |setup: &Setup| run(setup, &millis(5, 1, 1), "micro", "hybrid").0.ops_per_s;
    let base = 1e9 / rate(&setup);
    for (cost, extra, expected) in [
        // A CAS and a subtraction; loading the stop flag costs nothing.
        (0, 100, 200.0),
        // A lock that is free is not timed.
        (1, 100, 0.0),
        (2, 100, 100.0),
        // No line moves.
        (3, 1_000, 0.0),
    ] {
        let mut setup = setup.clone();
        let costs = &mut setup.host.costs;
        let figure = [&mut costs.rmw, &mut costs.clock, &mut costs.notes, &mut costs.cluster];
        figure.into_iter().nth(cost).unwrap().ns += extra;
        let longer = 1e9 / rate(&setup) - base;
        assert!((longer - expected).abs() < 2.0, "cost {cost}: {longer} ns for {expected}");
    }
}

#[test]
fn a_hand_over_between_spinners_costs_the_way_of_the_line() {
    let rate = |pcpus: [u32; 2], extra: u64| {
        let mut setup = setup("e5-2699v3", 1);
        setup.host.costs.remote.ns += extra;
        let config = millis(2, pcpus[0], pcpus[1]);
        run(&setup, &config, "micro", "native-ticket").0.ops_per_s
    };
    // 18 pCPUs are one socket, 36 are two.
    assert_eq!(rate([18, 18], 0), rate([18, 18], 1_000), "nothing is remote in one socket");
    assert!(rate([36, 36], 0) > 1.5 * rate([36, 36], 1_000), "half of it is in two");
}

/// Two words of one line.
#[derive(Default)]
#[repr(align(64))]
struct Neighbours {
    watched: Timed<u32>,
    other: Timed<u32>,
}

#[test]
fn a_load_in_vain_takes_as_long_whether_machine_or_vcpu_makes_it() {
    // Where spinners report, even if never in this run, their own coroutines make all loads.
    let ran = |pause_window: Duration| {
        let line = Neighbours::default();
        let body = |vcpu: ThisVcpu<Simulated>| {
            for turn in 1..=200 {
                if vcpu.number() == 0 {
                    vcpu.work_ns(3_000);
                    line.other.fetch_add(1, Relaxed);
                    line.watched.fetch_add(u32::from(turn % 10 == 0), Relaxed);
                } else {
                    while line.watched.load(Relaxed) < turn / 10 {
                        vcpu.relax();
                    }
                }
            }
        };
        let config = RunConfig { pause_window, ..millis(5, 4, 4) };
        let setup = setup("e5-2699v3", 1);
        let (outcome, counts) = setup.run_program(&config, &Odd(body)).unwrap();
        (format!("{:?}", outcome.vcpus), counts.accesses, counts.transfers)
    };
    let (by_machine, by_vcpu) = (ran(Duration::ZERO), ran(Duration::from_secs(1)));
    assert!(by_machine.2 > 600, "three vCPUs fetch the line for 200 changes: {by_machine:?}");
    assert_eq!(by_machine, by_vcpu);
}

/// The mean time after which a spinner that pauses so often between two loads sees a change, in
/// nanoseconds.
fn sees_after(pauses: u32) -> f64 {
    let line = Neighbours::default();
    let (changed_at, seen) = ([const { AtomicU64::new(0) }; 501], AtomicU64::new(0));
    let body = |vcpu: ThisVcpu<Simulated>| {
        for turn in 1..=500 {
            if vcpu.number() == 0 {
                vcpu.work_ns(5_000);
                changed_at[turn as usize].store(vcpu.now_ns(), Relaxed);
                line.watched.fetch_add(1, Relaxed);
            } else {
                while line.watched.load(Relaxed) < turn {
                    (0..pauses).for_each(|_| vcpu.relax());
                }
                let changed_at = changed_at[turn as usize].load(Relaxed);
                seen.fetch_add(vcpu.now_ns() - changed_at, Relaxed);
            }
        }
    };
    let (_, counts) =
        setup("e5-2699v3", 1).run_program(&millis(5, 2, 2), &Odd(body)).expect("a run");
    assert!(counts.accesses < 10_000, "the spinner sleeps while nothing changes: {counts:?}");
    seen.into_inner() as f64 / 500.0
}

#[test]
fn a_spinner_sees_a_change_when_it_next_loads() {
    let pause = setup("e5-2699v3", 1).host.costs.pause.ns as f64;
    let (often, rarely) = (sees_after(1), sees_after(32));
    let more = (rarely - often) / (32.0 * pause);
    assert!((0.3..0.7).contains(&more), "half of 32 pauses later: {often} and {rarely} ns");
}

#[test]
fn a_kick_takes_effect_half_way_and_waking_a_sleeper_takes_the_kicker_longer() {
    let mut setup = setup("e5-2699v3", 1);
    setup.host.jitter_percent = 0;
    let costs = &mut setup.host.costs;
    (costs.call.ns, costs.kick.ns, costs.wake.ns, costs.clock.ns) = (10_000, 3_000, 50_000, 0);
    let times = [const { AtomicU64::new(0) }; 4];
    let go = Neighbours::default();
    let body = |vcpu: ThisVcpu<Simulated>| {
        if vcpu.number() == 0 {
            vcpu.work_ns(1_000_000);
            times[0].store(vcpu.now_ns(), Relaxed);
            vcpu.kick(1);
            times[1].store(vcpu.now_ns(), Relaxed);
            // vCPU 1 does not sleep any more.
            vcpu.kick(1);
            times[2].store(vcpu.now_ns(), Relaxed);
        } else {
            vcpu.halt_unless(&go.watched, 0, None);
            times[3].store(vcpu.now_ns(), Relaxed);
        }
    };
    setup.run_program(&millis(5, 2, 2), &Odd(body)).expect("a run");
    let [kicks, kicked, again, woken] = times.map(AtomicU64::into_inner);
    assert_eq!([kicked - kicks, again - kicked, woken - kicks], [13_000, 10_000, 55_000]);
}

#[test]
fn interrupts_are_answered_by_those_that_compute_spin_halt_and_wait_for_a_pcpu() {
    for lock in ["native-test-and-set", "hybrid"] {
        let (record, _) = run(&setup("dev-kvm", 3), &millis(100, 6, 2), "ebizzy", lock);
        assert!(record.exits["interrupt"] > 3, "{lock}: {record:?}");
        let debts: u64 = record.locks.iter().map(|lock| lock.debtor_off_ns).sum();
        assert!(debts > 0, "{lock}: with 6 vCPUs on 2 pCPUs some answer late: {record:?}");
    }
}

#[test]
fn the_oracle_beats_a_host_that_does_nothing() {
    let with = |policy| {
        let config = RunConfig { policy, ..millis(100, 8, 2) };
        let config = RunConfig { pause_window: Duration::from_micros(50), ..config };
        let profile = Profile { section_ns: 1_000, ..Profile::named("micro").unwrap() };
        setup("dev-kvm", 5).run(&config, &profile, "native-ticket").unwrap().0
    };
    let (nothing, oracle) = (with("report"), with("oracle"));
    assert!(oracle.ops_per_s > 1.5 * nothing.ops_per_s, "{oracle:?} against {nothing:?}");
    assert!(oracle.yield_hits > 0 && nothing.yield_hits == 0);
}

#[test]
fn sampling_finds_spinners_that_say_nothing() {
    let every = Some(Duration::from_micros(200));
    let config = RunConfig { policy: "oracle", sample_every: every, ..millis(50, 6, 2) };
    let (record, _) = run(&setup("dev-kvm", 1), &config, "micro", "native-ticket");
    let found: u64 = record.vcpus.iter().map(|vcpu| vcpu.sampled_spins).sum();
    assert!(found > 0 && record.exits["long-spin"] == 0, "{record:?}");
    assert!(record.yield_hits > 0, "{record:?}");
}

/// A spinner whose clock is ahead of the machine's may be woken before it fell asleep. (The machine
/// subtracts times; a debug build detects those that went back.)
#[test]
fn no_clock_goes_back_when_sleepers_are_roused_early() {
    let profile = Profile { section_ns: 100, think_ns: 500, ..Profile::named("micro").unwrap() };
    for vcpus in [4, 8, 12] {
        let config = millis(10, vcpus, 16);
        let (record, _) = setup("power8", 1).run(&config, &profile, "hybrid").unwrap();
        assert!(record.ops_per_s > 0.0, "{record:?}");
    }
}

#[test]
fn background_load_takes_time_that_nobody_else_accounts_for() {
    let host = setup("dev-kvm", 1);
    let (quiet, _) = run(&host, &millis(50, 2, 2), "kernbench", "hybrid");
    let mut busy = host.clone();
    let source = "this test".into();
    let load = overlock_sim::hosts::Background { every_ns: 100_000, for_ns: 50_000, source };
    busy.host.background = Some(load);
    let (busy, _) = run(&busy, &millis(50, 2, 2), "kernbench", "hybrid");
    assert_eq!(quiet.run_delay_s_per_s, 0.0);
    assert!((0.7..1.3).contains(&busy.run_delay_s_per_s), "half of two pCPUs: {busy:?}");
    assert!(busy.ops_per_s < 0.8 * quiet.ops_per_s);
}

#[test]
fn readers_of_the_timer_wait_for_each_other_under_a_mutex_and_not_without_a_lock() {
    let reads = |rule| {
        let config = RunConfig { pm_timer: rule, ..millis(2, 32, 32) };
        run(&setup("opteron-48", 1), &config, "pmtimer", LOCKS[0]).0
    };
    let rates: Vec<f64> = PmTimerRule::ALL.iter().map(|&rule| reads(rule).ops_per_s).collect();
    let [mutex, published, refresh, _, free] = rates[..] else { panic!("{rates:?}") };
    assert!(published > 1.1 * mutex && free > 2.0 * published, "{rates:?}");
    assert!(refresh > mutex, "{rates:?}");
}

/// A program that does what workloads never do.
struct Odd<F>(F);

impl<F: Fn(ThisVcpu<Simulated>) + Sync> Program<Simulated> for Odd<F> {
    fn run(&self, vcpu: ThisVcpu<Simulated>) {
        (self.0)(vcpu);
    }
}

#[test]
fn a_host_that_is_too_small_a_program_that_never_stops_and_one_that_panics_are_told() {
    let profile = Profile::named("micro").unwrap();
    let error = setup("dev-kvm", 1).run(&millis(1, 4, 3), &profile, "hybrid").unwrap_err();
    assert!(error.to_string().contains("has 2 pCPUs, not 3"), "{error}");
    let odd = |config: &RunConfig, body: fn(ThisVcpu<Simulated>)| {
        setup("dev-kvm", 1).run_program(config, &Odd(body))
    };
    let error = odd(&millis(1, 2, 2), |vcpu| {
        assert!(vcpu.number() != 1, "one of two");
    });
    assert!(matches!(error, Err(Error::Panicked { vcpu: 1, .. })), "{error:?}");
    let config = RunConfig { grace: Duration::from_millis(2), ..millis(1, 2, 2) };
    let error = odd(&config, |vcpu| {
        while vcpu.number() == 0 {
            vcpu.sleep_ns(1_000);
            vcpu.work_ns(1_000);
        }
    });
    let Err(Error::Runaway { stuck, .. }) = error else { panic!("{error:?}") };
    assert_eq!(stuck.len(), 1, "{stuck:?}");
    assert!(odd(&config, |_| ()).is_ok());
}

#[test]
fn halts_end_by_kick_deadline_and_early_kick() {
    let (outcome, _) = setup("e5-2699v3", 1)
        .run_program(
            &millis(50, 2, 2),
            &Odd(|vcpu: ThisVcpu<Simulated>| {
                let word = <Simulated as Verbs>::Word::default();
                if vcpu.number() == 0 {
                    let before = vcpu.now_ns();
                    vcpu.halt_unless(&word, 1, None);
                    assert!(vcpu.now_ns() - before < 1_000, "the word says otherwise");
                    vcpu.halt_unless(&word, 0, Some(before + 100_000));
                    assert!((100_000..150_000).contains(&(vcpu.now_ns() - before)));
                    vcpu.halt_unless(&word, 0, None);
                    assert!(vcpu.now_ns() >= 1_000_000, "until the kick");
                    vcpu.work_ns(2_000_000);
                    let before = vcpu.now_ns();
                    vcpu.halt_unless(&word, 0, None);
                    assert!(vcpu.now_ns() - before < 100_000, "the kick came first");
                } else {
                    vcpu.work_ns(1_200_000);
                    vcpu.kick(0);
                    vcpu.work_ns(1_000_000);
                    vcpu.kick(0);
                }
            }),
        )
        .unwrap();
    let kicks: u64 = outcome.vcpus.iter().map(|vcpu| vcpu.kicks).sum();
    assert_eq!(kicks, 2);
}
