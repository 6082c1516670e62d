//! Do vCPUs run only where they may, and do several guests leave each other alone?

use crate::support::{P0, P1, V0, V1, V2, V3, kick, run, us};
use overlock_vcpu::host::Nanos;
use overlock_vcpu::host::sched::yield_to::{
    Missed, NAMES, Outcome, RoundRobin, Skipped, Stay, by_name,
};
use overlock_vcpu::host::sched::{
    Action, Config, Error, Event, Guest, Scheduler, Spin, SpinHint, Standing,
};

#[test]
fn one_that_makes_room_for_a_restricted_vcpu_moves_to_an_idle_pcpu() {
    let mut sched = Scheduler::new(Config::new(2, 2), Stay).unwrap();
    assert_eq!(sched.set_affinity(us(0), V0, &[P0]), Ok(None));
    // V1 has had P0 to itself for so long that V0 preempts it; P1 is idle.
    sched.set_affinity(us(0), V1, &[P0]).unwrap();
    assert_eq!(sched.on(us(0), kick(V1)).unwrap(), run(V1, P0, us(1_000)));
    assert_eq!(sched.set_affinity(us(1), V1, &[P0, P1]), Ok(None), "it may stay");
    let preempt = Some(Action::Preempt { vcpu: V1, pcpu: P0 });
    assert_eq!(sched.on(us(5_000), kick(V0)).unwrap(), preempt);
    assert_eq!(sched.rebalance(), None, "V0 may not run on P1");
    assert_eq!(sched.on(us(5_010), Event::Preempted { vcpu: V1 }).unwrap(), run(V0, P0, us(6_010)));
    assert_eq!(sched.standing(V1), Some(Standing::Queued(P0)));
    assert_eq!(sched.rebalance(), run(V1, P1, us(6_010)));
    assert_eq!(sched.rebalance(), None);
}

#[test]
fn one_that_runs_where_it_may_no_longer_comes_out_even_for_nobody() {
    let mut sched = Scheduler::new(Config::new(2, 2), Stay).unwrap();
    assert_eq!(sched.on(us(0), kick(V0)).unwrap(), run(V0, P0, us(1_000)));
    let inside = Event::CriticalSection { vcpu: V0, inside: true };
    sched.on(us(1), inside).unwrap();
    let preempt = Action::Preempt { vcpu: V0, pcpu: P0 };
    assert_eq!(sched.set_affinity(us(2), V0, &[P1]), Ok(Some(preempt)));
    // A critical section earns it no grace there.
    assert_eq!(
        sched.on(us(9), Event::Preempted { vcpu: V0 }).unwrap(),
        Some(Action::Idle { pcpu: P0 })
    );
    assert_eq!(sched.rebalance(), run(V0, P1, us(1_009)));
    // It sleeps, and wakes where it may run, although its first home is idle.
    assert_eq!(
        sched.on(us(20), Event::Halted { vcpu: V0 }).unwrap(),
        Some(Action::Idle { pcpu: P1 })
    );
    assert_eq!(sched.on(us(30), kick(V0)).unwrap(), run(V0, P1, us(1_030)));
}

#[test]
fn a_yield_does_not_send_a_vcpu_where_it_may_not_run() {
    let mut sched = Scheduler::new(Config::new(3, 2), RoundRobin::default()).unwrap();
    sched.set_affinity(us(0), V2, &[P0]).unwrap();
    for vcpu in [V0, V1, V2] {
        sched.on(us(0), kick(vcpu)).unwrap();
    }
    let stays = sched.on(us(10), Event::LongSpin { spin: Spin::reported(V1) }).unwrap();
    assert_eq!(stays, run(V1, P1, us(1_000)));
    let trace = &sched.decision().unwrap().trace;
    assert_eq!(trace.skipped(V2), Some(Skipped::NotAllowedHere));
    assert_eq!(
        sched.on(us(20), Event::YieldedTo { vcpu: V1, to: V2 }).unwrap(),
        run(V1, P1, us(1_000))
    );
    assert_eq!(
        sched.on(us(30), Event::LongSpin { spin: Spin::reported(V0) }).unwrap(),
        run(V2, P0, us(1_030))
    );
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let mut sched = Scheduler::new(Config::new(1, 1), Stay).unwrap();
    assert_eq!(sched.set_affinity(us(0), V1, &[P0]), Err(Error::NoVcpu(V1)));
    assert_eq!(sched.set_affinity(us(0), V0, &[P0, P1]), Err(Error::NoPcpu(P1)));
    assert_eq!(sched.set_affinity(us(0), V0, &[]), Err(Error::Nowhere(V0)));
    assert_eq!(sched.on(us(0), kick(V0)).unwrap(), run(V0, P0, us(1_000)));
    let text = Error::Nowhere(V0).to_string();
    assert_eq!(text, "vcpu0 may run on no pCPU; name at least one");
}

/// Two guests of two vCPUs each on one pCPU, all of which have been kicked. V0 runs.
fn two_guests(
    policy: &str,
) -> Scheduler<Box<dyn overlock_vcpu::host::sched::yield_to::Policy + Send>> {
    let mut sched = Scheduler::new(Config::new(4, 1), by_name(policy, 4).unwrap()).unwrap();
    for vcpu in [V2, V3] {
        sched.set_guest(vcpu, Guest(1)).unwrap();
    }
    for vcpu in [V0, V2, V3, V1] {
        sched.on(us(0), kick(vcpu)).unwrap();
    }
    sched
}

#[test]
fn no_policy_boosts_a_vcpu_of_another_guest() {
    for policy in NAMES {
        let mut sched = two_guests(policy);
        // A guest can lie about the vCPUs it waits for.
        let lie = SpinHint { holder: Some(V2), waiters: [Some(V3), None, None, None] };
        let spin = Spin { hint: lie, truth: lie, ..Spin::reported(V0) };
        sched.on(us(10), Event::LongSpin { spin }).unwrap();
        let decision = sched.decision().unwrap();
        if let Outcome::Directed { to, .. } = decision.outcome {
            assert_eq!(to, V1, "{policy}");
        }
    }
    // Naming the vCPU does not help either: the one that lags most gets the pCPU, as in any other
    // yield.
    let mut sched = two_guests("none");
    sched.on(us(10), Event::YieldedTo { vcpu: V0, to: V3 }).unwrap();
    let decision = sched.decision().unwrap();
    assert_eq!(decision.trace.skipped(V3), Some(Skipped::OtherGuest));
    assert_eq!(decision.outcome, Outcome::Plain { to: V2, why: Missed::TargetUnfit });
}

#[test]
fn two_guests_share_by_their_weights() {
    // Guest 0 has one vCPU of twice the weight, guest 1 two vCPUs of half; each slice is used up.
    let mut sched = Scheduler::new(Config::new(3, 1), Stay).unwrap();
    for (vcpu, weight) in [(V0, 2048), (V1, 512), (V2, 512)] {
        sched.set_weight(vcpu, weight.try_into().unwrap()).unwrap();
        sched.set_guest(vcpu, Guest(u32::from(vcpu != V0))).unwrap();
        sched.on(us(0), kick(vcpu)).unwrap();
    }
    for ms in 1..=600 {
        let now = Nanos::from_millis(ms);
        if let Some(Action::Preempt { vcpu, .. }) =
            sched.on(now, Event::Timer { pcpu: P0 }).unwrap()
        {
            sched.on(now, Event::Preempted { vcpu }).unwrap();
        }
    }
    let ran = |vcpu| sched.usage(Nanos::from_millis(600), vcpu).unwrap().ran.0 as f64 / 1e6;
    let (one, other) = (ran(V0), ran(V1) + ran(V2));
    assert!((395.0..405.0).contains(&one) && (195.0..205.0).contains(&other), "{one} {other}");
}
