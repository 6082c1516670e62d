//! The records: all runs of one lock so far, and a run that went wrong.

use crate::output::Sink;
use overlock::counters::Event;
use overlock_results::row::{Row, Torture, TortureFailure};
use overlock_sim::{Fault, FaultPlan, Faults, Subject, TortureReport};
use std::time::Duration;

/// All runs of one lock so far.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) subject: &'static Subject,
    pub(super) row: Torture,
    pub(super) faults: Faults,
    events: [u64; Event::ALL.len()],
    virtual_ns: u64,
    pub(super) spent: Duration,
}

impl Series {
    pub(super) fn new(subject: &'static Subject) -> Self {
        let row = Torture { world: "sim".into(), lock: subject.name.into(), ..Torture::default() };
        let (faults, spent) = (Faults::default(), Duration::ZERO);
        Series { subject, row, faults, events: [0; Event::ALL.len()], virtual_ns: 0, spent }
    }

    pub(super) fn add(&mut self, plan: FaultPlan, report: &TortureReport) {
        self.row.runs += 1;
        self.row.injections +=
            u64::from(matches!(plan, FaultPlan::Inject { .. }) && report.injected);
        self.row.steps += report.steps;
        self.row.acquisitions += report.acquisitions;
        self.row.longest_bypass = self.row.longest_bypass.max(report.longest_bypass);
        self.row.takeovers += report.takeovers;
        self.row.crossed_kicks += report.crossed_kicks;
        self.row.failed |= report.failure.is_some();
        self.virtual_ns += report.virtual_ns;
        self.faults += report.faults;
        self.events.iter_mut().zip(report.events).for_each(|(sum, more)| *sum += more);
    }

    pub(super) fn row(&self) -> Row {
        let events = Event::ALL.iter().map(|event| (event.name(), self.events[*event as usize]));
        Row::Torture(Torture {
            virtual_s: self.virtual_ns as f64 / 1e9,
            seconds: self.spent.as_secs_f64(),
            faults: Fault::ALL.map(|of| (of.name().into(), self.faults.of(of))).into(),
            counters: events.map(|(name, count)| (name.into(), count)).collect(),
            ..self.row.clone()
        })
    }
}

/// Tells of a failure, if there is one, with the command that repeats it.
pub(super) fn tell(
    subject: &'static Subject,
    plan: FaultPlan,
    report: &TortureReport,
    sink: &mut Sink,
) -> anyhow::Result<()> {
    let Some(failure) = &report.failure else { return Ok(()) };
    let lock = subject.name;
    let replay = format!("overlock torture --lock {lock} --replay {plan}");
    sink.record(&Row::TortureFailure(TortureFailure {
        world: "sim".into(),
        lock: lock.to_owned(),
        run: plan.to_string(),
        oracle: failure.oracle.name().into(),
        at_ns: failure.at_ns,
        cpu: failure.cpu,
        text: failure.text.clone(),
        trace: report.trace.clone(),
        hash: report.hash,
        replay: replay.clone(),
    }))?;
    sink.people(&format!(
        "{lock} fails: {failure}\n  run {plan}, last events:\n{}\n  repeat it with: {replay}\n",
        report.trace.join("\n"),
    ))
}
