//! The CPUs of the kernel that this crate is linked into.
//!
//! `spin`'s types name no platform, so the linker finds one, as it finds a global allocator: the
//! kernel defines the table that is declared here by [`set_platform!`](crate::set_platform).

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use overlock::platform::{Bucket, Costs, Cpu, Platform, ReadModifyWrite, Slot};

use crate::Table;

/// The platform that the program has set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linked;

unsafe extern "Rust" {
    // Only that macro defines it. A linker that misses it prints its name.
    #[link_name = "overlock_spin_0_1_needs_set_platform_or_the_feature_threads"]
    safe static PLATFORM: Table;
}

// SAFETY: every clause is answered as the platform that was set answers it, except P0: the cells
// and the fence are those of `core`, as its are. Its releases may be cheap; here they are
// read-modify-writes, which P0 always allows. The constants are known before the platform is, so an
// unlock looks for waiters though waiting is switched off, as the contract supposes of a platform
// that says nothing.
unsafe impl Platform for Linked {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;
    type Release = ReadModifyWrite;
    const WAITS: bool = true;

    fn costs() -> Costs {
        (PLATFORM.costs)()
    }
    fn waits() -> bool {
        (PLATFORM.waits)()
    }
    fn relax() {
        (PLATFORM.relax)();
    }
    fn nap(ns: u64) {
        (PLATFORM.nap)(ns);
    }
    fn cpu() -> Option<Cpu> {
        (PLATFORM.cpu)()
    }
    fn slot(cpu: Cpu) -> &'static Slot<AtomicU32> {
        (PLATFORM.slot)(cpu)
    }
    fn waiters() -> &'static [Bucket<AtomicU32>] {
        (PLATFORM.waiters)()
    }
    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        (PLATFORM.wait)(word, expected, deadline_ns);
    }
    fn kick(word: *const AtomicU32, cpu: Cpu) {
        (PLATFORM.kick)(word, cpu);
    }
    fn now_ns() -> u64 {
        (PLATFORM.now_ns)()
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
