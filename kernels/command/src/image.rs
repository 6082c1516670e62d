//! A kernel with the locks in it as a world: on a bare machine, under KVM, and under Xen.
//!
//! The kernel measures. All rounds of all locks run in one boot, in turns, so their runs are made
//! in advance.

mod cpio;
mod guest;
mod linux;
mod machine;
mod patience;
mod said;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result, bail};
use guest::{EmulatorFault, Ended};
pub use machine::missing;
use machine::{Machine, PCPUS};
use overlock_bench::{Failed, Heard, Job, Tell, World};
use overlock_cli::Note;
use overlock_results::locks::{LOCKS, Lock};
use overlock_results::stats::{Spread, jain, unique};
use overlock_results::{Error, NO_POLICY, PmTimerRule, Run};
use said::{Said, Sample};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Time without a word from the kernel until it counts as hung, beyond that of a run.
const PATIENCE: Duration = Duration::from_secs(60);

/// A kernel image with the locks in it, on an emulated machine: a world that can check itself.
#[derive(Debug)]
pub struct Image {
    name: &'static str,
    path: PathBuf,
    note: Note,
    /// Runs of a lock on a number of CPUs at two lengths, by rounds; and how many were asked for.
    made: RefCell<BTreeMap<Key, (Vec<Run>, usize)>>,
    /// Why the kernel made no more.
    gave_up: RefCell<Option<String>>,
    /// The last of its records that could not be read.
    garbled: RefCell<Option<String>>,
}

/// What the kernel is told of a job: lock, CPUs, lengths of sections and of pauses.
type Key = (String, u32, u64, u64);

fn key(job: &Job) -> Key {
    (job.lock.clone(), job.cpus, job.profile.section_ns, job.profile.think_ns)
}

impl Image {
    /// Opens the world of this name, and builds the image for it.
    pub fn new(name: &str, note: Note) -> Result<Self> {
        let name = ["tcg", "kvm-guest", "xen"].into_iter().find(|known| *known == name);
        let Some(name) = name else { bail!("no kernel runs there") };
        // Before an image is built.
        machine::look_for(name)?;
        let path = machine::image(name)?.context("interrupted while the kernel was built")?;
        let (made, gave_up) = (RefCell::default(), RefCell::default());
        Ok(Self { name, path, note, made, gave_up, garbled: RefCell::default() })
    }

    fn start(&self, smp: u32, plan: &str) -> Result<Machine> {
        Machine::new(self.name, smp, &self.path, plan, &[])
    }

    /// Runs the checks in the kernel: the platform contract, conformance and locks in interrupts,
    /// of the paravirtual locks.
    fn checks(&self, cpus: &[u32], hear: &mut dyn FnMut(Heard<'_>) -> bool) -> Result<bool> {
        let default = if self.name == "xen" { vec![8] } else { vec![1, 2, 4] };
        let cpus = if cpus.is_empty() { default } else { cpus.to_vec() };
        // Native locks need a time slice for each change of hands where there are more CPUs than
        // processors.
        let plan = format!(
            "do=contract:conformance:nesting cpus={} ms=500 runs=3 cs=0 ncs=0 seed=1 nopvspin=0 \
             locks=test-and-set:ticket:queued:hybrid ops=4000 ticks=20",
            joined(cpus.iter().map(ToString::to_string))
        );
        let machine = self.start(cpus.iter().copied().max().unwrap_or(1), &plan)?;
        let mut is_fine = true;
        let mut tell = |heard: Heard<'_>| if hear(heard) { Ok(()) } else { bail!("not heard") };
        tell(Heard::Progress("starts"))?;
        let ended = guest::run(machine, PATIENCE, |said| match said {
            Said::Begin { what } => tell(Heard::Progress(&what)),
            Said::Alive { ops } => tell(Heard::Progress(&format!("{ops} acquisitions so far"))),
            Said::Check(check) => {
                is_fine &= check.fine;
                tell(Heard::Check(&check))
            }
            Said::Garbled(line) => bail!("the kernel's line can't be read: {line}"),
            _ => Ok(()),
        });
        Ok(is_fine && !matches!(ended?, Ended::Whole { fine: false }))
    }

    /// Boots once for all jobs with these lengths.
    fn boot(&self, jobs: &[&Job], rounds: u64, tell: Tell<'_>) -> Result<Ended> {
        let first = jobs[0];
        let cpus = unique(jobs.iter().map(|job| job.cpus));
        let locks = unique(jobs.iter().map(|job| job.lock.clone()));
        let ms = (first.host.seconds * 1e3).round().max(1.0);
        let smp = cpus.iter().copied().max().unwrap_or(1);
        let plan = format!(
            "do=micro cpus={} ms={ms} runs={rounds} cs={} ncs={} seed={} nopvspin=0 locks={} ops=0",
            joined(cpus.iter().map(ToString::to_string)),
            first.profile.section_ns,
            first.profile.think_ns,
            first.seed,
            joined(locks),
        );
        self.hear(self.start(smp, &plan)?, first, tell)
    }

    /// Runs a machine to its end, and keeps the runs that it makes.
    fn hear(&self, machine: Machine, first: &Job, tell: Tell<'_>) -> Result<Ended> {
        let under = machine.under.clone();
        let patience = PATIENCE + Duration::from_secs_f64(first.host.seconds);
        tell("the kernel starts", 0);
        let mut last: Option<Key> = None;
        guest::run(machine, patience, |said| {
            match said {
                Said::Started { cpus } => tell(&format!("{cpus} CPUs are up"), 0),
                Said::Mode { locks, why } if !why.is_empty() => {
                    (self.note)(&format!("note: locks {locks}: {why}"));
                }
                Said::Begin { what } => tell(&what, 0),
                Said::Alive { ops } => tell(&format!("{ops} acquisitions so far"), 0),
                Said::Sample(sample) => {
                    tell(&format!("{} on {} CPUs", sample.lock, sample.cpus), 1);
                    let key = (
                        sample.lock.clone(),
                        sample.cpus,
                        first.profile.section_ns,
                        first.profile.think_ns,
                    );
                    let run = Run { under: under.clone(), ..run_of(sample) };
                    self.made.borrow_mut().entry(key.clone()).or_default().0.push(run);
                    last = Some(key);
                }
                Said::Host { counters } => {
                    let mut made = self.made.borrow_mut();
                    let runs = last.as_ref().and_then(|key| made.get_mut(key));
                    if let Some(run) = runs.and_then(|(runs, _)| runs.last_mut()) {
                        run.counters.extend(counters.into_iter().map(|(name, n)| (name.into(), n)));
                    }
                }
                // Its run is missing, and what KVM counted during it belongs to no other.
                Said::Garbled(line) => {
                    self.garbled.replace(Some(line));
                    last = None;
                }
                _ => {}
            }
            Ok(())
        })
    }
}

fn joined(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(":")
}

fn run_of(sample: Sample) -> Run {
    let seconds = sample.ns as f64 / 1e9;
    Run {
        seconds,
        ops_per_s: sample.ops.iter().sum::<u64>() as f64 / seconds.max(1e-9),
        ops_per_cpu: Spread::of(&sample.ops),
        jain: jain(&sample.ops),
        ops: sample.ops,
        wait_ns: sample.wait_ns,
        longest_stall_ns: Some(sample.wait_ns.max),
        steal_s_per_s: sample.stolen_ns as f64 / sample.ns.max(1) as f64,
        counters: sample.counters.into_iter().map(|(name, n)| (name.into(), n)).collect(),
        lost: sample.lost,
        ..Run::default()
    }
}

/// Kicks that arrived during a run, and that no CPU had sent in it. The kernel begins a run when no
/// kick is under way.
fn unsent(run: &Run) -> u64 {
    let [kicked, stale, kicks] = ["kicked", "stale", "kicks"].map(|event| run.counted(event));
    (kicked + stale).saturating_sub(kicks)
}

impl World for Image {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> String {
        match self.name {
            "xen" => "a kernel as a guest of Xen",
            "kvm-guest" => "a kernel as a guest of KVM",
            _ => "a kernel on an emulated machine",
        }
        .into()
    }

    fn is_real(&self) -> bool {
        true
    }

    fn pcpus(&self) -> u32 {
        match self.name {
            "xen" | "kvm-guest" => PCPUS,
            _ => std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        }
    }

    fn locks(&self) -> Vec<Lock> {
        LOCKS.iter().filter_map(|name| Lock::named(name)).collect()
    }

    fn check(&self, job: &Job) -> Result<(), Error> {
        let refuse = |what: String| Err(Error(what));
        if !LOCKS.contains(&&*job.lock) {
            return refuse(format!(
                "no lock in the kernel is called {}; choose from {}",
                job.lock,
                LOCKS.join(", ")
            ));
        }
        if job.cpus > 32 {
            return refuse(format!("the kernel has up to 32 CPUs, not {}", job.cpus));
        }
        if job.policy != NO_POLICY || job.timer != PmTimerRule::LockFree {
            return refuse(
                "the kernel's host is not ours: it has no yield policy to choose".into(),
            );
        }
        if job.profile.name != "micro" {
            return refuse(format!("the kernel can't do the workload {}", job.profile.name));
        }
        Ok(())
    }

    fn verify(
        &self,
        cpus: &[u32],
        hear: &mut dyn FnMut(Heard<'_>) -> bool,
    ) -> Option<Result<bool, Failed>> {
        let checked = self.checks(cpus, hear);
        Some(checked.map_err(|error| Failed::World(format!("{error:#}"))))
    }

    fn ahead(&self, jobs: &[Job], _cancel: &AtomicBool, tell: Tell<'_>) -> Result<bool, Failed> {
        // A boot has one pair of lengths.
        let boot = |job: &Job| (job.profile.section_ns, job.profile.think_ns);
        for of in unique(jobs.iter().map(boot)) {
            let own: Vec<&Job> = jobs.iter().filter(|job| boot(job) == of).collect();
            let points = unique(own.iter().map(|job| key(job))).len().max(1);
            let rounds = (own.len() / points) as u64;
            let mut booted = self.boot(&own, rounds, tell);
            if let Err(error) = &booted
                && error.is::<EmulatorFault>()
            {
                (self.note)(&format!("note: {error}\nnote: the machine starts once more"));
                own.iter().for_each(|job| drop(self.made.borrow_mut().remove(&key(job))));
                booted = self.boot(&own, rounds, tell);
            }
            match booted {
                Ok(Ended::Whole { .. }) => {}
                // What was made is kept.
                Ok(Ended::Interrupted) => break,
                Err(error) => {
                    let said = format!("{error:#}");
                    if self.made.borrow().is_empty() {
                        return Err(Failed::World(said));
                    }
                    self.gave_up.replace(Some(said));
                    break;
                }
            }
        }
        Ok(true)
    }

    fn run(&self, job: &Job, cancel: &AtomicBool) -> Result<Run, Failed> {
        let mut made = self.made.borrow_mut();
        let (runs, asked) = made.entry(key(job)).or_default();
        let run = runs.get(*asked).cloned();
        *asked += 1;
        let Some(run) = run else {
            return Err(match self.gave_up.borrow().clone() {
                Some(said) => Failed::World(said),
                None if cancel.load(Relaxed) => Failed::Cancelled,
                None => Failed::Subject(match self.garbled.borrow().as_deref() {
                    Some(line) => format!("the kernel's report can't be read: {line}"),
                    None => "the kernel did not report this run".into(),
                }),
            });
        };
        if run.lost > 0 {
            return Err(Failed::Subject(format!("it lost {} updates", run.lost)));
        }
        let unsent = unsent(&run);
        if unsent > 0 {
            return Err(Failed::Subject(format!("{unsent} kicks arrived that no CPU had sent")));
        }
        Ok(run)
    }
}
