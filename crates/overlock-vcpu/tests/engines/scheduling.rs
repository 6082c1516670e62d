//! Does the host really decide which vCPU runs?

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;

use crate::support::{Body, config};
use crate::until;
use overlock_bench::Engine as _;
use overlock_vcpu::lab::{Accounts, Hint, KvmEngine, Ports, Program, RunConfig, ThisVcpu};

crate::on_kvm!(
    a_lock_counts_exactly_on_more_vcpus_than_pcpus,
    a_preempted_vcpu_is_out_of_the_guest,
    the_preempted_flag_is_seen,
    a_halted_vcpu_does_not_run_until_kicked,
    a_kick_before_the_halt_is_not_lost,
    a_halt_ends_at_its_deadline,
    every_vcpu_gets_its_turn,
    sampling_finds_a_spinner_that_says_nothing,
    a_long_spin_gives_the_processor_to_the_hinted_holder,
    a_yield_is_honoured_under_any_policy,
    a_critical_section_is_not_interrupted_within_its_grace,
    a_run_can_be_cancelled,
    the_longest_spans_are_for_ever,
    runs_wait_for_each_other,
    the_stop_flag_is_set_when_the_time_is_over,
);

/// Takes turns at a lock that is unaware of vCPUs.
fn locked(lock: &AtomicBool, section: impl FnOnce()) {
    while lock.swap(true, Acquire) {
        while lock.load(Relaxed) {
            std::hint::spin_loop();
        }
    }
    section();
    lock.store(false, Release);
}

fn a_lock_counts_exactly_on_more_vcpus_than_pcpus() {
    const EACH: u64 = 20_000;
    let (lock, sum) = (AtomicBool::new(false), AtomicU64::new(0));
    let outcome = KvmEngine.run(
        &config(8, 2),
        &Body(|_: ThisVcpu<Ports>| {
            for _ in 0..EACH {
                locked(&lock, || sum.store(sum.load(Relaxed) + 1, Relaxed));
            }
        }),
    );
    assert_eq!(outcome.unwrap().vcpus.len(), 8);
    assert_eq!(sum.into_inner(), 8 * EACH);
}

fn a_preempted_vcpu_is_out_of_the_guest() {
    let beats = [const { AtomicU64::new(0) }; 2];
    let (looks, moved) = (AtomicU64::new(0), AtomicU64::new(0));
    let preempted = [const { AtomicBool::new(false) }; 2];
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        let own = usize::from(vcpu.number() != 0);
        let (mine, other) = (&beats[own], &beats[1 - own]);
        // As many loads as fit into the time that a busy machine needs to preempt both.
        let more = || looks.load(Relaxed) < 2000 || !preempted.iter().all(|one| one.load(Relaxed));
        // On one pCPU, the other vCPU stands still as long as this one is not away.
        while more() && !vcpu.stopping() {
            let (away, before) = (vcpu.away_ns(), other.load(SeqCst));
            for _ in 0..1000 {
                mine.fetch_add(1, Relaxed);
            }
            let after = other.load(SeqCst);
            if vcpu.away_ns() == away {
                looks.fetch_add(1, Relaxed);
                moved.fetch_add(u64::from(before != after), Relaxed);
            } else {
                preempted[own].store(true, Relaxed);
            }
        }
    });
    let mut config = config(2, 1);
    config.slice = Duration::from_micros(500);
    let outcome = KvmEngine.run(&config, &program).unwrap();
    assert!(outcome.vcpus.iter().all(|vcpu| vcpu.preemptions > 0), "{outcome:?}");
    assert_eq!(moved.into_inner(), 0, "a vCPU without a processor ran");
}

fn the_preempted_flag_is_seen() {
    let seen = AtomicU32::new(0);
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        let other = 1 - vcpu.number();
        while seen.load(Relaxed) != 3 && !vcpu.stopping() {
            if vcpu.is_preempted(other) {
                seen.fetch_or(1 << other, Relaxed);
            }
            assert!(!vcpu.is_preempted(vcpu.number()));
        }
    });
    KvmEngine.run(&config(2, 1), &program).unwrap();
    assert_eq!(seen.into_inner(), 3);
}

fn a_halted_vcpu_does_not_run_until_kicked() {
    let halted = until(halted_while_another_works, |vcpu| vcpu.halted_ns > 10_000_000);
    assert!(halted.halted_ns > 10_000_000, "{halted:?}");
    // It ran for as long as it takes to halt, if its thread had a CPU.
    assert!(halted.ran_ns < 10_000_000 + halted.run_delay_ns, "{halted:?}");
}

/// A vCPU halts before another works for `factor` times 20 ms; returns its accounts.
fn halted_while_another_works(factor: u32) -> Accounts {
    let (word, woken, early) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let comes = AtomicBool::new(false);
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        if vcpu.number() == 1 {
            comes.store(true, SeqCst);
            while word.load(Relaxed) == 0 {
                vcpu.halt_unless(&word, 0, None);
                woken.fetch_add(1, SeqCst);
            }
            return;
        }
        while !comes.load(SeqCst) {
            std::hint::spin_loop();
        }
        vcpu.work_ns(20_000_000 * u64::from(factor));
        early.store(woken.load(SeqCst), Relaxed);
        word.store(1, SeqCst);
        vcpu.kick(1);
    });
    let outcome = KvmEngine.run(&config(2, 2), &program).unwrap();
    assert_eq!((early.into_inner(), woken.into_inner()), (0, 1));
    assert_eq!((outcome.vcpus[0].kicks, outcome.vcpus[1].halts), (1, 1));
    outcome.vcpus[1].clone()
}

fn a_kick_before_the_halt_is_not_lost() {
    let (word, kicked, rounds) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        for round in 1..=20 {
            if vcpu.number() == 0 {
                vcpu.kick(1);
                kicked.store(round, SeqCst);
                while rounds.load(SeqCst) < round && !vcpu.stopping() {}
            } else {
                while kicked.load(SeqCst) < round && !vcpu.stopping() {}
                // The word never changes: only the kick that has already come ends this halt.
                vcpu.halt_unless(&word, 0, None);
                rounds.store(round, SeqCst);
            }
        }
    });
    KvmEngine.run(&config(2, 2), &program).unwrap();
    assert_eq!(rounds.into_inner(), 20);
}

fn a_halt_ends_at_its_deadline() {
    let (word, early) = (AtomicU32::new(0), AtomicU32::new(0));
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        for _ in 0..10 {
            let deadline = vcpu.now_ns() + 500_000;
            vcpu.halt_unless(&word, 0, Some(deadline));
            early.fetch_add(u32::from(vcpu.now_ns() + 10_000 < deadline), Relaxed);
        }
    });
    let outcome = KvmEngine.run(&config(2, 1), &program).unwrap();
    assert_eq!(early.into_inner(), 0, "a halt ended early without a kick");
    assert!(outcome.vcpus.iter().all(|vcpu| vcpu.halts == 10));
}

fn every_vcpu_gets_its_turn() {
    let mut config = config(4, 2);
    config.duration = Duration::from_millis(400);
    let program = Body(|vcpu: ThisVcpu<Ports>| while !vcpu.stopping() {});
    let outcome = KvmEngine.run(&config, &program).unwrap();
    let ran: Vec<u64> = outcome.vcpus.iter().map(|vcpu| vcpu.ran_ns).collect();
    let average = ran.iter().sum::<u64>() / 4;
    assert!(ran.iter().all(|&ran| ran > average / 8), "{ran:?}");
}

#[inline(never)]
fn spin_while(word: &AtomicBool) {
    while word.load(Relaxed) {
        std::hint::spin_loop();
    }
}

fn sampling_finds_a_spinner_that_says_nothing() {
    let run = |factor| {
        let mut config = config(2, 2);
        config.duration = Duration::from_millis(200) * factor;
        config.sample_every = Some(Duration::from_millis(2));
        let held = AtomicBool::new(true);
        let program = Body(|vcpu: ThisVcpu<Ports>| {
            if vcpu.number() == 0 {
                return spin_while(&held);
            }
            while !vcpu.stopping() {}
            held.store(false, Relaxed);
        });
        KvmEngine.run(&config, &program).unwrap()
    };
    let outcome = until(run, |outcome| outcome.vcpus[0].sampled_spins > 5);
    assert!(outcome.vcpus[0].sampled_spins > 5, "{outcome:?}");
    assert_eq!(outcome.vcpus[1].sampled_spins, 0, "plain code was taken for a spin loop");
}

/// Two vCPUs that take turns; each spins until the turn is its own.
struct Turns(AtomicU32);

const ROUNDS: u32 = 20;

impl Program<Ports> for Turns {
    fn run(&self, vcpu: ThisVcpu<Ports>) {
        for round in 0..ROUNDS {
            while self.0.load(Acquire) != 2 * round + vcpu.number() && !vcpu.stopping() {
                vcpu.long_spin();
            }
            self.0.fetch_add(1, Release);
        }
    }

    fn hint(&self, spinner: u32) -> Hint {
        Hint { holder: Some(1 - spinner), ..Hint::default() }
    }
}

fn a_long_spin_gives_the_processor_to_the_hinted_holder() {
    let mut config = config(2, 1);
    // No slice ends within the test: only the report can let the other vCPU in.
    config.slice = Duration::from_secs(20);
    config.policy = "pv-hint";
    let turns = Turns(AtomicU32::new(0));
    let outcome = KvmEngine.run(&config, &turns).unwrap();
    assert_eq!(turns.0.into_inner(), 2 * ROUNDS);
    assert_eq!(outcome.vcpus.iter().map(|vcpu| vcpu.preemptions).sum::<u64>(), 0);
    let directed = outcome.yields.codes["directed:lock-holder"];
    assert!(directed >= u64::from(ROUNDS), "{outcome:?}");
    assert_eq!(outcome.yields.hits, directed);
}

fn a_yield_is_honoured_under_any_policy() {
    let mut config = config(2, 1);
    config.slice = Duration::from_secs(20);
    let turn = AtomicU32::new(0);
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        for round in 0..ROUNDS {
            while turn.load(Acquire) != 2 * round + vcpu.number() && !vcpu.stopping() {
                vcpu.yield_to(Some(1 - vcpu.number()));
            }
            turn.fetch_add(1, Release);
        }
    });
    let outcome = KvmEngine.run(&config, &program).unwrap();
    assert_eq!(turn.into_inner(), 2 * ROUNDS);
    assert!(outcome.vcpus.iter().all(|vcpu| vcpu.yields > 0), "{outcome:?}");
}

/// Counts how often a running vCPU finds the other one inside its critical section, on one pCPU:
/// the other was preempted there.
fn taken_away_inside(grace: Duration) -> (u32, u64) {
    let inside = [const { AtomicBool::new(false) }; 2];
    let found = AtomicU32::new(0);
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        let me = vcpu.number() as usize;
        for _ in 0..15 {
            vcpu.enter_critical();
            inside[me].store(true, SeqCst);
            vcpu.work_ns(1_500_000);
            found.fetch_add(u32::from(inside[1 - me].load(SeqCst)), Relaxed);
            inside[me].store(false, SeqCst);
            vcpu.leave_critical();
        }
    });
    let mut config = config(2, 1);
    config.critical = grace;
    let outcome = KvmEngine.run(&config, &program).unwrap();
    (found.into_inner(), outcome.vcpus.iter().map(|vcpu| vcpu.graces).sum())
}

fn a_critical_section_is_not_interrupted_within_its_grace() {
    let (found, graces) = taken_away_inside(Duration::ZERO);
    assert!(found > 0, "critical sections longer than a slice are interrupted");
    assert_eq!(graces, 0, "without a grace, no vCPU has to call at its end");
    let (found, graces) = taken_away_inside(Duration::from_secs(10));
    assert_eq!(found, 0);
    assert!(graces > 0);
}

fn a_run_can_be_cancelled() {
    let cancel = AtomicBool::new(false);
    let mut config = config(2, 2);
    config.cancel = Some(&cancel);
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        vcpu.work_ns(5_000_000);
        cancel.store(true, Relaxed);
        while !vcpu.stopping() {}
    });
    let outcome = KvmEngine.run(&config, &program).unwrap();
    assert!(outcome.ran < Duration::from_secs(20));
}

fn the_longest_spans_are_for_ever() {
    let (cancel, early) = (AtomicBool::new(false), AtomicBool::new(false));
    let ever = Duration::MAX;
    let config = RunConfig {
        duration: ever,
        grace: ever,
        slice: ever,
        critical: ever,
        pause_window: ever,
        sample_every: Some(ever),
        cancel: Some(&cancel),
        ..config(2, 1)
    };
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        if vcpu.number() == 0 {
            vcpu.work_ns(100_000_000);
            vcpu.relax();
            early.store(vcpu.stopping(), Relaxed);
            cancel.store(true, Relaxed);
        }
        while !vcpu.stopping() {}
    });
    let outcome = KvmEngine.run(&config, &program).unwrap();
    assert!(!early.into_inner(), "a span without end was over");
    let exits = |vcpu: &Accounts| vcpu.preemptions + vcpu.long_spins + vcpu.evictions;
    assert_eq!(outcome.vcpus.iter().map(exits).sum::<u64>(), 0, "{outcome:?}");
}

fn runs_wait_for_each_other() {
    let (running, most) = (AtomicU32::new(0), AtomicU32::new(0));
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
        vcpu.work_ns(30_000_000);
        running.fetch_sub(1, SeqCst);
    });
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| KvmEngine.run(&config(1, 1), &program).unwrap());
        }
    });
    assert_eq!(most.into_inner(), 1, "two runs at a time");
}

fn the_stop_flag_is_set_when_the_time_is_over() {
    let mut config = config(1, 1);
    config.duration = Duration::from_millis(50);
    let stopped = AtomicU64::new(0);
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        while !vcpu.stopping() {}
        stopped.store(vcpu.now_ns(), Relaxed);
    });
    let outcome = KvmEngine.run(&config, &program).unwrap();
    assert!(outcome.ran >= config.duration);
    assert!(Duration::from_nanos(stopped.into_inner()) >= config.duration);
}
