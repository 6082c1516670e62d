// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a point is called on a page, and what took part in it.

use crate::NO_POLICY;
use crate::row::Point;

/// The names of a point's parts.
pub(crate) trait Names {
    /// Returns the lock; its yield policy if it has one; the rule of the timer if it was read.
    fn series(&self) -> String;

    /// Returns whether threads or programs ran on the machine itself, as in `bench` and `compare`.
    fn is_real(&self) -> bool;

    /// Returns the name of what shares the processors.
    fn sharer(&self) -> &'static str {
        if self.is_real() { "thread" } else { "vCPU" }
    }

    /// Returns the name of what they share.
    fn shared(&self) -> &'static str {
        if self.is_real() { "CPU" } else { "pCPU" }
    }
}

impl Names for Point {
    fn series(&self) -> String {
        let policy = Some(self.policy.as_str()).filter(|of| !of.is_empty() && *of != NO_POLICY);
        let lock = Some(self.lock.as_str()).filter(|lock| *lock != "none" || self.timer.is_none());
        let parts = [lock, policy, self.timer.as_deref()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn is_real(&self) -> bool {
        // The laboratory's parked threads had this world's name once; only threads of the machine
        // have long stalls counted.
        self.world == "process" || (self.world == "threads" && self.long_stalls.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(world: &str, lock: &str, policy: &str) -> Point {
        let (world, lock, policy) = (world.into(), lock.into(), policy.into());
        Point { world, lock, policy, ..Point::default() }
    }

    #[test]
    fn a_series_is_a_lock_with_its_policy_and_timer() {
        assert_eq!(point("kvm", "hybrid", "none").series(), "hybrid");
        assert_eq!(point("kvm", "hybrid", "").series(), "hybrid");
        assert_eq!(point("kvm", "hybrid", "oracle").series(), "hybrid, oracle");
        let timer = Some("lock-free".into());
        assert_eq!(Point { timer, ..point("kvm", "none", "none") }.series(), "lock-free");
    }

    #[test]
    fn threads_share_cpus_and_vcpus_share_pcpus() {
        let names = |point: &Point| (point.sharer(), point.shared());
        assert_eq!(names(&point("kvm", "hybrid", "none")), ("vCPU", "pCPU"));
        assert_eq!(names(&point("process", "hybrid", "none")), ("thread", "CPU"));
        let threads = point("threads", "hybrid", "none");
        assert_eq!(names(&threads), ("vCPU", "pCPU"), "the laboratory's, once");
        assert_eq!(names(&Point { long_stalls: Some(0), ..threads }), ("thread", "CPU"));
    }
}
