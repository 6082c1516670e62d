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
