// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of one lock at a random point, for `cargo xtask ablate`, which builds this program once
//! for each lock that it compares.
//!
//! `point WORLD LOCK SEED INDEX SECONDS` prints a line: sections a second, the 99.9th percentile of
//! the waits and the longest stall in nanoseconds, Jain's index, and the point.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for xtask")]

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, anyhow, bail};
use overlock_bench::Job;
use overlock_bench::experiment::Host;
use overlock_bench::workload::Profile;
use overlock_results::{Lengths, Rng, seed_of};
use overlock_worlds::{Options, open};

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let [world, lock, seed, index, seconds] = match args {
        [verb, order] if verb == overlock_bench::threads::CHILD => {
            match overlock_bench::threads::obey(order)? {}
        }
        [verb] if verb == "sim-child" => return overlock_worlds::obey(),
        [world, lock, seed, index, seconds] => [world, lock, seed, index, seconds],
        _ => bail!("point WORLD LOCK SEED INDEX SECONDS"),
    };
    let options = Options { commit: "", note: |said| eprintln!("{said}") };
    let world = open(world, &options)?;
    let world = &*world;
    let rng = &mut Rng::new(seed_of(seed.parse()?, index.parse()?));
    let mut magnitude = |low: f64, high: f64| low * (high / low).powf(rng.fraction());
    // Threads can be many, but larger hosts would be simulated for hours.
    let most = if world.has_host() { 8.0 } else { 32.0 };
    let cpus = (f64::from(world.pcpus()) * magnitude(1.0, most)) as u32;
    // A quarter of the means is zero.
    let mut mean = || match magnitude(20.0, 50_000.0) as u64 {
        0..140 => 0,
        ns => ns,
    };
    let mut profile = Profile::named("micro")?;
    (profile.section_ns, profile.think_ns) = (mean(), mean());
    let (section_ns, think_ns) = (profile.section_ns, profile.think_ns);
    let mut job = Job::new(profile, lock, cpus, Host::default());
    (job.host.seconds, job.host.pcpus) = (seconds.parse()?, world.pcpus());
    job.shape.lengths = rng.pick(&[Lengths::Exp, Lengths::Uniform, Lengths::Fixed]);
    let cancel = AtomicBool::new(false);
    let ahead = world.ahead(std::slice::from_ref(&job), &cancel, &mut |_, _| {});
    ahead.map_err(|failed| anyhow!("{failed:?}"))?;
    let run = world.run(&job, &cancel).map_err(|failed| anyhow!("{failed:?}"))?;
    let (p999, stall) = (run.wait_ns.p999, run.longest_stall_ns.unwrap_or(0));
    println!(
        "{} {p999} {stall} {} {cpus} CPUs, {section_ns} ns, {think_ns} ns",
        run.ops_per_s, run.jain
    );
    Ok(())
}
