//! Reasons why a simulation has no result.

use std::time::Duration;

/// The reason why a simulation has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host, the experiment or the configuration makes no sense.
    #[error("{0}")]
    Config(String),
    #[error("vCPU {vcpu} panicked: {message}")]
    Panicked { vcpu: u32, message: String },
    /// Programs did not return after they had been told to.
    #[error("not stopped within {grace:?} of virtual time:{}", listed(.stuck))]
    Runaway {
        /// How much virtual time they were given.
        grace: Duration,
        /// The vCPUs that did not return, and what they were doing.
        stuck: Vec<(u32, &'static str)>,
    },
}

fn listed(stuck: &[(u32, &'static str)]) -> String {
    stuck.iter().map(|(vcpu, doing)| format!("\n  vCPU {vcpu} {doing}")).collect()
}

impl From<overlock_results::Error> for Error {
    fn from(overlock_results::Error(what): overlock_results::Error) -> Self {
        Self::Config(what)
    }
}
