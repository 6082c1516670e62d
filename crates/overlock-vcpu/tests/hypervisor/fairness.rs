//! Does every vCPU get its share of CPU time, and get it soon, under every policy?
//!
//! The policies include hostile ones: a policy only wishes, and the scheduler keeps its bounds
//! whatever the wish. A scheduler whose bound on directed yields is set out of reach shows that the
//! oracles notice.

mod machine;

use core::num::NonZeroU32;

use crate::support::Rule;
use machine::{Deed, Machine, Script};
use overlock_vcpu::host::sched::yield_to::{
    Chosen, Decision, NAMES, Outcome, Policy, Ruling, by_name,
};
use overlock_vcpu::host::sched::{Config, Spin, SpinHint};
use overlock_vcpu::host::{Nanos, Vcpu};
use proptest::prelude::*;

const LATENCY: Nanos = Nanos::from_micros(14);

/// Always boosts vcpu0 or, if that fails, vcpu1.
const FAVOURITES: Rule = Rule(|spin, _, _| {
    let favourite = if spin.vcpu == Vcpu(0) { Vcpu(1) } else { Vcpu(0) };
    Ruling::To(favourite, Chosen::NextInTurn)
});

fn policies(vcpus: u32) -> Vec<Box<dyn Policy + Send>> {
    let named = NAMES.iter().filter_map(|name| by_name(name, vcpus));
    named.chain([Box::new(FAVOURITES) as _]).collect()
}

/// A spin for a lock that `holder` has, as the guest says too.
fn spin(me: Vcpu, holder: Vcpu) -> Deed {
    let hint = SpinHint::holder(holder);
    Deed::Spin(Spin { hint, truth: hint, ..Spin::reported(me) })
}

/// A vCPU that spins for `holder` and nothing else, reporting it every so many microseconds.
fn spins(micros: u64, holder: u32) -> Script {
    Box::new(move |_, me| (Nanos::from_micros(micros), spin(me, Vcpu(holder))))
}

/// A vCPU that works for so many milliseconds, time and again, and does this after each.
fn works(millis: u64, deed: Deed) -> Script {
    Box::new(move |_, _| (Nanos::from_millis(millis), deed))
}

/// A vCPU that can always run: it works and spins, kicks, interrupts, yields.
fn busy(vcpus: u64) -> Script {
    Box::new(move |rng, me| {
        let anyone = Vcpu(rng.below(vcpus) as u32);
        let deed = match rng.below(10) {
            0..=5 => spin(me, anyone),
            6 => Deed::Yield,
            7 => Deed::Kick(anyone),
            8 => Deed::Ipi(anyone),
            _ => Deed::Critical(rng.below(2) == 0),
        };
        (Nanos::from_micros(20 + rng.below(400)), deed)
    })
}

/// A vCPU that also sleeps.
fn moody(vcpus: u64) -> Script {
    let mut work = busy(vcpus);
    Box::new(move |rng, me| {
        let (after, deed) = work(rng, me);
        let nap = Nanos::from_micros(1 + rng.below(3_000));
        (after, if rng.below(4) == 0 { Deed::Halt(nap) } else { deed })
    })
}

/// The longest that a vCPU keeps a pCPU while others wait.
fn turn(config: &Config) -> Nanos {
    config.slice + config.grace + LATENCY
}

/// Oracle: the CPU times, divided by weight, of vCPUs that can always run stay close together.
fn shares_are_even<P: Policy>(
    machine: &Machine<P>,
    weights: &[u32],
    config: &Config,
) -> Result<(), String> {
    let standard = |(n, &weight): (usize, &u32)| machine.ran(n).0 * 1024 / u64::from(weight);
    let shares: Vec<_> = weights.iter().enumerate().map(standard).collect();
    let spread = shares.iter().max().unwrap() - shares.iter().min().unwrap();
    let bound = (config.yield_lead + turn(config) + turn(config)).0;
    let policy = machine.sched.policy();
    if spread <= bound {
        return Ok(());
    }
    Err(format!("{policy:?}: shares {shares:?} ns are {spread} ns apart, more than {bound}"))
}

/// Oracle: no vCPU has waited longer than the others take to get ahead by their caps.
fn nobody_starves<P: Policy>(machine: &Machine<P>, config: &Config) -> Result<(), String> {
    let others = u64::from(config.vcpus - 1);
    // The cap as documented: the furthest ahead that any vCPU can queue, and so the furthest
    // behind.
    let cap = 2 * (config.yield_lead + turn(config)).0;
    let bound = others * 2 * cap / u64::from(config.pcpus) + cap;
    for n in 0..config.vcpus as usize {
        let wait = machine.longest_wait(n).0;
        if wait > bound {
            let policy = machine.sched.policy();
            return Err(format!("{policy:?}: vcpu{n} waited {wait} ns, more than {bound}"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]

    #[test]
    fn shares_of_cpu_time_are_even(
        seed: u64, pcpus in 1u32..4, more in 1u32..8, slice in 200u64..2_000,
    ) {
        let vcpus = pcpus + more;
        let config = Config { slice: Nanos::from_micros(slice), ..Config::new(vcpus, pcpus) };
        for policy in policies(vcpus) {
            let scripts = (0..vcpus).map(|_| busy(vcpus.into())).collect();
            let mut machine = Machine::new(config, policy, LATENCY, seed, scripts);
            for part in 1..=4 {
                machine.run(Nanos::from_millis(500 * part));
                shares_are_even(&machine, &vec![1024; vcpus as usize], &config).unwrap();
                nobody_starves(&machine, &config).unwrap();
            }
        }
    }

    #[test]
    fn shares_follow_the_weights(seed: u64, pcpus in 1u32..3, weights in heavy_and_light()) {
        let vcpus = weights.len() as u32;
        for policy in policies(vcpus) {
            let scripts = (0..vcpus).map(|_| busy(vcpus.into())).collect();
            let config = Config::new(vcpus, pcpus);
            let mut machine = Machine::new(config, policy, LATENCY, seed, scripts);
            for (vcpu, &weight) in (0..).map(Vcpu).zip(&weights) {
                machine.sched.set_weight(vcpu, NonZeroU32::new(weight).unwrap()).unwrap();
            }
            machine.run(Nanos::from_millis(2_000));
            shares_are_even(&machine, &weights, &config).unwrap();
        }
    }

    #[test]
    fn no_vcpu_starves(seed: u64, pcpus in 1u32..4, vcpus in 1u32..12) {
        for policy in policies(vcpus) {
            let scripts = (0..vcpus).map(|_| moody(vcpus.into())).collect();
            let config = Config::new(vcpus, pcpus);
            let mut machine = Machine::new(config, policy, LATENCY, seed, scripts);
            machine.run(Nanos::from_millis(400));
            nobody_starves(&machine, &config).unwrap();
        }
    }
}

/// Weights that up to two pCPUs can honour, with room for the time that a vCPU spends queueing.
fn heavy_and_light() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(prop_oneof![Just(1024u32), Just(2048)], 8..12)
}

#[test]
fn the_oracles_catch_a_scheduler_that_lets_its_favourites_run() {
    // The runs are judged by the bounds of the scheduler as it should be.
    let honest = Config::new(6, 1);
    let unbounded = Config { yield_lead: Nanos::MAX, ..honest };
    let scripts = (0..6).map(|_| spins(100, 0)).collect();
    let mut machine = Machine::new(unbounded, FAVOURITES, LATENCY, 1, scripts);
    machine.run(Nanos::from_secs(1));
    assert!(shares_are_even(&machine, &[1024; 6], &honest).is_err(), "uneven shares went unseen");
    assert!(nobody_starves(&machine, &honest).is_err(), "starvation went unseen");
}

#[test]
fn load_balances_where_nobody_yields() {
    for (vcpus, pcpus) in [(5, 2), (3, 2), (7, 3)] {
        let scripts = (0..vcpus).map(|_| works(9_000, Deed::Stop)).collect();
        let config = Config::new(vcpus, pcpus);
        let policy = by_name("none", vcpus).unwrap();
        let mut machine = Machine::new(config, policy, LATENCY, 1, scripts);
        machine.run(Nanos::from_millis(500));
        shares_are_even(&machine, &vec![1024; vcpus as usize], &config).unwrap();
    }
}

#[test]
fn one_that_spins_all_the_time_is_not_starved_by_its_own_yields() {
    for policy in policies(2) {
        let scripts = vec![spins(100, 1), works(9_000, Deed::Stop)];
        let config = Config::new(2, 1);
        let mut machine = Machine::new(config, policy, LATENCY, 1, scripts);
        machine.run(Nanos::from_millis(500));
        shares_are_even(&machine, &[1024; 2], &config).unwrap();
    }
}

#[test]
fn two_spinners_and_a_preempted_holder_on_one_pcpu() {
    // Under every policy that looks for the holder, the holder runs long before a slice is over.
    for name in NAMES.into_iter().filter(|name| !["none", "report"].contains(name)) {
        let scripts = vec![spins(20, 2), spins(20, 2), works(10, Deed::Yield)];
        let policy = by_name(name, 3).unwrap();
        let mut machine = Machine::new(Config::new(3, 1), policy, LATENCY, 1, scripts);
        machine.run_while(Nanos::from_millis(50), |machine| !machine.running(2));
        assert!(machine.running(2), "{name}: the holder never ran");
        assert!(machine.decisions.len() <= 3, "{name}: {:?}", machine.decisions);
        let last = machine.decisions.last().unwrap();
        assert_eq!(last.hit(), Some(true));
        assert!(!matches!(last.outcome, Outcome::Stayed { .. }));
    }
}

/// Policies that never name a vCPU here. The gate yields, but without a direction: the only waiting
/// vCPU has just left spinning.
const DIRECTS_NOBODY: [&str; 4] = ["none", "report", "yield", "load-gate"];

#[test]
fn a_weight_that_no_pcpu_can_honour_neither_starves_nor_bars_the_others() {
    for name in NAMES {
        // vcpu0 should have 94 % of two pCPUs, but can use only one; the others share the other
        // one.
        let scripts = vec![works(1_000, Deed::Critical(false)), spins(100, 2), spins(100, 1)];
        let config = Config::new(3, 2);
        let mut machine = Machine::new(config, by_name(name, 3).unwrap(), LATENCY, 1, scripts);
        machine.sched.set_weight(Vcpu(0), NonZeroU32::new(30 * 1024).unwrap()).unwrap();
        machine.run(Nanos::from_millis(500));
        let early = machine.decisions.len();
        machine.run(Nanos::from_millis(1_000));
        nobody_starves(&machine, &config).unwrap();
        assert!(machine.ran(0) >= Nanos::from_millis(950), "{name}: {}", machine.ran(0));
        let directed = |d: &Decision| matches!(d.outcome, Outcome::Directed { .. });
        let late = machine.decisions[early..].iter().filter(|d| directed(d)).count();
        assert_eq!(
            late > 100,
            !DIRECTS_NOBODY.contains(&name),
            "{name}: {late} directed yields in the second half"
        );
    }
}
