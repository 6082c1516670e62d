//! Do simulations with the documents' locks and schedulers run, and repeat to the last digit?

use overlock_bench::workload::Profile;
use overlock_bench::{HostScheduler, Program, RunConfig, ThisVcpu};
use overlock_papers::MORE;
use overlock_results::Run;
use overlock_results::locks::PUBLISHED;
use overlock_sim::hosts::{Counts, HostProfile, Setup, Simulated};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

fn setup(host: &str, seed: u64) -> Setup {
    Setup { host: HostProfile::named(host).unwrap(), seed, more: MORE }
}

fn run(setup: &Setup, config: &RunConfig, workload: &str, lock: &str) -> (Run, Counts) {
    setup.run(config, &Profile::named(workload).unwrap(), lock).unwrap()
}

/// A run of `ms` milliseconds of virtual time, on `vcpus` vCPUs and `pcpus` pCPUs.
fn millis(ms: u64, vcpus: u32, pcpus: u32) -> RunConfig<'static> {
    RunConfig { duration: Duration::from_millis(ms), ..RunConfig::new(vcpus, pcpus) }
}

/// A program that is a function.
struct Odd<F>(F);

impl<F: Fn(ThisVcpu<Simulated>) + Sync> Program<Simulated> for Odd<F> {
    fn run(&self, vcpu: ThisVcpu<Simulated>) {
        (self.0)(vcpu);
    }
}

#[test]
fn every_published_lock_runs_and_repeats_by_its_seed() {
    let mut differ = 0;
    for lock in PUBLISHED {
        for scheduler in [HostScheduler::Overlock, HostScheduler::Linux35, HostScheduler::Linux414]
        {
            let window = Duration::from_micros(20);
            let config =
                RunConfig { policy: "pv-hint", pause_window: window, scheduler, ..millis(3, 5, 2) };
            let text = |seed| {
                let (record, _) = run(&setup("dev-kvm", seed), &config, "micro", lock);
                assert!(record.ops_per_s > 0.0, "{lock}: {record:?}");
                serde_json::to_string(&record).unwrap()
            };
            assert_eq!(text(7), text(7), "{lock}, {scheduler:?}");
            differ += usize::from(text(7) != text(8));
        }
    }
    assert!(differ > 10, "a seed that changes nothing is none: {differ}");
}

/// A vCPU that keeps its pCPU after an eviction may not have come in yet. If it had a way out of
/// the guest and back to make up for, this run would not end.
#[test]
fn vcpus_that_are_evicted_on_their_way_into_the_guest_have_no_more_work_than_before() {
    let config = RunConfig {
        guest_vcpus: 32,
        scheduler: HostScheduler::Linux35,
        pause_window: Duration::from_nanos(1_800),
        policy: "pv-hint",
        grace: Duration::from_millis(20),
        ..millis(40, 64, 32)
    };
    run(&setup("x7560", 1), &config, "kernbench", "native-ticket");
}

/// A vCPU of a Linux host has two others, which compute, preempted in turns before they come into
/// the guest.
#[test]
fn a_vcpu_that_is_preempted_on_its_way_into_the_guest_has_no_more_work_than_before() {
    let mut setup = setup("e5-2699v3", 1);
    setup.host.costs.switch.ns = 100_000;
    let ended_ms = AtomicU64::new(0);
    let body = |vcpu: ThisVcpu<Simulated>| {
        if vcpu.number() == 1 {
            (0..500).for_each(|turn| vcpu.yield_to(Some(turn % 2 * 2)));
        } else {
            for _ in 0..100 {
                vcpu.work_ns(10_000);
                // Its time passes only in view of others.
                vcpu.stopping();
            }
            ended_ms.fetch_max(vcpu.now_ns() / 1_000_000, Relaxed);
        }
    };
    let config = RunConfig { scheduler: HostScheduler::Linux35, ..millis(5, 3, 2) };
    let (outcome, _) = setup.run_program(&config, &Odd(body)).expect("a run");
    let preempted: u64 = outcome.vcpus.iter().map(|vcpu| vcpu.preemptions).sum();
    let ended_ms = ended_ms.into_inner();
    assert!(preempted > 50, "{preempted}");
    assert!(ended_ms < 10, "after {ended_ms} ms, of which 2 are work and about 3 yields");
}
