//! The timer of each vCPU.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::abi;
use super::calls::{self, ensure};
use crate::cpus::{self, MAX};
use crate::machine::clock;

/// How often the timer of each vCPU ticks; 0 is never.
static PERIODS_NS: [AtomicU64; MAX] = [const { AtomicU64::new(0) }; MAX];

/// Lets this vCPU's timer tick every `us` microseconds, or not at all. Xen's periodic timer would
/// stand still while the vCPU polls, so each tick arms the next at its end.
pub fn tick_every_us(us: Option<u32>) {
    let me = cpus::this();
    PERIODS_NS[me.number()].store(u64::from(us.unwrap_or(0)) * 1000, Relaxed);
    me.ticking.store(us.is_some(), Relaxed);
    ask_for_tick();
}

/// Arms the next tick of this vCPU, if it has ticks.
pub(super) fn ask_for_tick() {
    #[repr(C)]
    struct SingleShot {
        at_ns: u64,
        flags: u32,
    }
    let me = cpus::this().number();
    let period_ns = PERIODS_NS[me].load(Relaxed);
    let op = if period_ns == 0 { abi::VCPU_STOP_SINGLE } else { abi::VCPU_SET_SINGLE };
    let timer = SingleShot { at_ns: clock::now_ns() + period_ns, flags: 0 };
    let argument = (&raw const timer).addr() as u64;
    // SAFETY: reads the structure.
    let result = unsafe { calls::call(abi::VCPU_OP, [op, me as u64, argument, 0]) };
    ensure(result, "set a timer");
}
