//! An experiment as a file: factors, workload, host, and the published figures to compare with.
//!
//! ```
//! use overlock_bench::experiment::Experiment;
//!
//! let text = r#"
//!     about = "four locks on vCPUs that outnumber the processors four to one"
//!     source = "our choice of lengths"
//!     workload = "micro"
//!
//!     [factors]
//!     locks = ["native-ticket", "hybrid"]
//!     cpus = [2, 8]
//!     section_ns = [0, 1000]
//!
//!     [host]
//!     pcpus = 2
//!     seconds = 0.5
//!     runs = 3
//!
//!     [[published]]
//!     lock = "hybrid"
//!     cpus = 8
//!     figure = "of_1x"
//!     value = 0.9
//!     source = "nobody: an example"
//! "#;
//! let experiment = Experiment::parse("mine", text)?;
//! assert_eq!(experiment.published.len(), 1);
//! # Ok::<(), overlock_results::Error>(())
//! ```
//!
//! The same file runs in every [`World`](crate::World). A world reports what it can't do.

mod check;
mod definition;
pub(crate) mod host;
mod plan;
mod random;
mod read;

pub use definition::{Experiment, Factors, NamedPoint, Workload};
pub use host::Host;
pub use plan::Plan;
