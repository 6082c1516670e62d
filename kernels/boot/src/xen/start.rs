//! What each vCPU asks of Xen when it starts: its clock, its times and its channels.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use super::abi::{self, Runstate};
use super::calls::{self, ensure};
use super::events;
use crate::cpus::{self, MAX};
use crate::machine::clock;

static RUNSTATES: [Runstate; MAX] = [const {
    Runstate {
        state: AtomicI32::new(0),
        since: AtomicU64::new(0),
        time: [const { AtomicU64::new(0) }; 4],
    }
}; MAX];

/// How long vCPU `cpu` was in which state.
pub fn runstate(cpu: usize) -> &'static Runstate {
    &RUNSTATES[cpu]
}

/// Sets the clock to Xen's own, which deadlines are given in.
pub(super) fn set_clock() {
    let time = &events::shared().vcpus[0].time;
    let (mul, shift) =
        (u64::from(time.tsc_to_system_mul.load(Relaxed)), time.tsc_shift.load(Relaxed));
    let scale = if shift < 0 { mul >> -shift } else { mul << shift };
    // Xen writes these two together, and not while this vCPU runs.
    let (ns, at) = (time.system_time.load(Relaxed), time.tsc_timestamp.load(Relaxed));
    let since = ((u128::from(ns) << 32) / u128::from(scale)) as u64;
    clock::set(scale, at.wrapping_sub(since));
}

/// Lets Xen report where this vCPU's time goes, and binds its channels.
pub(super) fn prepare() {
    let me = cpus::this().number();
    let area = (&raw const RUNSTATES[me]).addr() as u64;
    let op = |op, argument| {
        // SAFETY: Xen writes this vCPU's times into an area of their layout from here on.
        unsafe { calls::call(abi::VCPU_OP, [op, me as u64, argument, 0]) }
    };
    ensure(op(abi::VCPU_REGISTER_RUNSTATE, (&raw const area).addr() as u64), "report run states");
    ensure(op(abi::VCPU_STOP_PERIODIC, 0), "stop a timer");
    events::bind();
}
