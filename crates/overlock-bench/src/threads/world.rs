//! The threads of this machine as a world.

use crate::clock::Stamps;
use crate::threads::RunError;
use crate::threads::isolated::{self, RunEnd};
use crate::threads::neighbours::Neighbours;
use crate::threads::run::RunSpec;
use crate::threads::sample::spacing;
use crate::threads::steps::Mix;
use crate::threads::subjects::{self, Entry, FLOOR};
use crate::threads::work::Work;
use crate::{Failed, Job, World};
use overlock_programs::allowed_cpus;
use overlock_results::locks::Lock;
use overlock_results::{NO_POLICY, PmTimerRule, Run, Spent, Task};
use std::sync::atomic::AtomicBool;

/// How long a floor is timed: thousands of the longest operations.
const FLOOR_SECONDS: f64 = 0.02;

#[derive(Clone, Copy, Debug)]
pub struct Threads {
    clock: Stamps,
    work: Work,
}

impl Threads {
    /// Measures the machine's clock and the speed of its work.
    pub fn calibrate() -> Self {
        let clock = Stamps::calibrate();
        Self { clock, work: Work::calibrate(&clock) }
    }

    fn spec(&self, job: &Job) -> RunSpec {
        let lengths = job.shape.lengths;
        let own = [job.profile.section_ns, job.profile.think_ns];
        let phases: Vec<[u64; 2]> = std::iter::once(own).chain(job.shape.then_ns).collect();
        let mix = |[section_ns, think_ns]: &[u64; 2]| Mix {
            cs_links: self.work.links(*section_ns),
            ncs_links: self.work.links(*think_ns),
            lengths,
            cells: u32::try_from(job.profile.locks).unwrap_or(u32::MAX),
            read_percent: if job.shape.task.waits() { 50 } else { job.shape.task.read_share() },
        };
        let shortest = phases.iter().map(|[section_ns, think_ns]| section_ns + think_ns).min();
        RunSpec {
            lock: job.lock.clone(),
            threads: job.cpus as usize,
            task: job.shape.task,
            mixes: phases.iter().map(mix).collect(),
            uneven: job.shape.uneven,
            links_per_ns: self.work.per_ns,
            logged: false,
            seed: job.seed,
            spacing: spacing(shortest.unwrap_or(0)),
            seconds: job.host.seconds,
            counted: job.counted,
            clock: self.clock,
        }
    }

    fn sample(&self, spec: RunSpec, cancel: &AtomicBool) -> Result<Run, Failed> {
        match isolated::run(spec, cancel)? {
            RunEnd::Well(sample) if sample.lost == 0 => Ok(sample),
            RunEnd::Well(sample) => {
                let lost = sample.lost;
                let times = if lost == 1 { "an update" } else { "updates" };
                Err(Failed::Subject(format!(
                    "lost {times} ({lost}): two threads were in the critical section at once"
                )))
            }
            RunEnd::Badly(how) => Err(Failed::Subject(how)),
            RunEnd::Interrupted => Err(Failed::Cancelled),
        }
    }
}

impl From<RunError> for Failed {
    fn from(error: RunError) -> Self {
        Self::World(error.to_string())
    }
}

impl World for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn about(&self) -> String {
        "threads of this machine".into()
    }

    fn is_real(&self) -> bool {
        true
    }

    fn pcpus(&self) -> u32 {
        allowed_cpus()
    }

    fn locks(&self) -> Vec<Lock> {
        subjects::offered().filter_map(|entry| Lock::named(entry.name)).collect()
    }

    fn drift(&self) -> Option<f64> {
        Some(self.work.drift(Work::calibrate(&self.clock)))
    }

    fn check(&self, job: &Job) -> Result<(), overlock_results::Error> {
        let refuse = |what: String| Err(overlock_results::Error(what));
        let (lock, profile) = (&job.lock, &job.profile);
        let Some(entry) = subjects::find(lock) else {
            return refuse(format!("{lock} exists for virtual CPUs only: bench --in kvm or sim"));
        };
        let task = job.shape.task;
        if task.waits() && entry.run_waits.is_none() {
            let has = subjects::offered().filter(|entry| entry.run_waits.is_some());
            let has: Vec<&str> = has.map(|entry| entry.name).collect();
            let has = has.join(", ");
            return refuse(format!(
                "{lock} has no condition variables, which {task} needs; {has} do"
            ));
        }
        if task.waits() && profile.locks > 1 {
            return refuse(format!("{task} has a lock for each group of threads, not several"));
        }
        if job.policy != NO_POLICY || job.timer != PmTimerRule::LockFree {
            return refuse("threads have no yield policy and no PM timer: --in kvm has".into());
        }
        let is_micro = profile.sections == 1
            && (profile.timer_reads, profile.sleep_every, profile.shootdown_every) == (0, 0, 0);
        if !is_micro {
            let name = &profile.name;
            return refuse(format!("threads can't do the workload {name}; micro they can"));
        }
        Ok(())
    }

    fn run(&self, job: &Job, cancel: &AtomicBool) -> Result<Run, Failed> {
        let neighbours = Neighbours::start(job.shape.beside)?;
        let sample = self.sample(self.spec(job), cancel)?;
        let share = neighbours.share();
        let mut spent = None;
        // A log tells which thread held the lock: with readers, or waits for a condition, none or
        // several do.
        if job.logged && job.shape.task == Task::default() {
            let logged = self.sample(RunSpec { logged: true, ..self.spec(job) }, cancel)?;
            // A run in which no thread took the lock has no speed to compare with.
            let of = logged.spent.filter(|_| sample.ops_per_s > 0.0);
            spent = of.map(|of| Spent { speed: logged.ops_per_s / sample.ops_per_s, ..of });
        }
        let mut run = Run { spent, neighbours: share, ..sample };
        if let Some(share) = share {
            // What the neighbours took is no disturbance.
            let cpus = f64::from(job.shape.beside.min(self.pcpus()));
            let took = share * cpus / f64::from(self.pcpus());
            run.disturbance = (run.disturbance - took).max(0.0);
        }
        Ok(run)
    }

    fn pairs(
        &self,
        locks: &[&str],
        samples: usize,
        cancel: &AtomicBool,
    ) -> Result<Option<Vec<Vec<f64>>>, Failed> {
        let entries: Vec<&Entry> = locks.iter().filter_map(|lock| subjects::find(lock)).collect();
        match isolated::pairs(&entries, samples, self.clock, cancel)? {
            RunEnd::Well(samples) => Ok(Some(samples)),
            RunEnd::Badly(how) => Err(Failed::Subject(how)),
            RunEnd::Interrupted => Err(Failed::Cancelled),
        }
    }

    fn floor(&self, job: &Job) -> Option<Job> {
        let mut alone = Job { lock: FLOOR.into(), cpus: 1, logged: false, ..job.clone() };
        (alone.shape.uneven, alone.shape.beside, alone.host.seconds) = (1, 0, FLOOR_SECONDS);
        alone.shape.task = Task::default();
        Some(alone)
    }
}
