// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records: all runs of one lock so far, and a run that went wrong.

use crate::output::Sink;
use overlock::counters::Event;
use overlock_sim::{Fault, FaultPlan, Faults, Report, Subject};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// All runs of one lock so far, as its record.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "torture")]
pub(super) struct Series {
    world: &'static str,
    #[serde(rename = "lock", serialize_with = "name")]
    pub(super) subject: &'static Subject,
    pub(super) runs: u64,
    /// Runs of a script in which a CPU was taken away at one step.
    pub(super) injections: u64,
    /// Atomic accesses.
    pub(super) steps: u64,
    pub(super) acquisitions: u64,
    #[serde(rename = "virtual_s", serialize_with = "seconds")]
    virtual_ns: u64,
    /// Real time.
    #[serde(rename = "seconds", serialize_with = "real_seconds")]
    pub(super) spent: Duration,
    /// The most acquisitions by others that passed a queue head.
    pub(super) longest_bypass: u32,
    /// How often a release took over the kick of another.
    takeovers: u64,
    /// Kicks that found their CPU waiting for a lock of another kind.
    crossed_kicks: u64,
    #[serde(serialize_with = "by_fault")]
    pub(super) faults: Faults,
    #[serde(rename = "counters", serialize_with = "by_event")]
    events: [u64; Event::ALL.len()],
    pub(super) failed: bool,
}

impl Series {
    pub(super) fn new(subject: &'static Subject) -> Self {
        Series {
            world: "sim",
            subject,
            runs: 0,
            injections: 0,
            steps: 0,
            acquisitions: 0,
            virtual_ns: 0,
            faults: Faults::default(),
            events: [0; Event::ALL.len()],
            longest_bypass: 0,
            takeovers: 0,
            crossed_kicks: 0,
            spent: Duration::ZERO,
            failed: false,
        }
    }

    /// Adds a run.
    pub(super) fn add(&mut self, plan: FaultPlan, report: &Report) {
        self.runs += 1;
        self.injections += u64::from(matches!(plan, FaultPlan::Inject { .. }) && report.injected);
        self.steps += report.steps;
        self.acquisitions += report.acquisitions;
        self.virtual_ns += report.virtual_ns;
        self.faults += report.faults;
        self.events.iter_mut().zip(report.events).for_each(|(sum, more)| *sum += more);
        self.longest_bypass = self.longest_bypass.max(report.longest_bypass);
        self.takeovers += report.takeovers;
        self.crossed_kicks += report.crossed_kicks;
        self.failed |= report.failure.is_some();
    }
}

fn name<S: Serializer>(of: &Subject, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(of.name)
}

fn seconds<S: Serializer>(ns: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(*ns as f64 / 1e9)
}

fn real_seconds<S: Serializer>(of: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(of.as_secs_f64())
}

fn by_fault<S: Serializer>(of: &Faults, to: S) -> Result<S::Ok, S::Error> {
    BTreeMap::from(Fault::ALL.map(|fault| (fault.name(), of.of(fault)))).serialize(to)
}

fn by_event<S: Serializer>(of: &[u64], to: S) -> Result<S::Ok, S::Error> {
    let each = Event::ALL.iter().map(|event| (event.name(), of[*event as usize]));
    each.collect::<BTreeMap<_, _>>().serialize(to)
}

/// One run that went wrong.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "torture-failure")]
struct FailureRecord<'a> {
    world: &'static str,
    lock: &'static str,
    run: String,
    oracle: &'static str,
    at_ns: u64,
    cpu: usize,
    text: &'a str,
    /// The last events.
    trace: &'a [String],
    hash: u64,
    replay: &'a str,
}

/// Tells of a failure, if there is one, with the command that repeats it.
pub(super) fn tell(
    subject: &'static Subject,
    plan: FaultPlan,
    report: &Report,
    sink: &mut Sink,
) -> anyhow::Result<()> {
    let Some(failure) = &report.failure else { return Ok(()) };
    let lock = subject.name;
    let replay = format!("overlock torture --lock {lock} --replay {plan}");
    sink.record(&FailureRecord {
        world: "sim",
        lock,
        run: plan.to_string(),
        oracle: failure.oracle.name(),
        at_ns: failure.at_ns,
        cpu: failure.cpu,
        text: &failure.text,
        trace: &report.trace,
        hash: report.hash,
        replay: &replay,
    })?;
    sink.people(&format!(
        "{lock} fails: {failure}\n  run {plan}, last events:\n{}\n  repeat it with: {replay}\n",
        report.trace.join("\n"),
    ))
}
