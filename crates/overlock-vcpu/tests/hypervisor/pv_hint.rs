//! Does `pv-hint` find the vCPU that is waited for where the guest can't know it: behind a holder
//! that waits for answers to its interrupts?

use overlock_vcpu::host::sched::yield_to::{
    Candidate, Chosen, Missed, Notice, Oracle, Policy, PvHint, RoundRobin, Ruling, Skipped, Trace,
    View,
};
use overlock_vcpu::host::sched::{Spin, SpinHint};
use overlock_vcpu::host::{Nanos, Vcpu};
use proptest::prelude::*;

const READY: Candidate = Candidate { unfit: None, spinning: true, in_user: false };
const RUNNING: Candidate = Candidate { unfit: Some(Skipped::Running), ..READY };
const ITSELF: Candidate = Candidate { unfit: Some(Skipped::Itself), ..READY };

fn ask(policy: &mut dyn Policy, spin: &Spin, candidates: &[Candidate]) -> Ruling {
    let mut trace = Trace::new(candidates.len() as u32);
    policy.on_spin(spin, &View::new(Nanos(1_000), 2, candidates), &mut trace)
}

fn pv_hint(interrupts: &[(u32, u32)]) -> PvHint<RoundRobin> {
    let mut policy = PvHint::new(8, RoundRobin::default());
    for &(from, to) in interrupts {
        policy.notice(Nanos(0), Notice::Ipi { from: Vcpu(from), to: Vcpu(to) });
    }
    policy
}

#[test]
fn a_debtor_of_the_running_holder_comes_before_the_waiters() {
    let waiters = [Some(Vcpu(2)), None, None, None];
    let hint = SpinHint { holder: Some(Vcpu(1)), waiters };
    let spin = Spin { hint, ..Spin::reported(Vcpu(0)) };
    let candidates = [ITSELF, RUNNING, READY, READY];
    let next = Ruling::To(Vcpu(2), Chosen::NextWaiter);
    assert_eq!(ask(&mut pv_hint(&[]), &spin, &candidates), next);
    let mut policy = pv_hint(&[(1, 3)]);
    let debtor = Ruling::To(Vcpu(3), Chosen::OwesHolder);
    assert_eq!(ask(&mut policy, &spin, &candidates), debtor);
    policy.notice(Nanos(1), Notice::Answered(Vcpu(3)));
    assert_eq!(ask(&mut policy, &spin, &candidates), next);
    // A vCPU that owes an answer to some other vCPU is irrelevant.
    assert_eq!(ask(&mut pv_hint(&[(2, 3)]), &spin, &candidates), next);
}

#[test]
fn a_holder_that_waits_for_answers_keeps_its_pcpu_while_its_debtors_run() {
    // It waits for no lock, so the guest says nothing about the spin.
    let spin = Spin::reported(Vcpu(0));
    let mut policy = pv_hint(&[(0, 1), (0, 2)]);
    let stays = Ruling::Stay(Missed::HolderRunning);
    assert_eq!(ask(&mut policy, &spin, &[ITSELF, RUNNING, RUNNING, READY]), stays);
    let debtor = Ruling::To(Vcpu(2), Chosen::OwesIpi);
    assert_eq!(ask(&mut policy, &spin, &[ITSELF, RUNNING, READY, READY]), debtor);
    // Without a debt there is nothing to decide by.
    let in_turn = Ruling::To(Vcpu(3), Chosen::NextInTurn);
    assert_eq!(ask(&mut pv_hint(&[]), &spin, &[ITSELF, RUNNING, RUNNING, READY]), in_turn);
}

/// The vCPU to which a verdict gives the pCPU.
fn target(verdict: Ruling) -> Option<Vcpu> {
    match verdict {
        Ruling::To(vcpu, _) => Some(vcpu),
        Ruling::Plain(_) | Ruling::Stay(_) => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Given the holder and the waiters, and having seen the interrupts, it picks the same vCPU as
    /// the oracle, which knows everything.
    #[test]
    fn it_picks_as_the_oracle_does(
        running in proptest::collection::vec(any::<bool>(), 7),
        holds in 1u32..8,
        waits in proptest::collection::vec(1u32..8, 0..4),
        debtors in proptest::collection::btree_set(1u32..8, 0..3),
    ) {
        let stand = |&running: &bool| if running { RUNNING } else { READY };
        let candidates: Vec<_> = [ITSELF].into_iter().chain(running.iter().map(stand)).collect();
        let debtors: Vec<u32> = debtors.into_iter().filter(|&n| n != holds).collect();
        let line = |line: &[u32]| std::array::from_fn(|at| line.get(at).copied().map(Vcpu));
        let hint = SpinHint { holder: Some(Vcpu(holds)), waiters: line(&waits) };
        let all: Vec<u32> = debtors.iter().copied().chain([holds]).chain(waits).collect();
        let truth = SpinHint { holder: Some(Vcpu(all[0])), waiters: line(&all[1..]) };
        let spin = Spin { hint, truth, ..Spin::reported(Vcpu(0)) };
        let interrupts: Vec<_> = debtors.iter().map(|&to| (holds, to)).collect();
        let told = target(ask(&mut pv_hint(&interrupts), &spin, &candidates));
        // The truth can name at most five.
        if all.len() <= 5 {
            prop_assert_eq!(told, target(ask(&mut Oracle, &spin, &candidates)));
        }
    }
}
