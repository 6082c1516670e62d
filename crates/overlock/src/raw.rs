//! The verbs of every lock, and the locks themselves: one algorithm per file.

#[macro_use]
mod verbs;

pub mod condvar;
pub mod hybrid;
pub mod queue;
pub mod queued;
pub mod read_write;
pub mod test_and_set;
pub mod ticket;
pub(crate) mod word;

pub use hybrid::Hybrid;
pub use queued::Queued;
pub use test_and_set::TestAndSet;
pub use ticket::{Narrow, Ticket, Wide, Width};
use verbs::is_patched_out;
pub use verbs::{ConstLock, RawFairLock, RawLock, RawTimedLock};
