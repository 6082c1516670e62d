//! Work that takes a known time and touches no memory.
//!
//! A critical section of 1 µs must cost 1 µs of CPU, however often its thread is preempted in it: a
//! deadline on the clock would count preempted time as work. So the work is a chain of dependent
//! shifts and exclusive ors, calibrated at the start and checked again at the end. It has no PAUSE,
//! which would yield to a sibling hyper-thread, and no load or store, which would keep the memory
//! system busy. A length of 0 is one branch.

use crate::clock::Stamps;

/// How far a later calibration can be off before the lengths of critical sections can't be trusted.
pub const DRIFT_LIMIT: f64 = 0.05;

/// The state of the chain. Each thread has its own and carries it from one piece of work to the
/// next, in a register.
#[derive(Debug)]
pub(crate) struct Chain(u64);

impl Chain {
    pub(crate) const fn new() -> Self {
        Chain(0x9e37_79b9_7f4a_7c15)
    }

    /// Spends `links` links of the chain, exactly at the place of the call.
    #[inline(always)]
    pub(crate) fn spend(&mut self, links: u32) {
        if links == 0 {
            return;
        }
        let mut x = opaque(self.0);
        for _ in 0..links {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        self.0 = opaque(x);
    }
}

/// Returns `x`, which the compiler must have computed by now and can't know afterwards.
///
/// Like `black_box`, except that that goes through memory.
#[inline(always)]
fn opaque(mut x: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: no instruction at all; the compiler must assume that it changes `x` and all shared
    // memory, so it moves no access to a lock past it.
    unsafe {
        core::arch::asm!("/* {x} */", x = inout(reg) x, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        x = std::hint::black_box(x);
    }
    x
}

#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub per_ns: f64,
}

impl Work {
    /// Measures the chain for about 20 ms, or about 40 where the code is not optimised; the fastest
    /// of many tries is the undisturbed one.
    pub fn calibrate(clock: &Stamps) -> Self {
        const LINKS: u32 = 40_000;
        // Twice what an optimised build takes on a busy machine.
        const LONG_NS: f64 = 40e6;
        let (mut chain, begun) = (Chain::new(), clock.now());
        let fastest = (0..200)
            .take_while(|tries| *tries < 20 || clock.to_ns(clock.now() - begun) < LONG_NS)
            .map(|_| {
                let start = clock.now();
                chain.spend(LINKS);
                clock.now() - start
            })
            .min()
            .unwrap_or(1);
        Work { per_ns: f64::from(LINKS) / clock.to_ns(fastest.max(1)) }
    }

    /// Returns how many links take `nanos`; not rounded, because it may be the mean of many
    /// lengths.
    pub fn links(self, nanos: u64) -> f64 {
        nanos as f64 * self.per_ns
    }

    pub fn drift(self, other: Self) -> f64 {
        (self.per_ns / other.per_ns - 1.0).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice the links take twice the time, in one of many tries: most can be disturbed.
    #[test]
    fn time_grows_with_links() {
        let clock = Stamps::calibrate();
        let mut chain = Chain::new();
        let mut time = |links| {
            let start = clock.now();
            chain.spend(links);
            clock.now() - start
        };
        let mut tries = (0..10_000).map(|_| time(20_000) as f64 / time(10_000) as f64);
        assert!(tries.any(|ratio| (1.95..2.05).contains(&ratio)), "never twice the time");
    }

    #[test]
    fn links_scale_with_time() {
        let work = Work { per_ns: 0.5 };
        assert!(work.links(0) == 0.0 && work.links(1001) == 500.5);
        assert!((work.drift(Work { per_ns: 0.4 }) - 0.25).abs() < 1e-9);
    }
}
