//! Any events, with any arguments, at any times; names for some, and policies of one line.

use overlock_vcpu::host::sched::yield_to::{Policy, Ruling, Trace, View};
use overlock_vcpu::host::sched::{Action, Event, Spin, SpinHint, SpinSource};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};
use proptest::prelude::*;

pub(crate) const VCPUS: u32 = 6;
pub(crate) const PCPUS: u32 = 2;

pub(crate) const V0: Vcpu = Vcpu(0);
pub(crate) const V1: Vcpu = Vcpu(1);
pub(crate) const V2: Vcpu = Vcpu(2);
pub(crate) const V3: Vcpu = Vcpu(3);
pub(crate) const P0: Pcpu = Pcpu(0);
pub(crate) const P1: Pcpu = Pcpu(1);

pub(crate) const fn us(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

pub(crate) fn kick(target: Vcpu) -> Event {
    Event::Kicked { target }
}

pub(crate) fn run(vcpu: Vcpu, pcpu: Pcpu, until: Nanos) -> Option<Action> {
    Some(Action::Run { vcpu, pcpu, until })
}

/// A policy that decides by this, and remembers nothing.
#[derive(Debug)]
pub(crate) struct Rule(pub(crate) fn(&Spin, &View<'_>, &mut Trace) -> Ruling);

impl Policy for Rule {
    fn on_spin(&mut self, spin: &Spin, view: &View<'_>, trace: &mut Trace) -> Ruling {
        self.0(spin, view, trace)
    }
}

pub(crate) fn vcpu() -> impl Strategy<Value = Vcpu> {
    prop_oneof![20 => 0..VCPUS, 1 => Just(VCPUS), 1 => Just(u32::MAX)].prop_map(Vcpu)
}

fn spin() -> impl Strategy<Value = Spin> {
    let hint = || {
        let anyone = || proptest::option::of(vcpu());
        (anyone(), proptest::array::uniform4(anyone()))
            .prop_map(|(holder, waiters)| SpinHint { holder, waiters })
    };
    (vcpu(), any::<bool>(), hint(), hint()).prop_map(|(vcpu, sampled, hint, truth)| Spin {
        vcpu,
        source: if sampled { SpinSource::Sampled } else { SpinSource::Reported },
        hint,
        truth,
    })
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => vcpu().prop_map(|vcpu| Event::Halted { vcpu }),
        3 => spin().prop_map(|spin| Event::LongSpin { spin }),
        1 => vcpu().prop_map(|vcpu| Event::Yielded { vcpu }),
        1 => (vcpu(), vcpu()).prop_map(|(vcpu, to)| Event::YieldedTo { vcpu, to }),
        2 => vcpu().prop_map(|vcpu| Event::Preempted { vcpu }),
        4 => vcpu().prop_map(|target| Event::Kicked { target }),
        1 => (vcpu(), vcpu()).prop_map(|(from, to)| Event::Ipi { from, to }),
        3 => (0..PCPUS + 1).prop_map(|n| Event::Timer { pcpu: Pcpu(n) }),
        1 => vcpu().prop_map(|vcpu| Event::Answered { vcpu }),
        1 => vcpu().prop_map(|vcpu| Event::InUser { vcpu }),
        1 => vcpu().prop_map(|vcpu| Event::Stopped { vcpu }),
        2 => vcpu().prop_map(|vcpu| Event::Plugged { vcpu }),
        1 => (vcpu(), any::<bool>())
            .prop_map(|(vcpu, inside)| Event::CriticalSection { vcpu, inside }),
    ]
}

pub(crate) fn now() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        6 => (0..3_000_000u64).prop_map(Nanos),
        1 => any::<u64>().prop_map(Nanos),
    ]
}

pub(crate) const fn halted(vcpu: Vcpu) -> Event {
    Event::Halted { vcpu }
}

pub(crate) const fn timer(pcpu: Pcpu) -> Event {
    Event::Timer { pcpu }
}

pub(crate) const fn preempted(vcpu: Vcpu) -> Event {
    Event::Preempted { vcpu }
}

pub(crate) const fn yielded(vcpu: Vcpu) -> Event {
    Event::Yielded { vcpu }
}

pub(crate) const fn spins(vcpu: Vcpu) -> Event {
    Event::LongSpin { spin: Spin::reported(vcpu) }
}

pub(crate) const fn idle(pcpu: Pcpu) -> Option<Action> {
    Some(Action::Idle { pcpu })
}

pub(crate) const fn preempts(vcpu: Vcpu, pcpu: Pcpu) -> Option<Action> {
    Some(Action::Preempt { vcpu, pcpu })
}
