// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to be measured: groups of points that take turns.

use super::args::LabArgs;
use crate::args::unique;
use crate::units::{Nanos, three};
use anyhow::{Context, Result, bail};
use overlock_lab::PmTimerRule;
use overlock_lab::workload::{LOCKS, Profile};
use std::path::Path;

/// The yield policy that everything is compared with.
pub(super) const NO_POLICY: &str = "none";

const NATIVE: &str = "native-";
const OFF: &str = "-off";
const ALL_RULES: [PmTimerRule; 3] =
    [PmTimerRule::Mutex, PmTimerRule::Refresh, PmTimerRule::LockFree];

/// The locks of the tour: what each paravirtual mechanism is to be compared with, and itself.
const TOUR_LOCKS: [&str; 7] =
    ["native-ticket", "ticket", "ticket-off", "queued", "native-hybrid", "hybrid", "hybrid-off"];
const TOUR_POLICIES: [&str; 5] = [NO_POLICY, "round-robin", "skip-spinners", "pv-hint", "oracle"];

/// A lock as the guest is built and booted: native, paravirtual, or that switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    /// As typed, and as in the records.
    pub(super) name: String,
    /// As the laboratory calls it.
    pub(super) built: &'static str,
    /// Whether it may wait instead of spin.
    pub(super) paravirtual: bool,
}

/// What a lock is, among those that differ in nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    Native,
    Off,
    Paravirtual,
}

impl Lock {
    fn named(name: &str) -> Option<Self> {
        let find = |name: &str| LOCKS.into_iter().find(|known| *known == name);
        let (built, paravirtual) = match name.strip_suffix(OFF) {
            Some(base) if !base.starts_with(NATIVE) => (find(base)?, false),
            Some(_) => return None,
            None => (find(name)?, !name.starts_with(NATIVE)),
        };
        Some(Lock { name: name.to_owned(), built, paravirtual })
    }

    /// Stands for the lock of a workload that takes none.
    fn none() -> Self {
        Lock { name: "none".into(), built: LOCKS[0], paravirtual: false }
    }

    fn all() -> impl Iterator<Item = Self> {
        let off = LOCKS.into_iter().map(|name| format!("{name}{OFF}"));
        LOCKS.into_iter().map(str::to_owned).chain(off).filter_map(|name| Self::named(&name))
    }

    pub(super) fn build(&self) -> Build {
        match (self.built.starts_with(NATIVE), self.paravirtual) {
            (true, _) => Build::Native,
            (false, false) => Build::Off,
            (false, true) => Build::Paravirtual,
        }
    }

    /// The algorithm, however it is built.
    pub(super) fn family(&self) -> &'static str {
        self.built.strip_prefix(NATIVE).unwrap_or(self.built)
    }
}

/// One combination of factors, within a [`Group`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) lock: Lock,
    pub(super) policy: String,
    /// How the PM timer is shared; it matters only to workloads that read it.
    pub(super) timer: PmTimerRule,
    pub(super) cpus: u32,
    pub(super) pcpus: u32,
}

impl Point {
    /// vCPUs for each pCPU, as people write it.
    pub(super) fn overcommit(&self) -> String {
        format!("{}x", three(f64::from(self.cpus) / f64::from(self.pcpus)))
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Point { lock, policy, timer, cpus, pcpus } = self;
        if *lock == Lock::none() {
            write!(f, "timer {}, ", rule_name(*timer))?;
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

/// A rule's name in records and tables.
pub(super) fn rule_name(rule: PmTimerRule) -> &'static str {
    match rule {
        PmTimerRule::Mutex => "mutex",
        PmTimerRule::Refresh => "refresh",
        PmTimerRule::LockFree => "lock-free",
    }
}

/// Points that share a workload, and take turns.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) profile: Profile,
    pub(super) points: Vec<Point>,
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Profile { name, section_ns, think_ns, .. } = &self.profile;
        write!(f, "{name}, cs {}, ncs {}", Nanos(*section_ns), Nanos(*think_ns))
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
        let timers = if profile.timer_reads == 0 { &ALL_RULES[2..] } else { &self.timers };
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
        Group { profile, points }
    }
}

/// Makes the groups that the arguments ask for.
pub(super) fn groups(args: &LabArgs, pcpus: u32) -> Result<Vec<Group>> {
    let times = |by: &[u32]| by.iter().map(|n| n * pcpus).filter(|n| *n <= 256).collect::<Vec<_>>();
    let none = || vec![NO_POLICY.to_owned()];
    let strings = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let base = Factors {
        locks: locks(&strings(&TOUR_LOCKS))?,
        policies: none(),
        timers: ALL_RULES.to_vec(),
        cpus: times(&[1, 2, 4, 8]),
        pcpus,
    };
    if args.is_tour() {
        let spinner = locks(&strings(&TOUR_LOCKS[..1]))?;
        let policies = strings(&TOUR_POLICIES);
        let yields = Factors { locks: spinner, policies, cpus: times(&[1, 2, 4]), ..base.clone() };
        let timers = Factors { cpus: times(&[1, 4, 8]), ..base.clone() };
        return Ok(vec![
            base.group(Profile::named("micro")?),
            yields.group(Profile::named("ebizzy")?),
            timers.group(Profile::named("pmtimer")?),
        ]);
    }
    let mut factors = Factors { cpus: times(&[1, 2, 4]), ..base };
    if !args.policies.is_empty() {
        factors.policies = unique(none().into_iter().chain(args.policies.iter().cloned()));
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
            for ncs in lengths(&args.ncs, profile.think_ns) {
                let profile = Profile { section_ns: cs, think_ns: ncs, ..profile.clone() };
                groups.push(factors.group(profile));
            }
        }
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
            .context("a workload of your own is a file: --workload my.toml");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {name}"))?;
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    Ok(Profile::parse(&stem, &text)?)
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
                    let known: Vec<String> = Lock::all().map(|lock| lock.name).collect();
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
    fn locks_know_how_they_are_built() {
        for (name, build, family) in [
            ("native-ticket", Build::Native, "ticket"),
            ("ticket", Build::Paravirtual, "ticket"),
            ("ticket-off", Build::Off, "ticket"),
            ("test-and-set-off", Build::Off, "test-and-set"),
        ] {
            let lock = Lock::named(name).unwrap();
            assert_eq!((lock.build(), lock.family()), (build, family), "{name}");
        }
        assert_eq!(Lock::named("native-ticket-off"), None);
        assert_eq!(Lock::named("nonsense"), None);
        assert_eq!(Lock::all().count(), 12);
    }
}
