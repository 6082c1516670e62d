// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any events, with any arguments, at any times.

use overlock_vcpu::host::sched::{Event, Spin, SpinHint, SpinSource};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};
use proptest::prelude::*;

pub(crate) const VCPUS: u32 = 6;
pub(crate) const PCPUS: u32 = 2;

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
        4 => (vcpu(), proptest::option::of(vcpu()))
            .prop_map(|(target, by)| Event::Kicked { target, by }),
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
