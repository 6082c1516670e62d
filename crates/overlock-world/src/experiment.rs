// SPDX-License-Identifier: MIT OR Apache-2.0
//! An experiment as a file: factors, workload, host, and the published figures to compare with.
//!
//! ```
//! use overlock_world::experiment::Experiment;
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
//! assert_eq!(experiment.points().count(), 2 * 2 * 2);
//! # Ok::<(), overlock_world::Error>(())
//! ```
//!
//! The same file runs in every world that has an [`Engine`]. A world reports what it can't do.

use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::engine::{Config, Engine, PmTimerRule};
use crate::locks::Lock;
use crate::workload::{self, Profile};
use crate::{Document, Error, Record};

mod check;

/// An experiment, read from TOML.
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
    /// What the vCPUs do.
    pub workload: Workload,
    /// What is varied. Lists multiply.
    pub factors: Factors,
    /// What all points have in common.
    #[serde(default)]
    pub host: Host,
    /// Figures that others have found, for comparison with ours.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// The workload of an experiment.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Workload {
    /// One that comes with this crate: see [`Profile::names`].
    Named(String),
    /// One of the experiment's own.
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

/// What an experiment varies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factors {
    /// Locks, by the names that [`Lock::named`] knows.
    pub locks: Vec<String>,
    /// Yield policies, by the names that the engine knows.
    #[serde(default = "no_policy")]
    pub policies: Vec<String>,
    /// Numbers of vCPUs.
    pub cpus: Vec<u32>,
    /// Lengths of a critical section; if empty, the workload's own.
    #[serde(default)]
    pub section_ns: Vec<u64>,
    /// Lengths of the work between critical sections; if empty, the workload's own.
    #[serde(default)]
    pub think_ns: Vec<u64>,
    /// Rules for the PM timer, for workloads that read it.
    #[serde(default = "lock_free")]
    pub timers: Vec<PmTimerRule>,
}

/// What all points of an experiment have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// The host on which a simulation runs unless another is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// How many vCPUs may run at a time.
    pub pcpus: u32,
    /// How long a vCPU keeps its pCPU while others wait.
    pub slice_ns: u64,
    /// How much longer it may keep it inside a critical section; 0 means not at all.
    pub grace_ns: u64,
    /// How long a vCPU spins before it reports to the host, under policies other than `none`.
    pub pause_window_ns: u64,
    /// How often to check whether vCPUs spin, under the same policies; 0 means never.
    pub sample_ns: u64,
    /// Seconds of a run.
    pub seconds: f64,
    /// How often each point is run.
    pub runs: u16,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            machine: None,
            pcpus: 2,
            slice_ns: 1_000_000,
            grace_ns: 0,
            pause_window_ns: 50_000,
            sample_ns: 0,
            seconds: 0.5,
            runs: 3,
        }
    }
}

/// A published figure, or one that is to be compared with a published one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The lock, by our name.
    pub lock: String,
    /// The yield policy, by our name.
    #[serde(default = "none")]
    pub policy: String,
    /// The rule for the PM timer; by default the first of the factors'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<PmTimerRule>,
    /// vCPUs.
    pub cpus: u32,
    /// Nanoseconds between critical sections or reads; by default the first value in the factors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_ns: Option<u64>,
    /// What was measured, by the name of our figure: `ops_per_s`, `of_1x`, ...
    pub figure: String,
    /// The published result; absent if none has been published.
    #[serde(default)]
    pub value: Option<f64>,
    /// Its unit, if that is not the unit of our figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Whether less is better, as with seconds, where more is better in our figure.
    #[serde(default)]
    pub less_is_better: bool,
    /// By how many percent the published figure varied.
    #[serde(default)]
    pub noise_percent: f64,
    /// The point by which to divide the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Over>,
    /// Why ours may differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Where it was published.
    pub source: String,
}

/// The point by which a figure is divided: the figure's own point, except for the fields given
/// here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Over {
    /// Another lock.
    #[serde(default)]
    pub lock: Option<String>,
    /// Another yield policy.
    #[serde(default)]
    pub policy: Option<String>,
    /// Another rule for the PM timer.
    #[serde(default)]
    pub timer: Option<PmTimerRule>,
    /// Another number of vCPUs.
    #[serde(default)]
    pub cpus: Option<u32>,
    /// Whether every read-modify-write is sequentially consistent; a simulator can charge for that.
    #[serde(default)]
    pub seq_cst: bool,
    /// The published result at that point.
    #[serde(default)]
    pub value: Option<f64>,
}

impl Published {
    /// The published figure divided by its base: above 1 is better.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let value = self.value?;
        let Some(over) = &self.over else { return Some(value) };
        let base = over.value?;
        Some(if self.less_is_better { base / value } else { value / base })
    }
}

fn none() -> String {
    "none".into()
}

fn no_policy() -> Vec<String> {
    vec![none()]
}

fn lock_free() -> Vec<PmTimerRule> {
    vec![PmTimerRule::LockFree]
}

/// One combination of an experiment's factors.
#[derive(Clone, Debug)]
pub struct Point {
    /// The workload, with its lengths chosen.
    pub profile: Profile,
    /// The lock.
    pub lock: Lock,
    /// The yield policy.
    pub policy: String,
    /// The rule for the PM timer.
    pub timer: PmTimerRule,
    /// vCPUs.
    pub cpus: u32,
}

impl Experiment {
    /// Parses the experiment in `text`, the contents of the file called `file`.
    ///
    /// # Errors
    /// An [`Error`] that says what is wrong with the text or with the experiment, and in which
    /// line.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let document = Document::new(file, text);
        let mut experiment: Self = document.read()?;
        let name = document.name();
        name.clone_into(&mut experiment.name);
        if let Workload::Own(profile) = &mut experiment.workload
            && profile.name.is_empty()
        {
            name.clone_into(&mut profile.name);
        }
        check::factors(&experiment, &document)?;
        check::published(&experiment, &document)?;
        check::host(&experiment.host, &document)?;
        check::workload(&experiment, &document)?;
        Ok(experiment)
    }

    /// The workload, once for each combination of lengths.
    ///
    /// # Errors
    /// If there is no such workload, or no run could do it.
    pub fn profiles(&self) -> Result<Vec<Profile>, Error> {
        let profiles = self.lengths()?;
        profiles.iter().try_for_each(Profile::check)?;
        Ok(profiles)
    }

    /// The same, even if no run could do them.
    fn lengths(&self) -> Result<Vec<Profile>, Error> {
        let profile = match &self.workload {
            Workload::Named(name) => Profile::named(name)?,
            Workload::Own(profile) => profile.clone(),
        };
        let or = |given: &[u64], own| if given.is_empty() { vec![own] } else { given.to_vec() };
        let mut profiles = Vec::new();
        for section_ns in or(&self.factors.section_ns, profile.section_ns) {
            for think_ns in or(&self.factors.think_ns, profile.think_ns) {
                profiles.push(Profile { section_ns, think_ns, ..profile.clone() });
            }
        }
        Ok(profiles)
    }

    /// Every combination of the factors; those with the same workload lengths come together.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let factors = &self.factors;
        let profiles = self.profiles().unwrap_or_default();
        profiles.into_iter().flat_map(move |profile| {
            let mut points = Vec::new();
            for lock in factors.locks.iter().filter_map(|name| Lock::named(name)) {
                for policy in &factors.policies {
                    for &timer in &factors.timers {
                        points.extend(factors.cpus.iter().map(|&cpus| Point {
                            profile: profile.clone(),
                            lock: lock.clone(),
                            policy: policy.clone(),
                            timer,
                            cpus,
                        }));
                    }
                }
            }
            points
        })
    }

    /// The configuration for running `point`.
    #[must_use]
    pub fn config<'run>(&self, point: &'run Point) -> Config<'run> {
        let host = &self.host;
        let asked = point.policy != "none";
        let told = |ns: u64| if asked { Duration::from_nanos(ns) } else { Duration::ZERO };
        Config {
            duration: Duration::from_secs_f64(host.seconds),
            slice: Duration::from_nanos(host.slice_ns),
            critical: Duration::from_nanos(host.grace_ns),
            policy: &point.policy,
            paravirtual: point.lock.paravirtual,
            pause_window: told(host.pause_window_ns),
            sample_every: Some(told(host.sample_ns)).filter(|every| !every.is_zero()),
            pm_timer: point.timer,
            ..Config::new(point.cpus, host.pcpus)
        }
    }

    /// Runs every point once on engine `E`, in order, and passes each record to `take`.
    ///
    /// # Errors
    /// Those of [`workload::run`], at the first point that fails.
    pub fn run<E: Engine>(
        &self,
        mut take: impl FnMut(&Point, Record<E::Yields>),
    ) -> Result<(), E::Error> {
        for point in self.points() {
            let record =
                workload::run::<E>(&self.config(&point), &point.profile, point.lock.built)?;
            take(&point, Record { lock: point.lock.name.clone(), ..record });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "about = ''\nsource = ''\nworkload = 'micro'\n";

    #[test]
    fn lists_multiply_and_what_is_left_out_is_the_usual() {
        let text = format!("{HEAD}[factors]\nlocks = ['ticket', 'ticket-off']\ncpus = [1, 1024]");
        let experiment = Experiment::parse("mine", &text).unwrap();
        let points: Vec<Point> = experiment.points().collect();
        assert_eq!(points.len(), 4);
        assert!(points.iter().all(|point| point.profile.name == "micro"));
        let last = experiment.config(&points[3]);
        assert_eq!((last.vcpus, last.pcpus, last.paravirtual), (1024, 2, false));
        assert_eq!((last.policy, last.pause_window), ("none", Duration::ZERO));
    }

    #[test]
    fn a_workload_of_its_own_is_named_after_the_file() {
        let text = "about = ''\nsource = ''\n[workload]\nabout = ''\nsource = ''\nthink_ns = 5\n\
                    locks = 1\nsections = 1\nsection_ns = 7\n[factors]\nlocks = ['ticket']\n\
                    cpus = [1]\nthink_ns = [0, 9]";
        let points: Vec<Point> = Experiment::parse("mine", text).unwrap().points().collect();
        let lengths: Vec<_> = points.iter().map(|point| point.profile.think_ns).collect();
        assert_eq!((lengths, points[0].profile.name.as_str()), (vec![0, 9], "mine"));
    }
}
