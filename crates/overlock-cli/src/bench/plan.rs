//! From arguments to experiments, and from an experiment to what a world can do.

use super::BenchArgs;
use crate::added::Added;
use crate::outcome::Outcome;
use crate::{experiments, output};
use anyhow::{Context, Result, bail};
use overlock_bench::experiment::{Experiment, Workload};
use overlock_bench::{Document, World};
use overlock_results::{NO_POLICY, Task};
use std::path::{Path, PathBuf};

/// The policies that others are compared with.
const BASES: [&str; 2] = [NO_POLICY, "report"];

/// The experiments that the arguments name, or the one that they describe.
pub(super) fn experiments(args: &BenchArgs, added: &Added) -> Result<Vec<Experiment>> {
    let world = args.world.as_deref().unwrap_or("threads");
    let kind = world.split(':').next().unwrap_or(world);
    added.leave_to_others(kind)?;
    for name in args.experiments.iter().filter(|path| !path.exists()) {
        added.leave_to_others(&name.to_string_lossy())?;
    }
    args.locks.iter().try_for_each(|lock| added.leave_to_others(lock))?;
    let named = args.experiments.clone();
    let names: Vec<PathBuf> = match (named.is_empty(), args.names_no_point()) {
        (false, false) => bail!(
            "an experiment says what is measured; leave out --cpus, --cs, --ncs, --random, \
             --read-share, --policies and --workload, or write them into a file that begins with the output of \
             `overlock bench {} --print`",
            named[0].display()
        ),
        (false, true) => named,
        (true, true) => tour(kind, args.check, added).iter().map(PathBuf::from).collect(),
        (true, false) => return Ok(vec![described(args, kind, added)?]),
    };
    let both = args.names_no_point() && args.experiments.is_empty();
    let both = both && kind == "threads" && args.beside.is_empty() && !args.check;
    let of = |name: &PathBuf| {
        let mut experiment = with(args, read(name, added)?);
        if both {
            experiment.factors.beside = vec![0, overlock_programs::allowed_cpus()];
        }
        Ok(experiment)
    };
    names.iter().map(of).collect()
}

/// What is measured in a world if nothing is asked for.
fn tour(world: &str, check: bool, added: &Added) -> Vec<&'static str> {
    match (world, check) {
        ("kvm", false) => vec!["half", "tour", "yields", "timer"],
        ("kvm", true) => vec!["half", "tour-16x", "yields", "timer"],
        ("sim", _) => vec!["micro"],
        _ => vec![added.tour(world).unwrap_or("quick")],
    }
}

fn read(path: &Path, added: &Added) -> Result<Experiment> {
    let name = path.display().to_string();
    let text = experiments::text(path, added)?;
    let experiment = Experiment::parse(&name, &text)?;
    let document = Document::new(&name, &text);
    if let Some(host) = &experiment.host.machine {
        let refuse = |key: &str, what: String| document.refuse(&[&format!("host.{key}")], what);
        let profile = crate::worlds::host_profile(Some(host))
            .map_err(|error| refuse("machine", format!("{error:#}")))?;
        let (asked, total) = (experiment.host.pcpus, profile.topology.pcpus());
        if asked > total {
            let what = format!("{host} has {total} pCPUs, not {asked}; choose 1 to {total}");
            return Err(refuse("pcpus", what).into());
        }
    }
    for (at, name) in experiment.factors.policies.iter().enumerate() {
        if !crate::worlds::POLICIES.contains(&name.as_str()) {
            let known = crate::worlds::POLICIES.join(", ");
            let what = format!("no yield policy is called {name}; choose from {known}");
            return Err(document.refuse(&[&format!("factors.policies.{at}")], what).into());
        }
    }
    for (at, one) in experiment.published.iter().enumerate() {
        if !overlock_bench::published::FIGURES.contains(&one.figure.as_str()) {
            let known = overlock_bench::published::FIGURES.join(", ");
            let what = format!("there is no figure {}; choose from {known}", one.figure);
            return Err(document.refuse(&[&format!("published.{at}.figure")], what).into());
        }
    }
    Ok(experiment)
}

/// The experiment that flags describe: the world's own, with their lists instead.
fn described(args: &BenchArgs, world: &str, added: &Added) -> Result<Experiment> {
    let base = match world {
        "kvm" | "sim" => "by-hand-vcpus",
        _ => added.tour(world).unwrap_or("by-hand"),
    };
    let mut base = read(Path::new(base), added)?;
    if let Some(count) = args.random {
        (base.factors.random, base.host.seconds) = (Some(count), 0.15);
        (base.factors.over, base.factors.cpus) = (Vec::new(), Vec::new());
    }
    if let Some(task) = args.workload.as_deref().and_then(Task::waiting) {
        base.factors.tasks = vec![task];
    } else if let Some(name) = &args.workload {
        base.workload = Workload::Named(name.clone());
        (base.factors.section_ns, base.factors.think_ns) = (Vec::new(), Vec::new());
        if base.profile()?.timer_reads > 0 {
            base.factors.timers = overlock_results::PmTimerRule::ALL.to_vec();
        }
    }
    if !args.read_share.is_empty() {
        base.factors.tasks = args.read_share.iter().copied().map(Task::Read).collect();
    }
    if !args.policies.is_empty() {
        let all = args.policies.iter().any(|name| name == "all");
        let mut names: Vec<String> = BASES.map(str::to_owned).to_vec();
        names.extend(if all {
            crate::worlds::POLICIES.map(str::to_owned).to_vec()
        } else {
            args.policies.clone()
        });
        base.factors.policies = overlock_results::stats::unique(names);
        // The others hardly spin.
        base.factors.locks = vec!["native-ticket".into()];
    }
    if !args.cpus.is_empty() {
        // Ratios to 1x need 1x.
        let has_ratios = ["kvm", "sim"].contains(&world);
        base.factors.over = if has_ratios { vec![1.0] } else { Vec::new() };
        base.factors.cpus.clone_from(&args.cpus);
    }
    let lengths =
        |given: &[overlock_results::units::DurationArg]| given.iter().map(|of| of.0).collect();
    if !args.cs.is_empty() {
        base.factors.section_ns = lengths(&args.cs);
    }
    if !args.ncs.is_empty() {
        base.factors.think_ns = lengths(&args.ncs);
    }
    Ok(with(args, base))
}

fn with(args: &BenchArgs, mut experiment: Experiment) -> Experiment {
    if !args.locks.is_empty() {
        experiment.factors.locks.clone_from(&args.locks);
    }
    if !args.lengths.is_empty() {
        experiment.factors.lengths.clone_from(&args.lengths);
    }
    if !args.beside.is_empty() {
        experiment.factors.beside.clone_from(&args.beside);
    }
    experiment.host.seconds = args.seconds.unwrap_or(experiment.host.seconds);
    experiment.host.runs = args.runs.unwrap_or(experiment.host.runs);
    experiment.host.pcpus = args.pcpus.unwrap_or(experiment.host.pcpus);
    experiment
}

/// The same as `world` can run it. A published experiment for a larger host than this machine keeps
/// its overcommit; figures that can't be had then are left out.
pub(super) fn fitted(
    experiment: &Experiment,
    args: &BenchArgs,
    world: &dyn World,
) -> Result<Experiment> {
    let mut fitted = experiment.clone();
    let pcpus = world.pcpus();
    if fitted.host.pcpus == 0 {
        fitted.host.pcpus = args.pcpus.unwrap_or(pcpus);
    }
    let is_larger = world.is_real() && world.takers().has_host() && fitted.host.pcpus > pcpus;
    if is_larger && args.pcpus.is_none() && !fitted.published.is_empty() {
        fitted = fitted.scaled_to(pcpus);
        (fitted.host.seconds, fitted.host.runs) =
            (args.seconds.unwrap_or(0.2), args.runs.unwrap_or(7));
    }
    if !world.takers().has_host() && args.timeline.is_some() {
        bail!("--timeline is about vCPUs: use it with --in kvm or sim");
    }
    if let Some(span) = args.timeline
        && span.0 as f64 > fitted.host.seconds * 0.5e9
    {
        let seconds = fitted.host.seconds;
        bail!("a timeline of {span} is longer than half a run of {seconds} s; use --seconds");
    }
    Ok(fitted)
}

pub(super) fn print(experiments: &[Experiment]) -> Result<Outcome> {
    for experiment in experiments {
        let text = toml::to_string(experiment).context("an experiment is always a file")?;
        output::print(text.trim_end())?;
    }
    Ok(Outcome::Fine)
}
