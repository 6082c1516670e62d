//! Can a guest, or a careless embedder, crash the scheduler or make it inconsistent?
//!
//! With any events, any arguments, at any times, in any order, with any weights: nothing panics,
//! every vCPU is in exactly one place, and none waits while a pCPU idles.

use core::num::NonZeroU32;

use crate::support::{PCPUS, VCPUS, event, now, vcpu};
use overlock_vcpu::host::sched::yield_to::{NAMES, by_name};
use overlock_vcpu::host::sched::{Action, Config, Event, Scheduler, Standing};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};
use proptest::prelude::*;

/// Oracle: the scheduler's own view of where each vCPU is makes sense.
fn in_order(
    standings: &[Standing],
    owners: &[Option<Vcpu>],
    queued: &[usize],
) -> Result<(), String> {
    for (pcpu, &owner) in (0..).map(Pcpu).zip(owners) {
        let here = |want: Standing| standings.iter().filter(|&&is| is == want).count();
        if here(Standing::Running(pcpu)) != usize::from(owner.is_some()) {
            return Err(format!("{pcpu} has owner {owner:?}, but {standings:?}"));
        }
        if owner.is_some_and(|owner| standings[owner.index()] != Standing::Running(pcpu)) {
            return Err(format!("{owner:?} owns {pcpu}, but {standings:?}"));
        }
        if here(Standing::Queued(pcpu)) != queued[pcpu.index()] {
            return Err(format!("{} wait for {pcpu}, but {standings:?}", queued[pcpu.index()]));
        }
    }
    let waits = |standing: &Standing| matches!(standing, Standing::Queued(_));
    if owners.contains(&None) && standings.iter().any(waits) {
        return Err(format!("owners {owners:?}, but {standings:?}"));
    }
    Ok(())
}

fn weight() -> impl Strategy<Value = NonZeroU32> {
    proptest::sample::select(vec![1, 3, 1024, 5000]).prop_map(|weight| weight.try_into().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn nothing_breaks(
        policy in 0..NAMES.len(),
        stops in proptest::collection::vec((0usize..200, vcpu()), 0..2),
        mut events in proptest::collection::vec((now(), event()), 1..200),
        changes in proptest::collection::vec(proptest::option::weighted(0.1, (0..VCPUS, weight())), 200),
        absolute: bool,
    ) {
        for (at, vcpu) in stops {
            events.insert(at.min(events.len()), (Nanos(1), Event::Stopped { vcpu }));
        }
        let policy = by_name(NAMES[policy], VCPUS).unwrap();
        let mut sched = Scheduler::new(Config::new(VCPUS, PCPUS), policy).unwrap();
        let mut clock = Nanos::ZERO;
        for ((time, event), changed) in events.into_iter().zip(changes) {
            clock = if absolute { time } else { clock + time };
            if let Some((vcpu, weight)) = changed {
                sched.set_weight(Vcpu(vcpu), weight).unwrap();
            }
            if let Ok(Some(Action::Run { vcpu, pcpu, .. })) = sched.on(clock, event) {
                prop_assert_eq!(sched.owner(pcpu), Some(vcpu));
            }
            let standings: Vec<_> =
                (0..VCPUS).map(|n| sched.standing(Vcpu(n)).unwrap()).collect();
            let owners: Vec<_> = (0..PCPUS).map(|n| sched.owner(Pcpu(n))).collect();
            let queued: Vec<_> = (0..PCPUS).map(|n| sched.waiting(Pcpu(n))).collect();
            in_order(&standings, &owners, &queued).unwrap();
        }
    }
}

#[test]
fn the_oracle_catches_disorder() {
    let on = Standing::Running(Pcpu(0));
    let queued = Standing::Queued(Pcpu(0));
    for (why, standings, owner, waiting) in [
        ("two owners", [on, on], Some(Vcpu(0)), 0),
        ("an owner that is elsewhere", [on, Standing::Halted], Some(Vcpu(1)), 0),
        ("a lost vCPU", [on, queued], Some(Vcpu(0)), 0),
        ("an idle pCPU", [Standing::Halted, queued], None, 1),
    ] {
        let seen = in_order(&standings, &[owner], &[waiting]);
        assert!(seen.is_err(), "{why} went unseen");
    }
}
