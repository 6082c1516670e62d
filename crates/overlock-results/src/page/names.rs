//! What a point is called on a page.

use crate::NO_POLICY;
use crate::row::Point;

impl Point {
    /// Returns the lock; its yield policy if it has one; the rule of the timer if it was read.
    pub(crate) fn series(&self) -> String {
        let policy = Some(self.policy.as_str()).filter(|of| !of.is_empty() && *of != NO_POLICY);
        let lock = Some(self.lock.as_str()).filter(|lock| *lock != "none" || self.timer.is_none());
        let parts = [lock, policy, self.timer.as_deref()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
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
}
