// SPDX-License-Identifier: MIT OR Apache-2.0
//! One lock's runs, and their results.

use overlock::counters::Event;
use overlock_sim::{Failure, Fault, Faults, Plan, Report, Subject};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// All runs of one lock so far.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) subject: &'static Subject,
    pub(super) runs: u64,
    /// Runs of a script in which a CPU was taken away at one step.
    pub(super) injections: u64,
    pub(super) steps: u64,
    pub(super) acquisitions: u64,
    pub(super) virtual_ns: u64,
    pub(super) faults: Faults,
    pub(super) events: [u64; Event::ALL.len()],
    pub(super) longest_bypass: u32,
    pub(super) takeovers: u64,
    pub(super) crossed_kicks: u64,
    pub(super) spent: Duration,
    pub(super) failed: bool,
}

impl Series {
    pub(super) fn new(subject: &'static Subject) -> Self {
        Series {
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
    pub(super) fn add(&mut self, plan: Plan, report: &Report) {
        self.runs += 1;
        self.injections += u64::from(matches!(plan, Plan::Inject { .. }) && report.injected);
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

    pub(super) fn record(&self) -> SeriesRecord {
        let fault = |fault: Fault| (fault.name(), self.faults.of(fault));
        let event = |event: Event| (event.name(), self.events[event as usize]);
        SeriesRecord {
            kind: "torture",
            world: "sim",
            lock: self.subject.name,
            runs: self.runs,
            injections: self.injections,
            steps: self.steps,
            acquisitions: self.acquisitions,
            virtual_s: self.virtual_ns as f64 / 1e9,
            seconds: self.spent.as_secs_f64(),
            longest_bypass: self.longest_bypass,
            takeovers: self.takeovers,
            crossed_kicks: self.crossed_kicks,
            faults: Fault::ALL.into_iter().map(fault).collect(),
            counters: Event::ALL.iter().copied().map(event).collect(),
            failed: self.failed,
        }
    }
}

/// The summary of one lock.
#[derive(Debug, Serialize)]
pub(super) struct SeriesRecord {
    kind: &'static str,
    world: &'static str,
    lock: &'static str,
    runs: u64,
    /// Runs in which the CPU of a script was taken away at one step.
    injections: u64,
    /// Atomic accesses.
    steps: u64,
    acquisitions: u64,
    virtual_s: f64,
    /// Real time.
    seconds: f64,
    /// The most acquisitions by others that passed a queue head.
    longest_bypass: u32,
    /// How often a release took over the kick of another.
    takeovers: u64,
    /// Kicks that found their CPU waiting for a lock of another kind.
    crossed_kicks: u64,
    faults: BTreeMap<&'static str, u64>,
    counters: BTreeMap<&'static str, u64>,
    failed: bool,
}

/// One run that went wrong.
#[derive(Debug, Serialize)]
pub(super) struct FailureRecord<'a> {
    kind: &'static str,
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
    replay: String,
}

impl<'a> FailureRecord<'a> {
    pub(super) fn new(
        subject: &'static Subject,
        plan: Plan,
        report: &'a Report,
        failure: &'a Failure,
    ) -> Self {
        FailureRecord {
            kind: "torture-failure",
            world: "sim",
            lock: subject.name,
            run: plan.to_string(),
            oracle: failure.oracle.name(),
            at_ns: failure.at_ns,
            cpu: failure.cpu,
            text: &failure.text,
            trace: &report.trace,
            hash: report.hash,
            replay: replay(subject, plan),
        }
    }
}

/// The command that repeats a run.
pub(super) fn replay(subject: &Subject, plan: Plan) -> String {
    format!("overlock torture --lock {} --replay {plan}", subject.name)
}
