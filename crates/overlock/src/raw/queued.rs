//! PLACEHOLDER
use super::queue::{QueueLock, order::Strict};
use crate::counters::Uncounted;
/// queued
pub type Queued<P, C = Uncounted> = QueueLock<P, Strict, C>;
