//! A custom directed-yield policy, in a scheduler that drives a toy host.
//!
//! Run it with `cargo run --example own_policy`. It exits with 0 if the holder got the pCPU.

use overlock_vcpu::host::sched::yield_to::{Chosen, Missed, Outcome, Policy, Trace, Verdict, View};
use overlock_vcpu::host::sched::{Action, Config, Event, Scheduler, Spin};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};

/// Boosts the ready vCPU with the highest number that did not itself leave spinning.
#[derive(Debug)]
struct HighestFirst;

impl Policy for HighestFirst {
    fn name(&self) -> &'static str {
        "highest-first"
    }

    fn on_spin(&mut self, _: &Spin, view: &View<'_>, trace: &mut Trace) -> Verdict {
        let mut ready = (0..view.vcpus()).rev().map(Vcpu).filter(|&vcpu| view.fit(vcpu, trace));
        match ready.find(|&vcpu| !view.spinning(vcpu)) {
            Some(vcpu) => Verdict::To(vcpu, Chosen::NotSpinning),
            None => Verdict::Plain(Missed::NoCandidate),
        }
    }
}

fn main() {
    // Three vCPUs on one pCPU. All are kicked awake; the first one runs.
    let mut sched = Scheduler::new(Config::new(3, 1), HighestFirst).expect("a possible host");
    for vcpu in (0..3).map(Vcpu) {
        sched.on(Nanos::ZERO, Event::Kicked { target: vcpu, by: None }).unwrap();
    }

    // It spins for a lock that vcpu2 holds; after 30 µs the guest says so.
    let action = sched
        .on(Nanos::from_micros(30), Event::LongSpin { spin: Spin::reported(Vcpu(0)) })
        .unwrap();
    let until = Nanos::from_micros(1_030);
    assert_eq!(action, Some(Action::Run { vcpu: Vcpu(2), pcpu: Pcpu(0), until }));

    // The decision can be explained.
    let decision = sched.decision().expect("a spin calls for a decision");
    assert!(matches!(decision.outcome, Outcome::Directed { to: Vcpu(2), .. }));
    assert_eq!(sched.tally().directed(Chosen::NotSpinning), 1);
}
