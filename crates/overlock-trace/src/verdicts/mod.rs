//! What was found, and what to do about it.

mod finding;
mod findings;
mod naming;
mod verdict;

pub use finding::{Facts, Finding, Loop};
pub use findings::{Findings, Stack};
pub(crate) use naming::Names;
pub use verdict::{Cure, NOTICEABLE, Verdict, share};
