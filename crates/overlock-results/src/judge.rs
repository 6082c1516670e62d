//! What follows from rows: no world, no clock, no I/O, and no user interface. Fresh rows and those
//! of old files are judged by the same code.

mod advice;
mod bound;
mod check;
mod explain;
pub mod recommend;
pub mod startup;
mod summary;
mod verdict;

pub use advice::advice;
pub use check::check;
pub use explain::explain;
pub use summary::summaries;
pub use verdict::{baseline, choose, rank};
