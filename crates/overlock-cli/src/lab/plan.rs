// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan: groups of points that take turns.

use super::args::MeasureArgs;
use crate::args::unique;
use crate::units::{Nanos, three};
use anyhow::{Context, Result, anyhow, bail};
use overlock_lab::POLICIES;
use overlock_world::experiment::Experiment;
use overlock_world::locks::{Build, HAND_OVER, Lock};
use overlock_world::workload::Profile;
use overlock_world::{Document, PmTimerRule, VCPUS_MAX};
use std::path::Path;

/// The yield policy under which vCPUs report no spin to the host.
pub(super) const NO_POLICY: &str = "none";
/// The policy under which vCPUs report all spins, as under any other, and the host never yields:
/// the others are compared with it.
pub(super) const REPORT: &str = "report";
/// Policies that tables and bounds name.
pub(super) const ROUND_ROBIN: &str = "round-robin";
pub(super) const SKIP_SPINNERS: &str = "skip-spinners";
pub(super) const PV_HINT: &str = "pv-hint";
pub(super) const ORACLE: &str = "oracle";

/// The rule for workloads to which it does not matter.
const LOCK_FREE: [PmTimerRule; 1] = [PmTimerRule::LockFree];

/// The locks of the tour: the base of comparison for each paravirtual mechanism, and the mechanism
/// itself.
const TOUR_LOCKS: [&str; 8] = [
    "native-ticket",
    "ticket",
    "ticket-off",
    "queued",
    "native-hybrid",
    "hybrid",
    "hybrid-off",
    HAND_OVER,
];
/// Those of them that halt, for the part of the tour that is less than fully contended.
const TOUR_WAITERS: [&str; 3] = ["ticket", "queued", "hybrid"];
const TOUR_POLICIES: [&str; 6] = [NO_POLICY, REPORT, ROUND_ROBIN, SKIP_SPINNERS, PV_HINT, ORACLE];

/// One combination of factors, within a [`Group`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) lock: Lock,
    pub(super) policy: String,
    /// The rule for sharing the PM timer; it matters only to workloads that read it.
    pub(super) timer: PmTimerRule,
    pub(super) cpus: u32,
    pub(super) pcpus: u32,
}

impl Point {
    /// Formats the number of vCPUs for each pCPU.
    pub(super) fn overcommit(&self) -> String {
        format!("{}x", three(f64::from(self.cpus) / f64::from(self.pcpus)))
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Point { lock, policy, timer, cpus, pcpus } = self;
        if *lock == Lock::none() {
            write!(f, "timer {}, ", timer.name())?;
        } else {
            write!(f, "{}, ", lock.name)?;
        }
        if policy != NO_POLICY {
            write!(f, "{policy}, ")?;
        }
        let plural = |n: &u32| if *n == 1 { "" } else { "s" };
        write!(f, "{cpus} vCPU{} on {pcpus} pCPU{}", plural(cpus), plural(pcpus))
    }
}

/// Points that share a workload, and take turns.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) profile: Profile,
    /// The requested share of the hand-over limit, if that chose the work between critical
    /// sections.
    pub(super) contention: Option<f64>,
    pub(super) points: Vec<Point>,
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Profile { name, section_ns, think_ns, .. } = &self.profile;
        write!(f, "{name}, cs {}, ncs {}", Nanos(*section_ns), Nanos(*think_ns))?;
        let contention = self.contention.map(|share| three(100.0 * share));
        contention.map_or(Ok(()), |percent| write!(f, " (contention {percent} %)"))
    }
}

/// Lists that multiply, within one group.
#[derive(Clone, Debug)]
struct Factors {
    locks: Vec<Lock>,
    policies: Vec<String>,
    timers: Vec<PmTimerRule>,
    cpus: Vec<u32>,
    pcpus: u32,
}

impl Factors {
    /// Makes the group of a workload; leaves out the factors that can't matter to it.
    fn group(&self, profile: Profile) -> Group {
        let (no_lock, no_policy) = (vec![Lock::none()], vec![NO_POLICY.to_owned()]);
        let (locks, policies) = match profile.sections {
            0 => (&no_lock, &no_policy),
            _ => (&self.locks, &self.policies),
        };
        let timers = if profile.timer_reads == 0 { &LOCK_FREE[..] } else { &self.timers };
        let mut points = Vec::new();
        for lock in locks {
            for policy in policies {
                for &timer in timers {
                    points.extend(self.cpus.iter().map(|&cpus| Point {
                        lock: lock.clone(),
                        policy: policy.clone(),
                        timer,
                        cpus,
                        pcpus: self.pcpus,
                    }));
                }
            }
        }
        Group { profile, contention: None, points }
    }

    /// Makes the group in which the vCPUs demand this share of `limit` hand-overs per second.
    fn contended(&self, profile: &Profile, share: f64, limit: f64) -> Group {
        let sections = f64::from(profile.sections);
        // Operations per second that demand that share of what each lock can do.
        let operations = share * limit * profile.locks as f64 / sections.max(1.0);
        let period = f64::from(self.pcpus) / operations * 1e9;
        let think = period - sections * profile.section_ns as f64;
        // Rounded to the microsecond, because the limit is known no better.
        let think_ns = (think.max(0.0) / 1e3).round() as u64 * 1000;
        let group = self.group(Profile { think_ns, ..profile.clone() });
        Group { contention: Some(share), ..group }
    }
}

/// Returns the point that measures how many hand-overs per second there can be.
pub(super) fn limit(pcpus: u32) -> Point {
    let (policy, timer) = (NO_POLICY.to_owned(), PmTimerRule::LockFree);
    let lock = Lock { name: HAND_OVER.into(), built: HAND_OVER, paravirtual: true };
    Point { lock, policy, timer, cpus: 2 * pcpus, pcpus }
}

/// Makes the groups that the arguments request. `limit` measures how many hand-overs per second
/// there can be under a workload, if the arguments depend on it.
pub(super) fn groups(
    args: &MeasureArgs,
    pcpus: u32,
    limit: impl Fn(&Profile) -> Result<f64>,
) -> Result<Vec<Group>> {
    let times =
        |by: &[u32]| by.iter().map(|n| n * pcpus).filter(|n| *n <= VCPUS_MAX).collect::<Vec<_>>();
    let none = || vec![NO_POLICY.to_owned()];
    let strings = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let base = Factors {
        locks: locks(&strings(&TOUR_LOCKS))?,
        policies: none(),
        timers: PmTimerRule::ALL.to_vec(),
        cpus: times(&[1, 2, 4, 8]),
        pcpus,
    };
    if args.is_tour() {
        let spinner = locks(&strings(&TOUR_LOCKS[..1]))?;
        let policies = strings(&TOUR_POLICIES);
        let yields = Factors { locks: spinner, policies, cpus: times(&[1, 2, 4]), ..base.clone() };
        let timers = Factors { cpus: times(&[1, 4, 8]), ..base.clone() };
        let half = Factors { locks: locks(&strings(&TOUR_WAITERS))?, ..base.clone() };
        let far = if args.check { &[1, 2, 4, 8, 16][..] } else { &[1, 2, 4, 8] };
        let base = Factors { cpus: times(far), ..base };
        let micro = Profile::named("micro")?;
        return Ok(vec![
            half.contended(&micro, 0.5, limit(&micro)?),
            base.group(micro),
            yields.group(Profile::named("ebizzy")?),
            timers.group(Profile::named("pmtimer")?),
        ]);
    }
    let mut factors = Factors { cpus: times(&[1, 2, 4]), ..base };
    if !args.policies.is_empty() {
        factors.policies = policies(&args.policies)?;
        factors.locks.truncate(1);
    }
    if !args.locks.is_empty() {
        factors.locks = locks(&args.locks)?;
    }
    if !args.cpus.is_empty() {
        factors.cpus = unique([pcpus].into_iter().chain(args.cpus.iter().copied()));
        factors.cpus.sort_unstable();
    }
    if !args.timer.is_empty() {
        factors.timers = unique(args.timer.iter().map(|rule| (*rule).into()));
    }
    let workloads = if args.workload.is_empty() { &strings(&["micro"]) } else { &args.workload };
    let mut groups = Vec::new();
    for name in unique(workloads.iter().cloned()) {
        let profile = profile(&name)?;
        for cs in lengths(&args.cs, profile.section_ns) {
            let profile = Profile { section_ns: cs, ..profile.clone() };
            if !args.contention.is_empty() {
                let limit = limit(&profile)?;
                let group = |&share: &f64| factors.contended(&profile, share, limit);
                groups.extend(args.contention.iter().map(group));
                continue;
            }
            for think_ns in lengths(&args.ncs, profile.think_ns) {
                groups.push(factors.group(Profile { think_ns, ..profile.clone() }));
            }
        }
    }
    Ok(groups)
}

/// Refuses unknown yield policies.
pub(super) fn check_policies(experiment: &Experiment, document: &Document<'_>) -> Result<()> {
    for (at, policy) in experiment.factors.policies.iter().enumerate() {
        if !POLICIES.contains(&policy.as_str()) {
            let known = POLICIES.join(", ");
            let what = format!("no yield policy is called {policy}; choose from {known}");
            return Err(document.refuse(&[&format!("factors.policies.{at}")], what).into());
        }
    }
    Ok(())
}

/// Makes the groups of an experiment: the points of one workload take turns.
pub(super) fn of_experiment(experiment: &Experiment) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for profile in experiment.profiles()? {
        groups.push(Group { profile, contention: None, points: Vec::new() });
    }
    for point in experiment.points() {
        let group = groups.iter_mut().find(|group| group.profile == point.profile);
        group.context("a point of no workload")?.points.push(Point {
            lock: point.lock,
            policy: point.policy,
            timer: point.timer,
            cpus: point.cpus,
            pcpus: experiment.host.pcpus,
        });
    }
    Ok(groups)
}

fn lengths(given: &[Nanos], own: u64) -> Vec<u64> {
    if given.is_empty() { vec![own] } else { unique(given.iter().map(|length| length.0)) }
}

/// Finds a workload by its name, or in a file.
fn profile(name: &str) -> Result<Profile> {
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Profile::named(name)
            .map_err(|error| anyhow!("{error}; or name a file: --workload my.toml"));
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {name}"))?;
    Ok(Profile::parse(name, &text)?)
}

/// Resolves the names of yield policies; `none` and `report` always come first.
fn policies(names: &[String]) -> Result<Vec<String>> {
    let mut chosen = vec![NO_POLICY.to_owned(), REPORT.to_owned()];
    for name in names {
        match name.as_str() {
            "all" => chosen.extend(POLICIES.map(str::to_owned)),
            known if POLICIES.contains(&known) => chosen.push(name.clone()),
            _ => {
                let known = POLICIES.join(", ");
                bail!("no yield policy is called {name}; choose from {known} (or all)");
            }
        }
    }
    Ok(unique(chosen))
}

/// Resolves lock names and the names of groups of them.
fn locks(names: &[String]) -> Result<Vec<Lock>> {
    let mut chosen = Vec::new();
    for name in names {
        let built = |build| Lock::all().filter(move |lock| lock.build() == build);
        match name.as_str() {
            "all" => chosen.extend(Lock::all()),
            "native" => chosen.extend(built(Build::Native)),
            "paravirtual" => chosen.extend(built(Build::Paravirtual)),
            "off" => chosen.extend(built(Build::Off)),
            name => match Lock::named(name) {
                Some(lock) => chosen.push(lock),
                None => {
                    let known = Lock::all().map(|lock| lock.name).chain([HAND_OVER.to_owned()]);
                    let known: Vec<String> = known.collect();
                    let known = known.join(", ");
                    bail!(
                        "there is no lock '{name}'; choose from {known} (or all, native, \
                         paravirtual, off)"
                    );
                }
            },
        }
    }
    Ok(unique(chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_that_are_named_here_exist_and_all_means_all() {
        for name in TOUR_POLICIES {
            assert!(POLICIES.contains(&name), "{name}");
        }
        assert_eq!(policies(&["all".into(), ORACLE.into()]).unwrap(), POLICIES);
        assert_eq!(policies(&[ORACLE.into()]).unwrap(), [NO_POLICY, REPORT, ORACLE]);
    }
}
