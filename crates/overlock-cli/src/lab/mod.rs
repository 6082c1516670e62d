// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock lab`: locks × yield policies × overcommit × workloads, on vCPUs that get preempted.
//!
//! Points that share a workload form a group and take turns: a *round* is one run of every point
//! of the group, at all overcommits, in an order shuffled from the seed. So the ratio of 8x to 1x,
//! or of one policy to another, is formed between runs of the same few seconds.
//!
//! The laboratory runs in this process, one run at a time; it leaves no thread behind, whatever a
//! guest does.

mod args;
mod check;
mod explain;
mod plan;
mod record;
mod results;
mod tables;
mod timeline;
mod what_if;

use crate::Outcome;
use crate::machine::{CpuTimes, Machine};
use crate::output::{self, Sink};
use crate::progress::Progress;
use crate::record::RunRecord;
use crate::shuffle::shuffled;
use crate::warnings::Warning;
use crate::{experiments, interrupt, sys};
use anyhow::{Context, Result, bail};
use overlock_lab::{Error, KvmEngine, ThreadsEngine};
use overlock_world::clock::Stamps;
use overlock_world::experiment::{Experiment, Published};
use overlock_world::workload::{Profile, run};
use overlock_world::{Config, Document, Engine};
use plan::{Group, NO_POLICY, ORACLE, Point};
pub(crate) use results::{Codes, Record};
use results::{Failure, GroupRuns, Sample};
use std::path::Path;
use std::time::Duration;
use timeline::TimelineRecord;

pub(crate) use args::{EngineChoice, LabArgs, MeasureArgs};
pub(crate) use what_if::{Tail, WhatIf};

/// Runs a workload once, in some world.
pub(crate) type Run<'run> = Box<dyn Fn(&Config<'_>, &Profile, &str) -> Result<Ran> + 'run>;

/// The outcome of a run: a record, or the fault of a guest.
pub(crate) type Ran = std::result::Result<Record, String>;

/// A point to run: its configuration, workload and lock.
pub(crate) type Planned<'plan> = (Config<'plan>, &'plan Profile, &'static str);

/// Makes this many rounds of runs in advance; returns the outcome if there is nothing to report.
pub(crate) type Ahead<'run> = Box<dyn Fn(&[Planned<'_>], usize) -> Result<Option<Outcome>> + 'run>;

/// A world to measure in.
pub(crate) struct Place<'run> {
    /// Runs a workload there.
    pub(crate) run: Run<'run>,
    /// Does so in advance, where that is faster than one run after the other.
    pub(crate) ahead: Option<Ahead<'run>>,
    /// A further question about the results.
    pub(crate) what_if: Option<WhatIf>,
    /// The number of pCPUs by default.
    pub(crate) pcpus: u32,
    /// Whether its vCPUs use this machine's CPUs.
    pub(crate) is_real: bool,
    /// The most pCPUs that it has; an experiment for more is refused.
    pub(crate) most_pcpus: u32,
}

/// Runs the sub-command.
pub(crate) fn main(args: &LabArgs) -> Result<Outcome> {
    let allowed = u32::try_from(sys::allowed_cpus()).unwrap_or(u32::MAX);
    let run = engine(args.engine)?;
    let most_pcpus = if args.oversubscribe { u32::MAX } else { allowed };
    let pcpus = allowed.min(2);
    let place = Place { run, ahead: None, what_if: None, pcpus, is_real: true, most_pcpus };
    measure(&args.measure, place)
}

/// Measures what the arguments request.
pub(crate) fn measure(args: &MeasureArgs, place: Place<'_>) -> Result<Outcome> {
    let experiment = args.experiment.as_deref().map(|path| read(path, &|_, _| Ok(())));
    let experiment = experiment.transpose()?;
    let told = experiment.as_ref().map(|experiment| args.with(experiment));
    let args = told.as_ref().unwrap_or(args);
    let pcpus = args.pcpus.unwrap_or(place.pcpus);
    if pcpus > place.most_pcpus {
        bail!(too_many(pcpus, place.most_pcpus, experiment.is_some()));
    }
    let asks_what_if = place.what_if.is_some();
    let is_real = place.is_real;
    let lab = Lab::new(args, experiment.as_ref(), place.run, (is_real, place.what_if))?;
    lab.try_engine()?;
    let groups = match &experiment {
        Some(experiment) => plan::of_experiment(experiment)?,
        None => plan::groups(args, pcpus, |profile| lab.hand_overs(profile, pcpus))?,
    };
    let is_base = |(config, ..): Planned<'_>| config.vcpus == config.pcpus;
    if asks_what_if && !groups.iter().all(|group| lab.plan(group).any(is_base)) {
        bail!(
            "--what-if compares with one vCPU for each pCPU, and there is no point with {pcpus} \
             vCPUs; add it to --cpus, or to the experiment's factors"
        );
    }
    let mut sink = Sink::open(&args.output)?;
    interrupt::watch()?;
    let machine = Machine::observe(&Stamps::calibrate());
    sink.record(&RunRecord::new(&machine, args.seed))?;
    if is_real {
        doubts(&machine, pcpus);
    }
    let plan = |group| lab.plan(group);
    if let Some(ahead) = place.ahead
        && let Some(done) = ahead(&groups.iter().flat_map(plan).collect::<Vec<_>>(), args.rounds())?
    {
        return sink.end(done);
    }
    let fine = lab.measure(&groups, &mut sink)?;
    sink.end(match (interrupt::seen(), fine) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Fine,
        (false, false) => Outcome::CheckFailed,
    })
}

/// Says what to do where this machine has too few CPUs.
fn too_many(pcpus: u32, allowed: u32, is_experiment: bool) -> String {
    let fewer = if is_experiment { String::new() } else { format!("use --pcpus {allowed}; ") };
    format!(
        "{pcpus} pCPUs need as many CPUs, and this process may use {allowed}: {fewer}simulate such \
         a host by `overlock sim`; or insist by --oversubscribe, if it is fine that the system \
         takes CPUs away too, which nothing here accounts for"
    )
}

/// Warns of conditions that make real measurements doubtful.
fn doubts(machine: &Machine, pcpus: u32) {
    if let Some(warning) = Warning::busy_machine(machine) {
        warning.print();
    }
    let allowed = u32::try_from(sys::allowed_cpus()).unwrap_or(u32::MAX);
    if pcpus > allowed {
        output::complain(&format!(
            "warning: {pcpus} pCPUs on {allowed} CPUs: the system will take CPUs away too, which \
             nothing here accounts for"
        ));
    }
}

/// Returns whether an experiment suits the world that is to run it; an error has its line in the
/// document.
type Suits<'a> = &'a dyn Fn(&Experiment, &Document<'_>) -> Result<()>;

/// Reads an experiment: a built-in one, or a file.
pub(crate) fn read(path: &Path, suits: Suits<'_>) -> Result<Experiment> {
    let name = path.display().to_string();
    let text = experiments::text(path)?;
    let experiment = Experiment::parse(&name, &text)?;
    let document = Document::new(&name, &text);
    plan::check_policies(&experiment, &document)?;
    suits(&experiment, &document)?;
    Ok(experiment)
}

/// A world, and how to run in it.
struct Lab<'args> {
    run: Run<'args>,
    /// Whether what the machine does meanwhile matters.
    is_real: bool,
    args: &'args MeasureArgs,
    published: &'args [Published],
    what_if: Option<WhatIf>,
    seconds: f64,
}

impl<'args> Lab<'args> {
    fn new(
        args: &'args MeasureArgs,
        experiment: Option<&'args Experiment>,
        run: Run<'args>,
        (is_real, what_if): (bool, Option<WhatIf>),
    ) -> Result<Self> {
        let seconds = args.seconds.unwrap_or(match (args.is_tour(), args.check) {
            (true, false) => 0.2,
            // In shorter runs, those of 16 vCPUs that happen to run a little more stand out.
            _ => 0.5,
        });
        if let Some(span) = args.timeline
            && span.0 as f64 > seconds * 0.5e9
        {
            bail!("a timeline of {span} is longer than half a run of {seconds} s; use --seconds");
        }
        let published = experiment.map_or(&[][..], |experiment| &experiment.published);
        Ok(Lab { run, is_real, args, published, what_if, seconds })
    }

    /// Returns the points of a group, as they will be run.
    fn plan<'plan>(&self, group: &'plan Group) -> impl Iterator<Item = Planned<'plan>> {
        let planned = |point| (self.config(point), &group.profile, point.lock.built);
        group.points.iter().map(planned)
    }

    /// Measures how many hand-overs per second vCPUs can make that do nothing else.
    fn hand_overs(&self, profile: &Profile, pcpus: u32) -> Result<f64> {
        let point = plan::limit(pcpus);
        let record = (self.run)(&self.config(&point), profile, point.lock.built)?;
        let record = record.map_err(anyhow::Error::msg)?;
        // A run that was cut short may have none.
        Ok(record.ops_per_s.max(1.0))
    }

    /// Checks that the engine starts, and that the spans make sense to it.
    fn try_engine(&self) -> Result<()> {
        let point = Point { policy: ORACLE.into(), ..plan::limit(1) };
        let config = Config { duration: Duration::from_millis(1), ..self.config(&point) };
        let tried = (self.run)(&config, &Profile::named("micro")?, point.lock.built)?;
        tried.map(drop).map_err(anyhow::Error::msg)
    }

    fn config<'run>(&self, point: &'run Point) -> Config<'run> {
        let span = |nanos: crate::units::Nanos| Duration::from_nanos(nanos.0);
        let asked = point.policy != NO_POLICY;
        Config {
            duration: Duration::from_secs_f64(self.seconds),
            slice: span(self.args.slice),
            critical: span(self.args.grace),
            policy: &point.policy,
            paravirtual: point.lock.paravirtual,
            pause_window: if asked { span(self.args.pause_window) } else { Duration::ZERO },
            sample_every: Some(span(self.args.sample)).filter(|every| asked && !every.is_zero()),
            pm_timer: point.timer,
            cancel: Some(interrupt::flag()),
            ..Config::new(point.cpus, point.pcpus)
        }
    }

    /// Measures and reports group by group; stops early on Ctrl-C. Returns whether no point failed
    /// and no bound was missed.
    fn measure(&self, groups: &[Group], sink: &mut Sink) -> Result<bool> {
        let rounds = self.args.rounds();
        let points: usize = groups.iter().map(|group| group.points.len()).sum();
        let noted = usize::from(self.args.timeline.is_some());
        let progress = Progress::new((points * (rounds + noted)) as u64);
        let (mut failed, mut measured) = (0, 0);
        let mut checks = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            let mut runs = GroupRuns::new(group);
            let failures = self.measure_group(&mut runs, group, &progress)?;
            failed += failures.len();
            let failed_here = |point: &Point| failures.iter().any(|f| f.point == point.to_string());
            runs.points.retain(|runs| !runs.samples.is_empty() && !failed_here(&runs.point));
            measured += runs.points.len();
            progress.suspend(|| {
                if number == 0 {
                    sink.csv(&record::csv_header())?;
                }
                self.report(&runs, &failures, sink)
            })?;
            checks.extend(check::of(&runs));
            if interrupt::seen() {
                break;
            }
        }
        progress.finish();
        interrupt::tell(measured > 0);
        let judge = self.args.check && !interrupt::seen();
        let met = !judge || check::tell(&checks, sink)?;
        Ok(met && failed == 0)
    }

    /// Measures all rounds of one group. A point that fails is dropped.
    fn measure_group(
        &self,
        runs: &mut GroupRuns,
        group: &Group,
        progress: &Progress,
    ) -> Result<Vec<Failure>> {
        let mut failures: Vec<Failure> = Vec::new();
        for round in 0..self.args.rounds() {
            for index in shuffled(group.points.len(), self.args.seed, round) {
                let point = &group.points[index];
                let name = point.to_string();
                progress.say(&format!("{}: {name}", group.profile.name));
                if failures.iter().all(|failure| failure.point != name) {
                    match self.sample(&self.config(point), point, &group.profile)? {
                        Ok(sample) if !interrupt::seen() => runs.points[index].samples.push(sample),
                        // A run that was cut short is not a measurement.
                        Ok(_) => {}
                        Err(failure) => failures.push(failure),
                    }
                }
                if interrupt::seen() {
                    return Ok(failures);
                }
                progress.step();
            }
        }
        self.note_group(runs, group, &mut failures, progress)?;
        Ok(failures)
    }

    /// Runs each point once more for its timeline, if one was requested. Its other results are
    /// dropped, because recording takes time.
    fn note_group(
        &self,
        runs: &mut GroupRuns,
        group: &Group,
        failures: &mut Vec<Failure>,
        progress: &Progress,
    ) -> Result<()> {
        let Some(span) = self.args.timeline else { return Ok(()) };
        for (point, runs) in group.points.iter().zip(&mut runs.points) {
            let name = point.to_string();
            progress.say(&format!("{}: {name}, timeline", group.profile.name));
            let timeline = Some(Duration::from_nanos(span.0));
            let config = Config { timeline, ..self.config(point) };
            if failures.iter().all(|failure| failure.point != name) {
                match self.sample(&config, point, &group.profile)? {
                    Ok(sample) => runs.noted = Some(sample.record),
                    Err(failure) => failures.push(failure),
                }
            }
            if interrupt::seen() {
                runs.noted = None;
                return Ok(());
            }
            progress.step();
        }
        Ok(())
    }

    /// Runs one point once. A guest's own fault is a failure of the point; any other error ends the
    /// command.
    fn sample(
        &self,
        config: &Config<'_>,
        point: &Point,
        profile: &Profile,
    ) -> Result<Result<Sample, Failure>> {
        let before = self.is_real.then(CpuTimes::now);
        let ran = (self.run)(config, profile, point.lock.built);
        Ok(match ran.with_context(|| point.to_string())? {
            Ok(record) => {
                let during = before.map(|before| CpuTimes::now().since(before));
                let machine_steal = during.map_or(0.0, |times| times.steal_share());
                Ok(Sample { record, machine_steal })
            }
            Err(said) => {
                let point = point.to_string();
                let sentence = format!("{point}: {said}");
                Err(Failure { kind: "failure", point, sentence })
            }
        })
    }

    /// Prints a group's records and tables.
    fn report(&self, group: &GroupRuns, failures: &[Failure], sink: &mut Sink) -> Result<()> {
        let mut published = Vec::new();
        for runs in &group.points {
            let record = record::LabRecord::new(group, runs, self.args);
            sink.record(&record)?;
            sink.csv(&record.csv())?;
            if let Some(timeline) = TimelineRecord::new(group, runs) {
                sink.record(&timeline)?;
            }
            let ours = serde_json::to_value(&record)?;
            for figure in self.published.iter().filter(|figure| record::is_of(figure, &runs.point))
            {
                published.push(record::Beside::new(figure, &ours));
            }
        }
        let tables = tables::all(group);
        if !tables.is_empty() {
            sink.people(&tables)?;
        }
        for beside in &published {
            sink.record(beside)?;
            sink.people(&beside.to_string())?;
        }
        if self.args.explain {
            sink.people(&explain::text(group))?;
        }
        if let Some(what_if) = &self.what_if {
            what_if.tell(group, sink)?;
        }
        for failure in failures {
            sink.record(failure)?;
            output::complain(&format!("failed: {}", failure.sentence));
        }
        let steals = group.points.iter().map(|runs| (runs.machine_steal(), &runs.point));
        if let Some((share, point)) = steals.max_by(|a, b| a.0.total_cmp(&b.0))
            && let Some(warning) = Warning::steal(share, point)
        {
            warning.print();
        }
        let spreads = group.points.iter().filter_map(|runs| {
            let ratio = runs.over(group.at_1x(&runs.point)?, results::ops_per_s)?;
            Some((ratio.spread(), format!("{}: {}", group.profile.name, runs.point)))
        });
        if let Some(warning) = Warning::widest(spreads) {
            warning.print();
        }
        Ok(())
    }
}

/// Returns the requested engine, if it is available.
pub(crate) fn engine(choice: EngineChoice) -> Result<Run<'static>> {
    let kvm = KvmEngine::availability();
    match (choice, kvm) {
        (EngineChoice::Kvm | EngineChoice::Auto, Ok(())) => Ok(Box::new(on::<KvmEngine>)),
        (EngineChoice::Kvm, Err(error)) => {
            bail!("{error}; or use threads as vCPUs: --engine threads")
        }
        (EngineChoice::Auto, Err(error)) => {
            output::complain(&format!("note: {error}; threads serve as vCPUs instead"));
            ThreadsEngine::availability()?;
            Ok(Box::new(on::<ThreadsEngine>))
        }
        (EngineChoice::Threads, _) => {
            ThreadsEngine::availability()?;
            Ok(Box::new(on::<ThreadsEngine>))
        }
    }
}

/// Runs a workload on an engine of the laboratory. A guest's own fault is a failure of the point;
/// any other error ends the command.
fn on<E: overlock_lab::Engine>(config: &Config<'_>, profile: &Profile, lock: &str) -> Result<Ran> {
    match run::<E>(config, profile, lock) {
        Ok(record) => Ok(Ok(record.map_yields(|yields| Codes::of(&yields)))),
        Err(error @ (Error::Fault { .. } | Error::Panicked { .. } | Error::Runaway { .. })) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns for each engine, for `doctor`, whether it is available, and if not, why.
pub(crate) fn engines() -> [(&'static str, Result<(), String>); 2] {
    let said = |available: Result<(), Error>| available.map_err(|error| error.to_string());
    [
        ("/dev/kvm", said(KvmEngine::availability())),
        ("threads for `lab`", said(ThreadsEngine::availability())),
    ]
}
