//! The errors of a run, each with what was attempted and where.

use std::io;
use std::time::Duration;

use crate::host::sched::{self, Event};

use crate::lab::place::Place;

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine does not exist on this machine.
    #[error("the {engine} engine is not available: {reason}")]
    Unavailable {
        engine: &'static str,
        /// The reason, and a remedy.
        reason: String,
    },
    /// The configuration makes no sense.
    #[error("{0}")]
    Config(String),
    /// The operating system refused something that the engine needs.
    #[error("could not {attempt}: {source}")]
    Io {
        /// What was attempted, with a remedy if there is one.
        attempt: &'static str,
        source: io::Error,
    },
    /// KVM refused to make or to run a vCPU, or the system to make its thread.
    #[error("vCPU {vcpu}: {by} refused to {attempt}: {source}")]
    Refused {
        vcpu: u32,
        /// The one that refused: `KVM` or `the system`.
        by: &'static str,
        attempt: &'static str,
        source: io::Error,
    },
    /// The host told its scheduler something that can't have happened: a fault of the laboratory.
    #[error("the laboratory's host is wrong: {event:?}: {source}; please report it")]
    Impossible {
        event: Event,
        /// Why that can't have happened.
        source: sched::SchedError,
    },
    /// A program did something that a guest cannot do.
    #[error("vCPU {vcpu} faulted: {what}\n  {place}")]
    Fault { vcpu: u32, what: String, place: Place },
    #[error("vCPU {vcpu} panicked{}\n  {place}", said(.message))]
    Panicked {
        vcpu: u32,
        /// The message, if it is known: a guest cannot format one.
        message: Option<String>,
        place: Place,
    },
    /// No vCPU has run one instruction before its slice was over, and long after.
    #[error(
        "vCPU {vcpu} was brought out of the guest {tries} times before it ran one instruction: a \
         slice of {slice:?} is too short for this machine; choose a longer one"
    )]
    SliceTooShort {
        vcpu: u32,
        /// How often in a row; the last time, it had thousands of slices.
        tries: u32,
        slice: Duration,
    },
    /// Programs did not return after the stop flag was set.
    #[error("not stopped within {grace:?}:{}", listed(.stuck))]
    Runaway {
        /// How long the engine waited.
        grace: Duration,
        /// The stuck vCPUs, and where they were.
        stuck: Vec<Stuck>,
    },
}

/// A vCPU that the engine ended by force.
#[derive(Clone, Debug)]
pub struct Stuck {
    pub vcpu: u32,
    pub doing: &'static str,
    pub place: Place,
}

/// How many of the stuck vCPUs a message describes: the others mostly do the same.
const DESCRIBED: usize = 8;

fn listed(stuck: &[Stuck]) -> String {
    let line = |s: &Stuck| format!("\n  vCPU {} {}, {}", s.vcpu, s.doing, s.place);
    let lines: String = stuck.iter().take(DESCRIBED).map(line).collect();
    match stuck.len().saturating_sub(DESCRIBED) {
        0 => lines,
        more => format!("{lines}\n  and {more} more vCPUs"),
    }
}

fn said(message: &Option<String>) -> String {
    message.as_ref().map(|m| format!(": {m}")).unwrap_or_default()
}

impl Error {
    /// Makes an error of the system's for `attempt`.
    pub(super) fn io<E: Into<io::Error>>(attempt: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Io { attempt, source: error.into() }
    }
}

impl From<overlock_results::Error> for Error {
    fn from(overlock_results::Error(what): overlock_results::Error) -> Self {
        Self::Config(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_describes_only_some_of_many_stuck_vcpus() {
        let stuck = |count| {
            let stuck = |vcpu| Stuck { vcpu, doing: "was running", place: Place::unknown() };
            let error = Error::Runaway {
                grace: Duration::from_secs(1),
                stuck: (0..count).map(stuck).collect(),
            };
            error.to_string()
        };
        assert_eq!(stuck(8).matches("was running").count(), 8);
        assert!(!stuck(8).contains("more"), "{}", stuck(8));
        assert_eq!(stuck(99).matches("was running").count(), 8);
        assert!(stuck(99).ends_with("\n  and 91 more vCPUs"), "{}", stuck(99));
    }
}
