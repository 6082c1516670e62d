//! What a rule is.

use crate::host::Nanos;

/// A rule by which vCPUs that read at the same time share one clock.
pub trait ReadRule {
    /// The guest's time, computed from `clock` if necessary.
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos;
}
