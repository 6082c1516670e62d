//! Do the policies choose well on their own, without a scheduler around them?
//!
//! Each question is one oracle, which is put to every policy it concerns and to a broken one that
//! it must catch.

use crate::support::Rule;
use overlock_vcpu::host::sched::yield_to::{
    Candidate, Chosen, IpiFirst, LoadGate, Missed, NAMES, Notice, Oracle, Policy, PvHint, Rotation,
    RoundRobin, Ruling, SkipSpinners, Skipped, SpinCount, Stay, Trace, View, by_name,
};
use overlock_vcpu::host::sched::{HINT_WAITERS, Spin, SpinHint};
use overlock_vcpu::host::{Nanos, Vcpu};
use proptest::prelude::*;

/// The policies that rotate, and so reach every vCPU eventually without being told anything.
fn rotating() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(|name| !["none", "report", "yield", "oracle"].contains(name))
}

/// Upstream's error of 6.14 to 6.18: remembers the step count of the scan, not the place reached.
#[derive(Debug, Default)]
struct StepNotPlace {
    last_boosted: u32,
}

impl Policy for StepNotPlace {
    fn on_spin(&mut self, _: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        for i in 0..view.vcpus() {
            let idx = (self.last_boosted + 1 + i) % view.vcpus();
            if view.fit(Vcpu(idx), trace) {
                self.last_boosted = i; // should be idx
                return Ruling::To(Vcpu(idx), Chosen::NextInTurn);
            }
        }
        Ruling::Stay(Missed::NoCandidate)
    }
}

fn ask(policy: &mut dyn Policy, spin: &Spin, candidates: &[Candidate]) -> (Ruling, Trace) {
    let mut trace = Trace::new(candidates.len() as u32);
    let verdict = policy.on_spin(spin, &View::new(Nanos(1_000), 1, candidates), &mut trace);
    (verdict, trace)
}

fn ready(spinning: bool) -> Candidate {
    Candidate { unfit: None, spinning, in_user: false }
}

fn unfit(why: Skipped) -> Candidate {
    Candidate { unfit: Some(why), ..Candidate::default() }
}

/// Any guest: the spinner, and the state of each vCPU; the spinner itself is marked as such.
fn guests() -> impl Strategy<Value = (Spin, Vec<Candidate>)> {
    let standing = prop_oneof![
        3 => any::<bool>().prop_map(ready),
        1 => Just(unfit(Skipped::Running)),
        1 => Just(unfit(Skipped::Halted)),
        1 => Just(unfit(Skipped::Stopped)),
        1 => Just(unfit(Skipped::AheadOfShare)),
    ];
    let anyone = || prop_oneof![Just(None), (0..40u32).prop_map(|n| Some(Vcpu(n)))];
    let hint = || {
        (anyone(), proptest::array::uniform4(anyone()))
            .prop_map(|(holder, waiters): (_, [_; HINT_WAITERS])| SpinHint { holder, waiters })
    };
    (proptest::collection::vec(standing, 1..33), any::<prop::sample::Index>(), hint(), hint())
        .prop_map(|(mut candidates, me, hint, truth)| {
            let me = me.index(candidates.len());
            candidates[me] = unfit(Skipped::Itself);
            (Spin { hint, truth, ..Spin::reported(Vcpu(me as u32)) }, candidates)
        })
}

/// Oracle: a policy chooses only a fit vCPU, and records why it passed over each unfit one that it
/// considered.
fn chooses_only_the_fit(
    policy: &mut dyn Policy,
    spin: &Spin,
    candidates: &[Candidate],
) -> Result<(), String> {
    let (verdict, trace) = ask(policy, spin, candidates);
    if let Ruling::To(vcpu, why) = verdict {
        match candidates.get(vcpu.index()) {
            Some(Candidate { unfit: None, .. }) => {}
            other => return Err(format!("{policy:?} chose {vcpu} ({why:?}), {other:?}")),
        }
    }
    for (vcpu, why) in trace.iter() {
        let truly = candidates[vcpu.index()].unfit;
        if truly.is_some_and(|truly| truly != why) {
            return Err(format!("{policy:?} says {vcpu} is {why:?}, it is {truly:?}"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn never_the_spinner_nor_one_that_sleeps_or_runs(
        spins in proptest::collection::vec(guests(), 1..8),
    ) {
        for name in NAMES {
            let mut policy = by_name(name, 32).unwrap();
            for (spin, candidates) in &spins {
                policy.notice(Nanos(1), Notice::Ipi { from: spin.vcpu, to: Vcpu(2) });
                chooses_only_the_fit(&mut *policy, spin, candidates).unwrap();
            }
        }
    }

    #[test]
    fn a_scan_is_bounded(
        (_, candidates) in guests(), limit in 0u32..40, accept in 0usize..40, scans in 1usize..5,
    ) {
        let mut rotation = Rotation::default();
        let view = View::new(Nanos(0), 1, &candidates);
        for _ in 0..scans {
            let mut shown = Vec::new();
            let mut trace = Trace::new(view.vcpus());
            let found = rotation.next(&view, &mut trace, limit, |vcpu| {
                shown.push(vcpu);
                if shown.len() > accept { Ok(Chosen::NextInTurn) } else { Err(Skipped::Spinning) }
            });
            within_bound(&shown, limit).unwrap();
            // Every vCPU that was not chosen has a reason, unless the scan ended before it.
            let silent = (0..view.vcpus()).filter(|&n| trace.skipped(Vcpu(n)).is_none()).count();
            prop_assert_eq!(found.is_none(), silent == 0);
        }
    }

    #[test]
    fn rotation_is_fair(
        vcpus in 2u32..20, holes in proptest::collection::vec(0u32..20, 0..10), rounds in 1usize..4,
    ) {
        for name in rotating() {
            let mut policy = by_name(name, vcpus).unwrap();
            goes_round(&mut *policy, vcpus, &holes, rounds).unwrap();
        }
    }
}

/// Oracle: a scan shows each vCPU at most once, and no more vCPUs than its limit.
fn within_bound(shown: &[Vcpu], limit: u32) -> Result<(), String> {
    let mut distinct = shown.to_vec();
    distinct.sort();
    distinct.dedup();
    if shown.len() > limit as usize || distinct.len() < shown.len() {
        return Err(format!("shown {shown:?} under a limit of {limit}"));
    }
    Ok(())
}

/// Oracle: while the same vCPUs are ready, each is boosted once per round.
fn goes_round(
    policy: &mut dyn Policy,
    vcpus: u32,
    holes: &[u32],
    rounds: usize,
) -> Result<(), String> {
    let candidates: Vec<_> = (0..vcpus)
        .map(|n| match n {
            0 => unfit(Skipped::Itself),
            n if holes.contains(&n) => unfit(Skipped::Halted),
            _ => ready(false),
        })
        .collect();
    let fit = candidates.iter().filter(|candidate| candidate.unfit.is_none()).count();
    let mut times = vec![0; vcpus as usize];
    for _ in 0..fit * rounds {
        match ask(policy, &Spin::reported(Vcpu(0)), &candidates).0 {
            Ruling::To(vcpu, _) => times[vcpu.index()] += 1,
            other => return Err(format!("{policy:?} found no vCPU: {other:?}")),
        }
    }
    let fair = |(n, &times): (usize, &usize)| candidates[n].unfit.is_some() || times == rounds;
    if times.iter().enumerate().all(fair) {
        return Ok(());
    }
    Err(format!("{policy:?} boosted {times:?} in {rounds} rounds"))
}

/// All vCPUs share one pCPU and spin, except the one that holds the lock they want.
struct LoneHolder {
    vcpus: u32,
    holder: u32,
    spinner: u32,
    /// Which of them left spinning earlier, as bits.
    spinning: u32,
}

impl LoneHolder {
    /// Lets them spin and yield until the holder runs. Returns the vCPUs that ran, one for each
    /// spin.
    fn play(&self, policy: &mut dyn Policy, rounds: usize) -> Result<Vec<Vcpu>, String> {
        let bit = |n: u32| self.spinning >> n & 1 == 1;
        let mut candidates: Vec<_> = (0..self.vcpus).map(|n| ready(bit(n))).collect();
        let mut spinner = Vcpu(self.spinner);
        let mut boosted = Vec::new();
        for _ in 0..rounds {
            candidates[spinner.index()] =
                Candidate { unfit: Some(Skipped::Itself), spinning: true, in_user: false };
            let (verdict, _) = ask(policy, &Spin::reported(spinner), &candidates);
            candidates[spinner.index()].unfit = None;
            if let Ruling::To(next, _) = verdict {
                spinner = next;
            }
            boosted.push(spinner);
            if spinner == Vcpu(self.holder) {
                return Ok(boosted);
            }
            policy.notice(Nanos(1), Notice::Runs(spinner));
            candidates[spinner.index()].spinning = false;
        }
        Err(format!("{policy:?} never ran vcpu{}; it ran {boosted:?}", self.holder))
    }
}

/// Brings a policy into a given state: the rotation stands behind `last`, and the vCPUs in
/// `skipped` (bits) have been passed over as spinners.
fn prepare(policy: &mut dyn Policy, vcpus: u32, last: u32, skipped: u32) {
    let mask = |bits: u32, spinning: bool| -> Vec<Candidate> {
        let one = |n| if bits >> n & 1 == 1 { ready(spinning) } else { unfit(Skipped::Running) };
        (0..vcpus).map(one).collect()
    };
    // A spin by a vCPU outside the guest leaves no mark of its own.
    let outsider = Spin::reported(Vcpu(vcpus));
    ask(policy, &outsider, &mask(1 << last, false));
    ask(policy, &outsider, &mask(skipped, true));
}

/// Oracle: from every state, a preempted lone holder runs within `bound` spins, and until then no
/// spinner is boosted twice, so no two of them pass the pCPU back and forth.
fn reaches_the_lone_holder(
    make: &dyn Fn(u32) -> Box<dyn Policy + Send>,
    bound: impl Fn(u32) -> usize,
    holder_spun: bool,
) -> Result<(), String> {
    for vcpus in 2..=5u32 {
        for spinning in 0..1u32 << vcpus {
            for skipped in (0..=spinning).filter(|skipped| skipped & !spinning == 0) {
                for (holder, spinner, last) in triples(vcpus) {
                    if (spinning >> holder & 1 == 1) != holder_spun {
                        continue;
                    }
                    let mut policy = make(vcpus);
                    prepare(&mut *policy, vcpus, last, skipped);
                    let game = LoneHolder { vcpus, holder, spinner, spinning };
                    let boosted = game.play(&mut *policy, bound(vcpus))?;
                    let mut runs = boosted;
                    let spins = runs.len();
                    runs.sort();
                    runs.dedup();
                    if !holder_spun && runs.len() < spins {
                        return Err(format!("{policy:?} boosted one spinner twice"));
                    }
                }
            }
        }
    }
    Ok(())
}

fn triples(vcpus: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    (0..vcpus)
        .flat_map(move |a| (0..vcpus).flat_map(move |b| (0..vcpus).map(move |c| (a, b, c))))
        .filter(|(holder, spinner, _)| holder != spinner)
}

#[test]
fn a_preempted_lone_holder_runs_within_n_spins() {
    for name in rotating() {
        let make = |vcpus| by_name(name, vcpus).unwrap();
        reaches_the_lone_holder(&make, |vcpus| vcpus as usize, false).unwrap();
    }
}

#[test]
fn the_next_waiter_that_left_spinning_runs_within_2n_spins() {
    // It is passed over once, and gets its turn within one more round.
    for name in ["skip-spinners", "load-gate", "linux", "ipi-first", "pv-hint"] {
        let make = |vcpus| by_name(name, vcpus).unwrap();
        reaches_the_lone_holder(&make, |vcpus| 2 * vcpus as usize, true).unwrap();
    }
}

#[test]
fn once_all_others_left_spinning_the_holder_runs_after_one_spin() {
    for vcpus in 2..=16 {
        for (holder, spinner, last) in triples(vcpus) {
            let mut policy = SkipSpinners::new(vcpus);
            prepare(&mut policy, vcpus, last, 0);
            let spinning = !(1 << holder);
            let game = LoneHolder { vcpus, holder, spinner, spinning };
            assert_eq!(game.play(&mut policy, 1).unwrap(), [Vcpu(holder)]);
        }
    }
}

#[test]
fn a_holder_that_spun_for_its_lock_is_passed_over_at_most_cap_times() {
    for vcpus in 2..=9u32 {
        let mut policy = SpinCount::new(vcpus);
        assert_eq!(policy.cap, (1..=4).find(|&log| 1 << log >= vcpus).unwrap());
        let mut candidates = vec![unfit(Skipped::Running); vcpus as usize];
        for _ in 0..10 * policy.cap {
            ask(&mut policy, &Spin::reported(Vcpu(1)), &candidates);
        }
        candidates[1] = ready(false);
        for _ in 0..policy.cap {
            let (verdict, trace) = ask(&mut policy, &Spin::reported(Vcpu(0)), &candidates);
            assert_eq!(verdict, Ruling::Stay(Missed::NoCandidate));
            assert_eq!(trace.skipped(Vcpu(1)), Some(Skipped::Spinning));
        }
        let (verdict, _) = ask(&mut policy, &Spin::reported(Vcpu(0)), &candidates);
        assert_eq!(verdict, Ruling::To(Vcpu(1), Chosen::NotSpinning));
    }
}

#[test]
fn work_halves_the_count_and_ends_it() {
    let mut policy = SpinCount::new(16);
    let mut candidates = vec![unfit(Skipped::Running); 16];
    for _ in 0..4 {
        ask(&mut policy, &Spin::reported(Vcpu(1)), &candidates);
    }
    candidates[1] = ready(false);
    for _ in 0..3 {
        policy.notice(Nanos(1), Notice::Worked(Vcpu(1)));
    }
    let (verdict, _) = ask(&mut policy, &Spin::reported(Vcpu(0)), &candidates);
    assert_eq!(verdict, Ruling::To(Vcpu(1), Chosen::NotSpinning));
}

#[test]
fn a_hint_leads_to_the_first_of_its_line_that_waits_and_else_to_the_inner_policy() {
    let [ahead, running, halted] =
        [Skipped::AheadOfShare, Skipped::Running, Skipped::Halted].map(unfit);
    let (fit, any) = (ready(true), u32::MAX);
    let next = Ruling::To(Vcpu(3), Chosen::NextWaiter);
    let stays = Ruling::Stay(Missed::HolderRunning);
    // vcpu0 spins; the first of the line holds the lock, and the others have it before the spinner.
    for (line, standing, verdict) in [
        (&[1, 2, 3][..], [ahead, running, running], Ruling::Plain(Missed::AheadOfShare)),
        (&[1, 2, 3], [running, ahead, fit], Ruling::Plain(Missed::AheadOfShare)),
        (&[1, 2, 3], [running, running, fit], next),
        (&[1, 2, 3], [halted, running, fit], next),
        (&[1, 3, 2], [running, fit, fit], next),
        (&[1, 2, 3], [running; 3], stays),
        (&[1], [running, fit, fit], stays),
        (&[any, 0], [fit; 3], Ruling::To(Vcpu(1), Chosen::NextInTurn)),
    ] {
        let [one, two, three] = standing;
        let candidates = [unfit(Skipped::Itself), one, two, three];
        let waiters = std::array::from_fn(|at| line.get(at + 1).copied().map(Vcpu));
        let hint = SpinHint { holder: Some(Vcpu(line[0])), waiters };
        let spin = Spin { hint, ..Spin::reported(Vcpu(0)) };
        let (chosen, trace) = ask(&mut PvHint::new(4, RoundRobin::default()), &spin, &candidates);
        assert_eq!(chosen, verdict, "{line:?} {standing:?}");
        if chosen == next {
            assert_eq!(trace.skipped(Vcpu(1)), one.unfit);
        }
    }
}

#[test]
fn the_oracle_boosts_the_first_of_the_line_that_is_off_cpu() {
    let running = unfit(Skipped::Running);
    let (ahead, halted) = (unfit(Skipped::AheadOfShare), unfit(Skipped::Halted));
    let fit = ready(true);
    let to = |vcpu| Ruling::To(Vcpu(vcpu), Chosen::TrueHolder);
    // vcpu0 spins; vcpu1 holds the lock, and vcpu2 and vcpu3 will have it before the spinner. vcpu4
    // is ready too, but has nothing to do with the spinner.
    for (candidates, verdict) in [
        ([fit, fit, fit], to(1)),
        ([running, fit, fit], to(2)),
        ([running, running, fit], to(3)),
        ([halted, running, fit], to(3)),
        ([running, running, running], Ruling::Stay(Missed::HolderRunning)),
        ([halted, running, running], Ruling::Stay(Missed::HolderHalted)),
        ([ahead, fit, fit], Ruling::Plain(Missed::AheadOfShare)),
        ([running, ahead, fit], Ruling::Plain(Missed::AheadOfShare)),
    ] {
        let [holder, next, last] = candidates;
        let candidates = [unfit(Skipped::Itself), holder, next, last, fit];
        let truth = SpinHint {
            waiters: [Some(Vcpu(2)), Some(Vcpu(3)), None, None],
            ..SpinHint::holder(Vcpu(1))
        };
        let spin = Spin { truth, ..Spin::reported(Vcpu(0)) };
        assert_eq!(ask(&mut Oracle, &spin, &candidates).0, verdict, "{candidates:?}");
    }
    let unknown = ask(&mut Oracle, &Spin::reported(Vcpu(0)), &[unfit(Skipped::Itself), fit]).0;
    assert_eq!(unknown, Ruling::Stay(Missed::HolderUnknown));
}

#[test]
fn the_one_that_owes_an_ipi_comes_first() {
    let mut policy = IpiFirst::new(5, Stay);
    let mut candidates = vec![ready(false); 5];
    candidates[0] = unfit(Skipped::Itself);
    policy.notice(Nanos(1), Notice::Ipi { from: Vcpu(4), to: Vcpu(2) });
    policy.notice(Nanos(1), Notice::Ipi { from: Vcpu(0), to: Vcpu(3) });
    let mut next = || {
        let (verdict, _) = ask(&mut policy, &Spin::reported(Vcpu(0)), &candidates);
        if let Ruling::To(vcpu, _) = verdict {
            policy.notice(Nanos(2), Notice::Runs(vcpu));
        }
        verdict
    };
    assert_eq!(next(), Ruling::To(Vcpu(3), Chosen::OwesIpi));
    assert_eq!(next(), Ruling::To(Vcpu(2), Chosen::IpiPending));
    assert_eq!(next(), Ruling::Stay(Missed::PolicyNever));
}

#[test]
fn linux_passes_over_user_mode_unless_an_interrupt_is_pending() {
    let user = Candidate { in_user: true, ..ready(false) };
    let asks = |name: &str, spinner, interrupts: &[(u32, u32)], others: [Candidate; 3]| {
        let mut policy = by_name(name, 4).unwrap();
        for &(from, to) in interrupts {
            policy.notice(Nanos(1), Notice::Ipi { from: Vcpu(from), to: Vcpu(to) });
        }
        let [one, two, three] = others;
        let spinner = Candidate { unfit: Some(Skipped::Itself), ..spinner };
        ask(&mut *policy, &Spin::reported(Vcpu(0)), &[spinner, one, two, three])
    };
    let kernel = ready(false);
    let to = |vcpu, why| Ruling::To(Vcpu(vcpu), why);
    let none = Ruling::Stay(Missed::NoCandidate);
    let turn = Chosen::NotSpinning;
    for (spinner, interrupts, others, linux, ipi) in [
        (kernel, &[][..], [user, kernel, kernel], to(2, turn), to(2, turn)),
        (kernel, &[], [user; 3], none, to(1, Chosen::NextInTurn)),
        (user, &[], [user; 3], to(1, turn), to(1, turn)),
        (kernel, &[(1, 2)], [user; 3], to(2, turn), to(2, Chosen::IpiPending)),
        // The spinner's own IPI comes before another's, and the last of its own before others.
        (kernel, &[(1, 2), (0, 3)], [user; 3], to(2, turn), to(3, Chosen::OwesIpi)),
        (kernel, &[(0, 3), (0, 2)], [user, user, kernel], to(2, turn), to(2, Chosen::OwesIpi)),
        // If the host does not know the sender, it still knows that one is pending.
        (kernel, &[(3, 3)], [user, kernel, user], to(2, turn), to(3, Chosen::IpiPending)),
    ] {
        let (verdict, trace) = asks("linux", spinner, interrupts, others);
        assert_eq!(verdict, linux, "{interrupts:?} {others:?}");
        let passed = trace.iter().any(|(_, why)| why == Skipped::InUser);
        assert_eq!(passed, linux != to(1, turn));
        assert_eq!(asks("linux-ipi", spinner, interrupts, others).0, ipi, "{interrupts:?}");
        // Nothing of this concerns the policy of 2012.
        assert_eq!(asks("skip-spinners", spinner, interrupts, others).0, to(1, turn));
    }
}

#[test]
fn the_gate_declines_on_a_host_with_room_and_cuts_the_scan_on_a_full_one() {
    let mut gate = LoadGate::new(SkipSpinners::new(9));
    let mut candidates = vec![unfit(Skipped::Running); 9];
    candidates[0] = unfit(Skipped::Itself);
    let (verdict, _) = ask(&mut gate, &Spin::reported(Vcpu(0)), &candidates);
    assert_eq!(verdict, Ruling::Stay(Missed::NotOvercommitted));

    // Eight spinners wait for four pCPUs: two are this pCPU's share, four are shown, none will do.
    candidates[1..].fill(ready(true));
    let mut trace = Trace::new(9);
    let view = View::new(Nanos(0), 4, &candidates);
    let verdict = gate.on_spin(&Spin::reported(Vcpu(0)), &view, &mut trace);
    assert_eq!(verdict, Ruling::Plain(Missed::NoCandidate));
    let skips = |why| trace.iter().filter(|&(_, skipped)| skipped == why).count();
    assert_eq!((skips(Skipped::Spinning), skips(Skipped::BeyondScan)), (4, 4));
}

#[test]
fn every_policy_has_its_name() {
    let types = "Stay Stay PlainYield RoundRobin SkipSpinners SpinCount LoadGate Linux IpiFirst \
                 LinuxIpi PvHint Oracle";
    for (name, of) in NAMES.into_iter().zip(types.split(' ')) {
        let policy = format!("{:?}", by_name(name, 4).unwrap());
        assert_eq!(policy.split(' ').next(), Some(of));
    }
    assert!(by_name("no-such-policy", 4).is_none());
}

#[test]
fn the_oracles_catch_the_broken() {
    let candidates = [unfit(Skipped::Itself), unfit(Skipped::Running), ready(false)];
    // It boosts the spinner's neighbour, whatever its state.
    let mut blind = Rule(|spin, view, _| {
        Ruling::To(Vcpu((spin.vcpu.0 + 1) % view.vcpus()), Chosen::NextInTurn)
    });
    let blind = chooses_only_the_fit(&mut blind, &Spin::reported(Vcpu(0)), &candidates);
    assert!(blind.is_err(), "a yield to a running vCPU went unseen");

    assert!(within_bound(&[Vcpu(1), Vcpu(2), Vcpu(1)], 5).is_err(), "a second look went unseen");
    assert!(within_bound(&[Vcpu(1), Vcpu(2)], 1).is_err(), "a long scan went unseen");

    let unfair = goes_round(&mut StepNotPlace::default(), 5, &[], 2);
    assert!(unfair.is_err(), "upstream's index error went unseen");

    let lowest = |_: &Spin, view: &View<'_>, trace: &mut Trace| match (0..view.vcpus())
        .map(Vcpu)
        .find(|&vcpu| view.fit(vcpu, trace))
    {
        Some(vcpu) => Ruling::To(vcpu, Chosen::NextInTurn),
        None => Ruling::Stay(Missed::NoCandidate),
    };
    let forgetful =
        reaches_the_lone_holder(&|_| Box::new(Rule(lowest)), |n| 100 * n as usize, false);
    assert!(forgetful.is_err(), "two spinners tossing the pCPU went unseen");
}
