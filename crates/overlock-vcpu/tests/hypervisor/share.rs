//! Do several guests leave each other alone?

use crate::support::{P0, V0, V1, V2, V3, kick, preempted, timer, us};
use overlock_vcpu::host::Nanos;
use overlock_vcpu::host::sched::yield_to::{Missed, NAMES, Outcome, Skipped, Stay, by_name};
use overlock_vcpu::host::sched::{Action, Config, Event, Guest, Scheduler, Spin, SpinHint};

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
        if let Some(Action::Preempt { vcpu, .. }) = sched.on(now, timer(P0)).unwrap() {
            sched.on(now, preempted(vcpu)).unwrap();
        }
    }
    let ran = |vcpu| sched.usage(Nanos::from_millis(600), vcpu).unwrap().ran.0 as f64 / 1e6;
    let (one, other) = (ran(V0), ran(V1) + ran(V2));
    assert!((395.0..405.0).contains(&one) && (195.0..205.0).contains(&other), "{one} {other}");
}
