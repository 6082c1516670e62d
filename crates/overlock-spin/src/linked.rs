// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs of the kernel that this crate is linked into.
//!
//! `spin`'s types name no platform, so the linker finds one, as it finds a global allocator: the
//! kernel defines the functions that are declared here by [`set_platform!`](crate::set_platform).

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use overlock::platform::{Bucket, Costs, Cpu, Platform, ReadModifyWrite, Slot};

/// The platform that the program has set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linked;

// Only that macro defines these, from the functions of a `Platform`.
unsafe extern "Rust" {
    safe fn _overlock_spin_costs() -> Costs;
    safe fn _overlock_spin_waits() -> bool;
    safe fn _overlock_spin_relax();
    safe fn _overlock_spin_nap(ns: u64);
    safe fn _overlock_spin_cpu() -> Option<Cpu>;
    safe fn _overlock_spin_slot(cpu: Cpu) -> &'static Slot<AtomicU32>;
    safe fn _overlock_spin_waiters() -> &'static [Bucket<AtomicU32>];
    safe fn _overlock_spin_wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>);
    safe fn _overlock_spin_kick(word: *const AtomicU32, cpu: Cpu);
    safe fn _overlock_spin_now_ns() -> u64;
}

// SAFETY: every clause is answered as the platform that was set answers it, except P0: the cells
// and the fence are those of `core`, as its are. Its releases may be cheap; here they are
// read-modify-writes, which P0 always allows. The constants are known before the platform is, so
// waiters never yield, and an unlock looks for waiters though waiting is switched off: both are
// what the contract supposes of a platform that says nothing.
unsafe impl Platform for Linked {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;
    type Release = ReadModifyWrite;
    const WAITS: bool = true;

    fn costs() -> Costs {
        _overlock_spin_costs()
    }
    fn waits() -> bool {
        _overlock_spin_waits()
    }
    fn fence(order: Ordering) {
        core::sync::atomic::fence(order);
    }
    fn relax() {
        _overlock_spin_relax();
    }
    fn nap(ns: u64) {
        _overlock_spin_nap(ns);
    }
    fn cpu() -> Option<Cpu> {
        _overlock_spin_cpu()
    }
    fn slot(cpu: Cpu) -> &'static Slot<AtomicU32> {
        _overlock_spin_slot(cpu)
    }
    fn waiters() -> &'static [Bucket<AtomicU32>] {
        _overlock_spin_waiters()
    }
    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        _overlock_spin_wait(word, expected, deadline_ns);
    }
    fn kick(word: *const AtomicU32, cpu: Cpu) {
        _overlock_spin_kick(word, cpu);
    }
    fn now_ns() -> u64 {
        _overlock_spin_now_ns()
    }
}

#[cfg(test)]
mod tests {
    use overlock::platform::Native;

    use super::*;

    struct Slow;

    const COSTS: Costs = Costs::DEFAULT.with_wake_ns(70_000);

    // SAFETY: as `Native`, which answers everything but the costs.
    unsafe impl Platform for Slow {
        type Byte = AtomicU8;
        type Half = AtomicU16;
        type Word = AtomicU32;
        type Release = ReadModifyWrite;
        const WAITS: bool = false;

        fn costs() -> Costs {
            COSTS
        }
        fn fence(order: Ordering) {
            Native::fence(order);
        }
        fn relax() {
            Native::relax();
        }
        fn cpu() -> Option<Cpu> {
            Native::cpu()
        }
        fn slot(cpu: Cpu) -> &'static Slot<AtomicU32> {
            Native::slot(cpu)
        }
        fn waiters() -> &'static [Bucket<AtomicU32>] {
            Native::waiters()
        }
        fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
            Native::wait(word, expected, deadline_ns);
        }
        fn kick(word: *const AtomicU32, cpu: Cpu) {
            Native::kick(word, cpu);
        }
        fn now_ns() -> u64 {
            Native::now_ns()
        }
    }

    crate::set_platform!(Slow);

    #[test]
    fn costs_are_those_of_the_platform_and_it_may_never_wait() {
        assert_eq!(Linked::costs(), COSTS);
        assert!(!Linked::waits());
    }
}
