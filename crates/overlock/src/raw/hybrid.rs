//! PLACEHOLDER
use super::queue::{QueueLock, order::Unfair};
use crate::counters::Uncounted;
/// hybrid
pub type Hybrid<P, C = Uncounted> = QueueLock<P, Unfair, C>;
