//! What an experiment consists of.

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::Host;
use crate::workload::Profile;
use overlock_results::PmTimerRule;
use overlock_results::{Error, Lengths, PublishedFigure, Task};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The name in records: that of the file.
    #[serde(default)]
    pub name: String,
    /// The question it asks, in one line.
    pub about: String,
    /// The source of its set-up, and what was chosen freely.
    pub source: String,
    pub workload: Workload,
    /// What is varied. Lists multiply.
    pub factors: Factors,
    /// Points beside those that the lists make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<NamedPoint>,
    /// What all points have in common.
    #[serde(default)]
    pub host: Host,
    /// Figures that others have found, for comparison with ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedFigure>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Workload {
    /// One that comes with this crate: see [`Profile::names`].
    Named(String),
    Own(Profile),
}

/// Deserializes like `untagged`, but reports mistakes with their key and line.
impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Workload;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a workload, or a table that describes one")
            }

            fn visit_str<E>(self, name: &str) -> Result<Workload, E> {
                Ok(Workload::Named(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Workload, A::Error> {
                Profile::deserialize(MapAccessDeserializer::new(map)).map(Workload::Own)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// What an experiment varies. Lists multiply.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Factors {
    /// Locks, by their names or those of groups: see [`Lock::choose`](overlock_results::locks::Lock::choose).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<String>,
    /// Yield policies, by the names that the engine knows; by default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// Numbers of threads or vCPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// The same as multiples of the pCPUs: 1 is one vCPU for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<f64>,
    /// Lengths of a critical section; if empty, the workload's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub section_ns: Vec<u64>,
    /// Lengths of the work between critical sections; if empty, the workload's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub think_ns: Vec<u64>,
    /// Instead of these: the share that vCPUs, if they never waited, would demand of what
    /// hand-overs allow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contention: Vec<f64>,
    /// Rules for the PM timer, for workloads that read it; by default `lock-free`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<PmTimerRule>,
    /// For threads: how lengths are spread around their means; by default `exp`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<Lengths>,
    /// For threads: what they use the lock for; by default `exclude`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// For threads: how many busy processes run beside; by default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<u32>,
    /// How many locks there are to choose from, by Zipf's law.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks_count: Option<u32>,
    /// For threads: other lengths, of sections and between them, in the second half of each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then_ns: Option<[u64; 2]>,
    /// For threads: how many times as long the critical sections of the first are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uneven: Option<u32>,
    /// Draw this many numbers of threads and lengths at random instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<u16>,
    /// Draw also points with several locks, changing lengths, or one thread that holds longer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wide: bool,
}

/// A point that an experiment names, beside or instead of those that its lists make.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedPoint {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// The same as a multiple of the pCPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<f64>,
    /// Length of a critical section.
    pub section_ns: u64,
    /// Length of the work between them.
    pub think_ns: u64,
}

impl Experiment {
    /// The same on fewer pCPUs, with the same overcommit and one guest: numbers of vCPUs that this
    /// does not leave whole go, and published figures with them.
    pub fn scaled_to(&self, pcpus: u32) -> Self {
        let from = self.host.pcpus;
        let scale = |cpus: u32| {
            let all = u64::from(cpus) * u64::from(pcpus);
            all.is_multiple_of(u64::from(from)).then(|| (all / u64::from(from)) as u32)
        };
        let mut scaled = self.clone();
        (scaled.host.pcpus, scaled.host.guest_vcpus) = (pcpus, 0);
        scaled.factors.cpus = self.factors.cpus.iter().filter_map(|cpus| scale(*cpus)).collect();
        scaled.published.retain_mut(|one| {
            let over = one.over.as_mut().and_then(|over| over.cpus.as_mut());
            let base = over.is_none_or(|cpus| scale(*cpus).map(|of| *cpus = of).is_some());
            base && scale(one.cpus).map(|of| one.cpus = of).is_some()
        });
        scaled
    }

    pub fn profile(&self) -> Result<Profile, Error> {
        match &self.workload {
            Workload::Named(name) => Profile::named(name),
            Workload::Own(profile) => Ok(profile.clone()),
        }
    }
}
