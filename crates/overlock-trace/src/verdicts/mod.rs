//! What was found, and what to do about it.

mod chain;
mod finding;
mod findings;
mod judge;
mod naming;
mod verdict;

pub use finding::{Facts, Finding, Loop};
pub use findings::{Findings, Stack};
pub use judge::NOTICEABLE;
pub(crate) use naming::Names;
pub use naming::Step;
pub use verdict::{Cure, Verdict, share};
