//! Does the scheduler do what its documentation says, step by step?

use core::num::NonZeroU32;

use crate::support::{
    P0, P1, Rule, V0, V1, V2, halted, idle, kick, preempted, preempts, run, spins, timer, us,
    yielded,
};
use overlock_vcpu::host::sched::yield_to::{
    Cause, Chosen, Missed, Outcome, PlainYield, Policy, RoundRobin, Ruling, SkipSpinners, Skipped,
    Stay, by_name,
};
use overlock_vcpu::host::sched::{
    Action, CPUS_MAX, Config, ConfigError, Event, Guest, SchedError, Scheduler, Standing,
};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};

/// A scheduler whose vCPUs were all kicked at time zero, in order.
fn started<P: Policy>(config: Config, policy: P) -> Scheduler<P> {
    let mut sched = Scheduler::new(config, policy).unwrap();
    for n in 0..config.vcpus {
        sched.on(Nanos::ZERO, kick(Vcpu(n))).unwrap();
    }
    sched
}

/// What follows from an event at this microsecond.
fn does<P: Policy>(sched: &mut Scheduler<P>, at_us: u64, event: Event) -> Option<Action> {
    sched.on(us(at_us), event).unwrap()
}

#[test]
fn a_kick_starts_an_idle_pcpu_and_a_halt_empties_it() {
    let mut sched = Scheduler::new(Config::new(2, 2), Stay).unwrap();
    assert_eq!(does(&mut sched, 5, kick(V1)), run(V1, P1, us(1_005)));
    assert_eq!(does(&mut sched, 6, kick(V0)), run(V0, P0, us(1_006)));
    assert_eq!(does(&mut sched, 9, halted(V1)), Some(Action::Idle { pcpu: P1 }));
    assert_eq!(sched.standing(V1), Some(Standing::Halted));
    assert_eq!(sched.usage(us(20), V1).unwrap().ran, us(4));
}

#[test]
fn a_kick_before_the_halt_is_not_lost() {
    let mut sched = started(Config::new(1, 1), Stay);
    assert_eq!(does(&mut sched, 1, kick(V0)), None);
    assert_eq!(does(&mut sched, 2, halted(V0)), run(V0, P0, us(1_000)));
    // That uses it up.
    assert_eq!(does(&mut sched, 3, halted(V0)), idle(P0));
    // So does an interrupt.
    does(&mut sched, 4, Event::Ipi { from: V0, to: V0 });
    assert_eq!(sched.owner(P0), Some(V0));
}

#[test]
fn a_mode_lasts_until_the_vcpu_enters_again() {
    let mut sched = started(Config::new(3, 1), by_name("linux", 3).unwrap());
    does(&mut sched, 1_000, timer(P0));
    does(&mut sched, 1_000, Event::InUser { vcpu: V0 });
    assert_eq!(does(&mut sched, 1_000, preempted(V0)), run(V1, P0, us(2_000)));
    assert_eq!(does(&mut sched, 1_010, spins(V1)), run(V2, P0, us(2_010)));
    assert_eq!(sched.decision().unwrap().trace.skipped(V0), Some(Skipped::InUser));
    does(&mut sched, 1_020, halted(V2));
    does(&mut sched, 1_030, halted(V1));
    assert_eq!(sched.owner(P0), Some(V0));
    does(&mut sched, 1_040, kick(V1));
    does(&mut sched, 1_040, yielded(V0));
    assert_eq!(does(&mut sched, 1_050, spins(V1)), run(V0, P0, us(2_050)));
}

#[test]
fn a_kick_after_a_preemption_is_not_lost_either() {
    let mut sched = started(Config::new(2, 1), Stay);
    does(&mut sched, 1_000, timer(P0));
    assert_eq!(does(&mut sched, 1_000, preempted(V0)), run(V1, P0, us(2_000)));
    // It may have been about to halt.
    does(&mut sched, 1_001, kick(V0));
    assert_eq!(does(&mut sched, 1_002, halted(V1)), run(V0, P0, us(2_002)));
    assert_eq!(does(&mut sched, 1_003, halted(V0)), run(V0, P0, us(2_002)));
}

#[test]
fn a_kick_of_a_vcpu_that_has_just_been_woken_adds_nothing() {
    let mut sched = started(Config::new(2, 1), Stay);
    // It was woken and has not run: what the second kick tells it, it will see anyway.
    does(&mut sched, 1, kick(V1));
    assert_eq!(does(&mut sched, 2, halted(V0)), run(V1, P0, us(1_002)));
    assert_eq!(does(&mut sched, 3, halted(V1)), idle(P0));
    // A kick while it runs stays.
    assert_eq!(does(&mut sched, 4, kick(V1)), run(V1, P0, us(1_004)));
    does(&mut sched, 5, kick(V1));
    assert_eq!(does(&mut sched, 6, halted(V1)), run(V1, P0, us(1_004)));
}

#[test]
fn a_slice_ends_only_if_somebody_waits() {
    let mut sched = started(Config::new(1, 1), Stay);
    let again = |at| Some(Action::SetTimer { pcpu: P0, at });
    assert_eq!(does(&mut sched, 1_000, timer(P0)), again(us(2_000)));
    // A timer that goes off early is set again.
    assert_eq!(does(&mut sched, 1_500, timer(P0)), again(us(2_000)));

    let mut sched = started(Config::new(2, 1), Stay);
    assert_eq!(does(&mut sched, 1_000, timer(P0)), preempts(V0, P0));
    assert_eq!(does(&mut sched, 1_001, timer(P0)), None, "it is on its way out already");
    assert_eq!(does(&mut sched, 1_014, preempted(V0)), run(V1, P0, us(2_000)));
    assert!(sched.is_preempted(V0));
    assert_eq!(sched.usage(us(1_100), V0).unwrap().steal, us(86));
    assert_eq!(sched.usage(us(1_100), V1).unwrap().steal, us(1_014));
    // V1 waits once more, from 1,100 µs to 1,150 µs.
    does(&mut sched, 1_100, yielded(V1));
    does(&mut sched, 1_150, halted(V0));
    assert_eq!(sched.usage(us(1_200), V1).unwrap().steal, us(1_064));
}

#[test]
fn a_preemption_out_of_nowhere_lets_the_vcpu_go_on() {
    let mut sched = started(Config::new(2, 1), Stay);
    assert_eq!(does(&mut sched, 10, preempted(V0)), run(V0, P0, us(1_000)));
}

#[test]
fn a_halt_overtakes_a_preemption() {
    let mut sched = started(Config::new(2, 1), Stay);
    does(&mut sched, 1_000, timer(P0));
    assert_eq!(does(&mut sched, 1_003, halted(V0)), run(V1, P0, us(2_000)));
    // The signal that should have brought it out comes late.
    assert_eq!(sched.on(us(1_014), preempted(V0)), Err(SchedError::NotOwner(V0)));
}

#[test]
fn a_critical_section_has_its_grace_once() {
    let mut sched = started(Config::new(2, 1), Stay);
    let inside = |inside| Event::CriticalSection { vcpu: V0, inside };
    does(&mut sched, 900, inside(true));
    let grace = Some(Action::SetTimer { pcpu: P0, at: us(1_050) });
    assert_eq!(does(&mut sched, 1_000, timer(P0)), grace);
    assert_eq!(does(&mut sched, 1_050, timer(P0)), preempts(V0, P0), "the grace is bounded");

    let mut sched = started(Config::new(2, 1), Stay);
    does(&mut sched, 900, inside(true));
    does(&mut sched, 1_000, timer(P0));
    assert_eq!(
        does(&mut sched, 1_007, inside(false)),
        preempts(V0, P0),
        "the grace ends with the section"
    );
}

#[test]
fn a_woken_vcpu_preempts_one_that_is_far_ahead() {
    let waking = |at| {
        let mut sched = Scheduler::new(Config::new(2, 1), Stay).unwrap();
        does(&mut sched, 0, kick(V0));
        sched.on(at, kick(V1)).unwrap()
    };
    assert_eq!(waking(us(500)), None);
    assert_eq!(waking(us(501)), preempts(V0, P0));
}

#[test]
fn a_long_sleep_saves_up_one_slice_at_most() {
    let mut sched = Scheduler::new(Config::new(2, 1), Stay).unwrap();
    does(&mut sched, 0, kick(V0));
    let at = us(1_000_000);
    sched.on(at, kick(V1)).unwrap();
    assert_eq!(sched.on(at, preempted(V0)).unwrap(), run(V1, P0, us(1_001_000)));
    // The first vCPU uses up its saved slice; then the two take turns.
    assert_eq!(does(&mut sched, 1_001_000, timer(P0)), preempts(V1, P0));
}

#[test]
fn cpu_time_that_nobody_wanted_is_not_held_against_a_vcpu() {
    // Two vCPUs have had a pCPU each for a second. Because of its small weight, V1 is far ahead of
    // V0.
    let mut sched = Scheduler::new(Config::new(3, 2), Stay).unwrap();
    sched.set_weight(V0, NonZeroU32::new(30 * 1024).unwrap()).unwrap();
    does(&mut sched, 0, kick(V0));
    does(&mut sched, 0, kick(V1));
    let mut now = us(1_000_000);
    assert_eq!(sched.on(now, kick(V2)).unwrap(), preempts(V1, P1));
    sched.on(now, preempted(V1)).unwrap();
    // V2 wakes and takes its pCPU; V1 has it back once V2 has caught up with its cap.
    while sched.owner(P1) != Some(V1) {
        now = now + us(1_000);
        if let Some(Action::Preempt { vcpu, .. }) = sched.on(now, timer(P1)).unwrap() {
            sched.on(now, Event::Preempted { vcpu }).unwrap();
        }
        assert!(now < us(1_015_000), "V1 still waits at {now}");
    }
}

#[test]
fn an_idle_pcpu_fetches_from_the_others() {
    let mut sched = started(Config::new(3, 2), Stay);
    assert_eq!(sched.waiting(P0), 1);
    assert_eq!(does(&mut sched, 10, Event::Stopped { vcpu: V1 }), run(V2, P1, us(1_010)));
    assert_eq!(does(&mut sched, 20, kick(V1)), None, "a stopped vCPU stays stopped");
    assert_eq!(sched.standing(V1), Some(Standing::Stopped));
}

#[test]
fn a_directed_yield_moves_its_target_over_and_says_why() {
    let mut sched = started(Config::new(3, 2), RoundRobin::default());
    let spin = spins(V1);
    assert_eq!(does(&mut sched, 30, spin), run(V2, P1, us(1_030)));
    let decision = sched.decision().unwrap();
    assert_eq!(decision.outcome, Outcome::Directed { to: V2, why: Chosen::NextInTurn });
    assert_eq!(decision.trace.skipped(V0), Some(Skipped::Running));
    assert_eq!(decision.trace.skipped(V1), Some(Skipped::Itself));
    assert_eq!(decision.trace.skipped(V2), None);
    assert_eq!(sched.tally().directed(Chosen::NextInTurn), 1);
    does(&mut sched, 31, timer(P0));
    assert_eq!(sched.decision(), None, "a timer calls for no decision");
}

#[test]
fn a_yield_with_nobody_waiting_says_so() {
    let mut sched = started(Config::new(2, 2), PlainYield);
    assert_eq!(does(&mut sched, 30, spins(V1)), run(V1, P1, us(1_000)));
    let outcome = sched.decision().unwrap().outcome;
    assert_eq!(outcome, Outcome::Stayed { why: Missed::NobodyWaits });
    assert_eq!(sched.tally().stayed(Missed::NobodyWaits), 1);
    assert_eq!(does(&mut sched, 31, yielded(V1)), run(V1, P1, us(1_000)));
}

#[test]
fn an_unfit_choice_becomes_a_plain_yield_with_a_reason() {
    let mut sched = started(Config::new(3, 1), Rule(|_, _, _| Ruling::To(V0, Chosen::NextInTurn)));
    assert_eq!(does(&mut sched, 1, spins(V0)), run(V1, P0, us(1_001)));
    let decision = sched.decision().unwrap();
    assert_eq!(decision.outcome, Outcome::Plain { to: V1, why: Missed::TargetUnfit });
    assert_eq!(decision.trace.skipped(V0), Some(Skipped::Itself));

    // V0 runs until it is further ahead of V2, which waits, than a yield may put it.
    does(&mut sched, 1, spins(V1));
    does(&mut sched, 6_000, yielded(V0));
    assert_eq!(sched.owner(P0), Some(V2));
    does(&mut sched, 6_000, yielded(V2));
    assert_eq!(sched.owner(P0), Some(V1));
    does(&mut sched, 6_000, spins(V1));
    assert_eq!(sched.decision().unwrap().trace.skipped(V0), Some(Skipped::AheadOfShare));
}

#[test]
fn a_yield_by_name_goes_there_under_any_policy_and_else_to_whoever_lags_most() {
    let mut sched = started(Config::new(3, 1), Stay);
    // V1 waits in front of V2.
    let to = |to| Event::YieldedTo { vcpu: V0, to };
    assert_eq!(does(&mut sched, 1, to(V2)), run(V2, P0, us(1_001)));
    assert_eq!(sched.decision().unwrap().cause, Cause::Request);
    let outcome = sched.decision().unwrap().outcome;
    assert_eq!(outcome, Outcome::Directed { to: V2, why: Chosen::Named });

    let mut sched = started(Config::new(3, 1), Stay);
    for nonsense in [V0, Vcpu(7)] {
        let mut sched = started(Config::new(3, 1), Stay);
        assert_eq!(does(&mut sched, 1, to(nonsense)), run(V1, P0, us(1_001)));
        let outcome = sched.decision().unwrap().outcome;
        assert_eq!(outcome, Outcome::Plain { to: V1, why: Missed::TargetUnfit });
    }
    // A vCPU that runs nowhere has nothing to give.
    let event = Event::YieldedTo { vcpu: V1, to: V2 };
    assert_eq!(sched.on(us(1), event), Err(SchedError::NotOwner(V1)));
}

#[test]
fn who_has_run_since_its_spin_no_longer_counts_as_spinning() {
    let mut sched = started(Config::new(2, 1), SkipSpinners::new(2));
    does(&mut sched, 10, spins(V0));
    assert_eq!(sched.owner(P0), Some(V1));
    // V0 left spinning, so it is skipped; then V1 halts, and V0 works until it is preempted.
    does(&mut sched, 20, spins(V1));
    assert_eq!(sched.decision().unwrap().trace.skipped(V0), Some(Skipped::Spinning));
    does(&mut sched, 30, halted(V1));
    does(&mut sched, 700, kick(V1));
    does(&mut sched, 710, preempted(V0));
    assert_eq!(sched.owner(P0), Some(V1));
    does(&mut sched, 720, spins(V1));
    let outcome = sched.decision().unwrap().outcome;
    assert_eq!(outcome, Outcome::Directed { to: V0, why: Chosen::NotSpinning });
}

#[test]
fn impossible_configurations_are_refused_with_a_sentence() {
    let refused = |config| Scheduler::new(config, Stay).map(drop).unwrap_err();
    assert_eq!(refused(Config::new(0, 1)), ConfigError::Vcpus(0));
    assert_eq!(refused(Config::new(1, CPUS_MAX + 1)), ConfigError::Pcpus(CPUS_MAX + 1));
    let empty = refused(Config { slice: Nanos::ZERO, ..Config::new(1, 1) });
    assert_eq!(empty.to_string(), "a time slice of 0 ns lets no vCPU run; choose at least 1 ns");
}

#[test]
fn slices_that_ended_while_nobody_waited_were_renewed() {
    let config = Config { wake_lag: Nanos::from_secs(1), ..Config::new(2, 1) };
    let mut sched = Scheduler::new(config, Stay).unwrap();
    assert_eq!(does(&mut sched, 0, kick(V0)), run(V0, P0, us(1_000)));
    assert_eq!(sched.slice_end(P0), None, "no vCPU waits, so no timer is needed");
    // V1 wakes in the fourth slice; V0 is not far enough ahead to be preempted at once.
    assert_eq!((does(&mut sched, 3_400, kick(V1)), sched.queued()), (None, 1));
    assert_eq!(sched.slice_end(P0), Some(us(4_000)));
    assert_eq!(
        does(&mut sched, 3_500, timer(P0)),
        Some(Action::SetTimer { pcpu: P0, at: us(4_000) })
    );
    assert_eq!(does(&mut sched, 4_000, timer(P0)), preempts(V0, P0));
    assert_eq!(sched.slice_end(P0), None, "the owner is on its way out");
    assert_eq!(does(&mut sched, 4_010, preempted(V0)), run(V1, P0, us(5_000)));
}

#[test]
fn a_slice_begins_when_the_last_one_should_have_ended() {
    let mut sched = started(Config::new(2, 1), Stay);
    let preempt = |vcpu| Some(Action::Preempt { vcpu, pcpu: P0 });
    assert_eq!(does(&mut sched, 1_010, timer(P0)), preempt(V0));
    assert_eq!(does(&mut sched, 1_090, preempted(V0)), run(V1, P0, us(2_000)));
    assert_eq!(sched.slice_start(P0), Some(us(1_090)));
    // It was out too late for that: the next one has a whole slice.
    assert_eq!(does(&mut sched, 2_000, timer(P0)), preempt(V1));
    assert_eq!(does(&mut sched, 2_251, preempted(V1)), run(V0, P0, us(3_251)));
    // So it does after a halt, which ends no slice.
    assert_eq!(does(&mut sched, 3_200, halted(V0)), run(V1, P0, us(4_200)));
}

#[test]
fn a_woken_vcpu_waits_for_the_end_of_a_critical_section_but_not_for_ever() {
    let config = Config { slice: Nanos::from_millis(10), ..Config::new(2, 1) };
    let owner = |inside| {
        let mut sched = Scheduler::new(config, Stay).unwrap();
        does(&mut sched, 0, kick(V0));
        does(&mut sched, 1, Event::CriticalSection { vcpu: V0, inside });
        sched
    };
    // V0 is 2 ms ahead when V1 wakes.
    assert_eq!(owner(false).on(us(4_000), kick(V1)).unwrap(), preempts(V0, P0));
    let mut sched = owner(true);
    let grace = Action::SetTimer { pcpu: P0, at: us(4_050) };
    assert_eq!(does(&mut sched, 4_000, kick(V1)), Some(grace));
    assert_eq!(does(&mut sched, 4_050, timer(P0)), preempts(V0, P0));
    // There is no second grace within one slice.
    assert_eq!(does(&mut sched, 4_060, preempted(V0)), run(V1, P0, us(14_050)));

    // If the critical section is seen only once the owner is out, the owner goes back in for the
    // grace.
    let mut sched = owner(false);
    assert_eq!(does(&mut sched, 4_000, kick(V1)), preempts(V0, P0));
    does(&mut sched, 4_010, Event::CriticalSection { vcpu: V0, inside: true });
    assert_eq!(does(&mut sched, 4_010, preempted(V0)), run(V0, P0, us(4_060)));
    let over = Event::CriticalSection { vcpu: V0, inside: false };
    assert_eq!(does(&mut sched, 4_030, over), preempts(V0, P0));
}

#[test]
fn a_vcpu_is_unplugged_wherever_it_is_and_comes_back_asleep() {
    let mut sched = started(Config::new(3, 1), Stay);
    // This stops one that waits, one that runs, and then one that sleeps.
    assert_eq!((does(&mut sched, 10, Event::Stopped { vcpu: V1 }), sched.queued()), (None, 1));
    assert_eq!(does(&mut sched, 20, Event::Stopped { vcpu: V0 }), run(V2, P0, us(1_020)));
    assert_eq!(does(&mut sched, 30, halted(V2)), idle(P0));
    assert_eq!(does(&mut sched, 40, Event::Stopped { vcpu: V2 }), None);
    assert!([V0, V1, V2].iter().all(|&vcpu| sched.standing(vcpu) == Some(Standing::Stopped)));
    assert_eq!((does(&mut sched, 50, kick(V0)), sched.owner(P0)), (None, None));
    // A second stop, and a plug of a vCPU that is there, are impossible.
    assert_eq!(sched.on(us(60), Event::Stopped { vcpu: V0 }), Err(SchedError::Stopped(V0)));
    does(&mut sched, 70, Event::Plugged { vcpu: V0 });
    assert_eq!(sched.standing(V0), Some(Standing::Halted));
    assert_eq!(sched.on(us(80), Event::Plugged { vcpu: V0 }), Err(SchedError::Plugged(V0)));
    assert_eq!(does(&mut sched, 1_090, kick(V0)), run(V0, P0, us(2_090)));
    let usage = sched.usage(us(1_100), V0).unwrap();
    assert_eq!((usage.ran, usage.halted), (us(30), Nanos::ZERO));
    // V2 slept from 30 to 40; time after its stop does not count.
    assert_eq!(sched.usage(us(1_100), V2).unwrap().halted, us(10));
}

#[test]
fn what_cannot_have_happened_is_an_error_and_changes_nothing() {
    let mut sched = started(Config::new(2, 1), Stay);
    does(&mut sched, 100, kick(V1));
    let before = format!("{sched:?}");
    let (gone, nowhere) = (Vcpu(2), Pcpu(1));
    for (now, event, why) in [
        (99, kick(V1), SchedError::Earlier { now: us(99), last: us(100) }),
        (200, kick(gone), SchedError::NoVcpu(gone)),
        (200, Event::Ipi { from: gone, to: V0 }, SchedError::NoVcpu(gone)),
        (200, Event::Ipi { from: V0, to: gone }, SchedError::NoVcpu(gone)),
        (200, halted(gone), SchedError::NoVcpu(gone)),
        (200, halted(V1), SchedError::NotOwner(V1)),
        (200, spins(V1), SchedError::NotOwner(V1)),
        (200, yielded(V1), SchedError::NotOwner(V1)),
        (200, preempted(V1), SchedError::NotOwner(V1)),
        (200, Event::Answered { vcpu: gone }, SchedError::NoVcpu(gone)),
        (200, Event::CriticalSection { vcpu: gone, inside: true }, SchedError::NoVcpu(gone)),
        (200, Event::Stopped { vcpu: gone }, SchedError::NoVcpu(gone)),
        (200, Event::Plugged { vcpu: V0 }, SchedError::Plugged(V0)),
        (200, timer(nowhere), SchedError::NoPcpu(nowhere)),
    ] {
        assert_eq!(sched.on(us(now), event), Err(why), "{event:?}");
        assert_eq!(format!("{sched:?}"), before, "{event:?}");
    }
    let weight = NonZeroU32::MIN;
    assert_eq!(sched.set_weight(gone, weight), Err(SchedError::NoVcpu(gone)));
    assert_eq!(sched.set_guest(gone, Guest(1)), Err(SchedError::NoVcpu(gone)));
    assert_eq!(
        sched.on(us(99), kick(V1)).unwrap_err().to_string(),
        "the clock went back from 100000 ns to 99000 ns"
    );
}
