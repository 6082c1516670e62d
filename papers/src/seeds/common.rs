//! What the published locks have in common: how many CPUs they serve, and how long they spin.

use std::sync::atomic::Ordering;

use overlock::platform::{Cpu, Platform};

/// The most CPUs that these locks serve: S4 has 108 vCPUs.
pub(crate) const CPUS: usize = overlock_bench::vcpus::PUBLISHED_CPUS as usize;

/// Nanoseconds of one round of a spin loop on the machines of that time: a pause of 9 cycles, a
/// load, a comparison and a branch, about 14 cycles at 2.3 GHz. Processors since Skylake pause ten
/// times as long.
///
/// A threshold is published as a number of rounds. Here it is a time, because a round of a
/// simulated loop can last long.
const ROUND_NS: u64 = 6;

/// Spins until `done` says so, at most for a number of rounds; for ever where the platform never
/// halts. Returns whether it is done.
pub(super) fn spin<P: Platform>(rounds: u64, mut done: impl FnMut() -> bool) -> bool {
    let may_halt = P::WAITS && P::waits();
    let end = if may_halt { P::now_ns() + rounds * ROUND_NS } else { u64::MAX };
    loop {
        for _ in 0..P::costs().pauses_per_look {
            if done() {
                return true;
            }
            P::relax();
        }
        if may_halt && P::now_ns() >= end {
            return false;
        }
    }
}

/// Orders a read-modify-write before the load of another cell. On x86, for which these locks were
/// published, the locked instruction already does.
pub(super) fn full_barrier<P: Platform>() {
    if !cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
        // ORDERING: it pairs with the same barrier of the other side: one of the two sees what the
        // other wrote before.
        P::fence(Ordering::SeqCst);
    }
}

/// The index of this CPU's record, if there is one for it.
pub(super) fn own<P: Platform>() -> Option<usize> {
    P::cpu().map(Cpu::index).filter(|&index| index < CPUS)
}
