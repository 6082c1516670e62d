//! Rows without a point: of `torture`, and of `doctor`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::run::Name;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Torture {
    pub world: Name,
    pub lock: String,
    pub runs: u64,
    /// Runs of a script in which a CPU was taken away at one step.
    pub injections: u64,
    pub steps: u64,
    pub acquisitions: u64,
    pub virtual_s: f64,
    pub seconds: f64,
    /// The most acquisitions by others that passed a queue head.
    pub longest_bypass: u32,
    /// How often a release took over the kick of another.
    pub takeovers: u64,
    /// Kicks that found their CPU waiting for a lock of another kind.
    pub crossed_kicks: u64,
    pub faults: BTreeMap<Name, u64>,
    pub counters: BTreeMap<Name, u64>,
    pub failed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TortureFailure {
    pub world: Name,
    pub lock: String,
    /// The plan of the run, with which `--replay` repeats it.
    pub run: String,
    pub oracle: Name,
    pub at_ns: u64,
    pub cpu: usize,
    pub text: String,
    pub trace: Vec<String>,
    pub hash: u64,
    /// The command that repeats the run.
    pub replay: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Doctor {
    pub version: String,
    pub commit: String,
    pub findings: Vec<Symptom>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Symptom {
    pub name: Name,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Symptom {
    pub fn new(name: &'static str, found: impl Into<String>) -> Self {
        Self { name: name.into(), found: found.into(), advice: None }
    }

    pub fn advise(mut self, needed: bool, advice: impl Into<String>) -> Self {
        if needed {
            self.advice = Some(advice.into());
        }
        self
    }
}
