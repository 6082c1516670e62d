//! Can a guest, or a careless embedder, crash the scheduler or make it inconsistent?
//!
//! With any events, any arguments, at any times, in any order, with any weights and restrictions:
//! nothing panics, every vCPU is in exactly one place, and none runs or waits where it may not, or
//! waits while a pCPU idles where it may run.

use crate::support::{PCPUS, VCPUS, event, now, vcpu};
use overlock_vcpu::host::sched::yield_to::{NAMES, Policy, by_name};
use overlock_vcpu::host::sched::{Action, Config, Event, Scheduler, Standing};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};
use proptest::prelude::*;

/// Where each vCPU may run, as bits; all pCPUs at first.
type Allowed = [u32; VCPUS as usize];

/// Oracle: the scheduler's own view of where each vCPU is makes sense. `leaves` are the pCPUs whose
/// owner has been asked to come out.
fn in_order(
    standings: &[Standing],
    owners: &[Option<Vcpu>],
    queued: &[usize],
    (allowed, leaves): (&[u32], u32),
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
    let idle = owners.iter().zip(0..).filter(|(owner, _)| owner.is_none());
    let idle = idle.fold(0, |bits, (_, pcpu)| bits | 1 << pcpu);
    for (standing, &allowed) in standings.iter().zip(allowed) {
        let is_wrong = match *standing {
            Standing::Running(pcpu) => (allowed | leaves) >> pcpu.0 & 1 == 0,
            Standing::Queued(pcpu) => allowed >> pcpu.0 & 1 == 0 || allowed & idle != 0,
            Standing::Halted | Standing::Stopped => false,
        };
        if is_wrong {
            return Err(format!("{standing:?}, allowed {allowed:b}, idle {idle:b}"));
        }
    }
    Ok(())
}

/// Changes a weight or, by other numbers, where a vCPU may run.
fn change<P: Policy>(sched: &mut Scheduler<P>, now: Nanos, n: u32, allowed: &mut Allowed) {
    let (vcpu, what) = (n % VCPUS, n / VCPUS);
    if what >= 1 << PCPUS {
        let weight = [1, 3, 1024, 5000][what as usize % 4];
        sched.set_weight(Vcpu(vcpu), weight.try_into().unwrap()).unwrap();
        return;
    }
    let pcpus: Vec<_> = (0..PCPUS).filter(|pcpu| what >> pcpu & 1 == 1).map(Pcpu).collect();
    if sched.set_affinity(now, Vcpu(vcpu), &pcpus).is_ok() {
        allowed[vcpu as usize] = what;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn nothing_breaks(
        policy in 0..NAMES.len(),
        stops in proptest::collection::vec((0usize..200, vcpu()), 0..2),
        mut events in proptest::collection::vec((now(), event()), 1..200),
        changes in proptest::collection::vec(proptest::option::weighted(0.1, 0..99u32), 200),
        absolute: bool,
    ) {
        for (at, vcpu) in stops {
            events.insert(at.min(events.len()), (Nanos(1), Event::Stopped { vcpu }));
        }
        let policy = by_name(NAMES[policy], VCPUS).unwrap();
        let mut sched = Scheduler::new(Config::new(VCPUS, PCPUS), policy).unwrap();
        let mut clock = Nanos::ZERO;
        let mut allowed = [(1 << PCPUS) - 1; VCPUS as usize];
        for ((time, event), changed) in events.into_iter().zip(changes) {
            clock = if absolute { time } else { clock + time };
            if let Some(n) = changed {
                change(&mut sched, clock, n, &mut allowed);
            }
            if let Ok(Some(Action::Run { vcpu, pcpu, .. })) = sched.on(clock, event) {
                prop_assert_eq!(sched.owner(pcpu), Some(vcpu));
            }
            // Only restrictions make this necessary.
            let is_restricted = allowed != [(1 << PCPUS) - 1; VCPUS as usize];
            while is_restricted && sched.rebalance().is_some() {}
            let standings: Vec<_> =
                (0..VCPUS).map(|n| sched.standing(Vcpu(n)).unwrap()).collect();
            let owners: Vec<_> = (0..PCPUS).map(|n| sched.owner(Pcpu(n))).collect();
            let queued: Vec<_> = (0..PCPUS).map(|n| sched.waiting(Pcpu(n))).collect();
            let leaves = (0..PCPUS).filter(|&n| sched.is_preempting(Pcpu(n)));
            let leaves = leaves.fold(0, |bits, n| bits | 1 << n);
            in_order(&standings, &owners, &queued, (&allowed, leaves)).unwrap();
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
        let seen = in_order(&standings, &[owner], &[waiting], (&[1, 1], 0));
        assert!(seen.is_err(), "{why} went unseen");
    }
    let away = in_order(&[on], &[Some(Vcpu(0))], &[0], (&[2], 0));
    assert!(away.is_err(), "one that runs where it may not went unseen");
    assert_eq!(in_order(&[on], &[Some(Vcpu(0))], &[0], (&[2], 1)), Ok(()), "it leaves");
}
