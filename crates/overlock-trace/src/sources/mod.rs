//! Where events come from: the kernel's tracepoints, a preloaded library, or looks at threads.

mod account;
mod bursts;
mod calls;
mod coarse;
mod drain;
mod futexes;
mod looks;
mod owner;
pub(crate) mod platform;
pub(crate) mod points;
mod preload;
mod python;
mod quota;
pub(crate) mod records;
mod rings;
mod session;
mod tracepoints;
pub(crate) mod tracer;
mod urgency;

pub use preload::LIBRARY;
pub use quota::quota_of;
pub use session::{Files, Needs, Opened, Seen, Session, Start, Wanted};
