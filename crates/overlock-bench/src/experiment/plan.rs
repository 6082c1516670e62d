//! From an experiment to jobs: every combination of its factors, in the world that is to run it.

use super::{Experiment, random};
use crate::workload::Profile;
use crate::{Failed, Job, Shape, VCPUS_MAX};
use crate::{World, experiment::NamedPoint};
use overlock_results::locks::HAND_OVER;
use overlock_results::locks::Lock;
use overlock_results::stats::unique;
use overlock_results::{Error, Lengths, NO_POLICY, PmTimerRule, Task};

/// Groups of jobs. Those of a group share a workload, and take turns.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub groups: Vec<Vec<Job>>,
    pub rounds: u16,
}

impl Plan {
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.groups.iter().flatten()
    }

    pub fn extend(&mut self, other: Self) {
        self.groups.extend(other.groups);
        self.rounds = self.rounds.max(other.rounds);
    }
}

/// The job that measures how many hand-overs per second there can be.
fn limit(experiment: &Experiment, profile: &Profile) -> Job {
    Job::new(profile.clone(), HAND_OVER, 2 * experiment.host.pcpus, experiment.host.clone())
}

impl Experiment {
    /// Makes the jobs of all points, and checks each. `measure` runs a job at once, where the
    /// lengths of others depend on its operations per second.
    pub fn plan(
        &self,
        world: &dyn World,
        seed: u64,
        mut measure: impl FnMut(&Job) -> Result<f64, Failed>,
    ) -> Result<Plan, Failed> {
        let profile = self.profile()?;
        let mut groups = Vec::new();
        for (profile, shape, cpus) in self.draws(&profile, world, seed)? {
            // Threads are compared with as many threads only, and each point is told at once.
            let all = if world.takers().has_host() {
                vec![cpus]
            } else {
                cpus.into_iter().map(|n| vec![n]).collect()
            };
            for cpus in all {
                let locks = self.locks(world, shape.task)?;
                groups.push(self.group(&locks, (profile.clone(), shape, None), &cpus));
            }
        }
        let mut limits = Vec::new();
        if !self.factors.contention.is_empty() {
            for section_ns in or(&self.factors.section_ns, profile.section_ns) {
                let profile = Profile { section_ns, ..profile.clone() };
                limits.push((measure(&limit(self, &profile))?, profile));
            }
        }
        let locks = self.locks(world, Task::default())?;
        for &share in &self.factors.contention {
            for (hand_overs, profile) in &limits {
                let profile = self.contended(profile.clone(), share, *hand_overs);
                let given = (profile, Shape::default(), Some(share));
                groups.push(self.group(&locks, given, &self.cpus()?));
            }
        }
        for job in groups.iter().flatten() {
            job.profile.check()?;
            world.check(job)?;
        }
        Ok(Plan { groups, rounds: self.host.runs })
    }

    /// The locks that are asked for, where the groups among them mean those that suit `task`.
    fn locks(&self, world: &dyn World, task: Task) -> Result<Vec<Lock>, Error> {
        let known = world.locks().into_iter().filter(|lock| lock.suits(task));
        Lock::choose(&self.factors.locks, &known.collect::<Vec<_>>())
    }

    /// The workloads of all groups but those that depend on a measurement, each with its numbers of
    /// CPUs.
    fn draws(
        &self,
        profile: &Profile,
        world: &dyn World,
        seed: u64,
    ) -> Result<Vec<(Profile, Shape, Vec<u32>)>, Error> {
        let factors = &self.factors;
        let lengths = match (world.takers().has_host(), &factors.lengths[..]) {
            (true, _) => vec![Lengths::Fixed],
            (false, []) if factors.random.is_some() => Lengths::ALL.to_vec(),
            (false, []) => vec![Lengths::Exp],
            (false, given) => unique(given.iter().copied()),
        };
        let plain = Shape { lengths: lengths[0], ..Shape::default() };
        let mut all = Vec::new();
        for place in &self.points {
            let NamedPoint { section_ns, think_ns, .. } = *place;
            let cpus = place.cpus.or_else(|| Some(self.times(place.over?))).unwrap_or(1);
            all.push((Profile { section_ns, think_ns, ..profile.clone() }, plain, vec![cpus]));
        }
        let drawn = factors
            .random
            .map_or_else(Vec::new, |count| random::points(count, seed, &lengths, factors.wide));
        for random::Point { cpus, section_ns, think_ns, locks, shape } in drawn {
            let locks = if locks > 1 { locks as usize } else { profile.locks };
            let profile = Profile { section_ns, think_ns, locks, ..profile.clone() };
            all.push((profile, shape, vec![cpus]));
        }
        let has_lists = !(factors.cpus.is_empty() && factors.over.is_empty());
        if has_lists && factors.contention.is_empty() {
            let cpus = self.cpus()?;
            for lengths in lengths {
                for section_ns in or(&factors.section_ns, profile.section_ns) {
                    for think_ns in or(&factors.think_ns, profile.think_ns) {
                        let profile = Profile { section_ns, think_ns, ..profile.clone() };
                        all.push((profile, Shape { lengths, ..plain }, cpus.clone()));
                    }
                }
            }
        }
        for (profile, shape, _) in &mut all {
            profile.locks = factors.locks_count.map_or(profile.locks, |locks| locks as usize);
            shape.then_ns = factors.then_ns.or(shape.then_ns);
            shape.uneven = factors.uneven.unwrap_or(shape.uneven);
        }
        let tasks = match &factors.tasks[..] {
            [] => vec![Task::default()],
            given => unique(given.iter().copied()),
        };
        let besides = match &factors.beside[..] {
            [] => vec![0],
            given => unique(given.iter().copied()),
        };
        let settings = tasks.into_iter().flat_map(|task| besides.iter().map(move |of| (task, *of)));
        let with = |(task, beside)| {
            let all = all.iter().cloned();
            all.map(move |(profile, shape, cpus)| (profile, Shape { task, beside, ..shape }, cpus))
        };
        Ok(settings.flat_map(with).collect())
    }

    fn times(&self, over: f64) -> u32 {
        (over * f64::from(self.host.pcpus)).round() as u32
    }

    fn cpus(&self) -> Result<Vec<u32>, Error> {
        let over = self.factors.over.iter().map(|over| self.times(*over));
        let mut cpus = unique(self.factors.cpus.iter().copied().chain(over));
        cpus.sort_unstable();
        match cpus.iter().find(|cpus| !(1..=VCPUS_MAX).contains(*cpus)) {
            Some(odd) => Err(Error(format!("{odd} CPUs asked for; choose 1 to {VCPUS_MAX}"))),
            None => Ok(cpus),
        }
    }

    /// All jobs of one workload; the factors that can't matter to it are left out.
    fn group(
        &self,
        locks: &[Lock],
        (profile, shape, contention): (Profile, Shape, Option<f64>),
        cpus: &[u32],
    ) -> Vec<Job> {
        let (no_lock, no_policy) = (vec![Lock::none()], vec![NO_POLICY.to_owned()]);
        let given = &self.factors.policies;
        let (locks, policies) = match profile.sections {
            0 => (&no_lock[..], &no_policy),
            _ => (locks, if given.is_empty() { &no_policy } else { given }),
        };
        let lock_free = vec![PmTimerRule::LockFree];
        let reads = profile.timer_reads > 0 && !self.factors.timers.is_empty();
        let timers = if reads { &self.factors.timers } else { &lock_free };
        let mut jobs = Vec::new();
        for lock in locks {
            for policy in policies {
                for &timer in timers {
                    jobs.extend(cpus.iter().map(|&cpus| Job {
                        shape,
                        contention,
                        policy: policy.clone(),
                        timer,
                        ..Job::new(profile.clone(), &lock.name, cpus, self.host.clone())
                    }));
                }
            }
        }
        jobs
    }

    /// The workload in which the vCPUs demand this share of `hand_overs` per second.
    fn contended(&self, profile: Profile, share: f64, hand_overs: f64) -> Profile {
        let sections = f64::from(profile.sections);
        // Operations per second that demand that share of what each lock can do.
        let operations = share * hand_overs.max(1.0) * profile.locks as f64 / sections.max(1.0);
        let period = f64::from(self.host.pcpus) / operations * 1e9;
        let think = period - sections * profile.section_ns as f64;
        // Rounded to the microsecond, because the limit is known no better.
        Profile { think_ns: (think.max(0.0) / 1e3).round() as u64 * 1000, ..profile }
    }
}

fn or(given: &[u64], own: u64) -> Vec<u64> {
    if given.is_empty() { vec![own] } else { unique(given.iter().copied()) }
}
