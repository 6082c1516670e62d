// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of one lock at a random point, for `cargo xtask ablate`, which builds this program once
//! for each lock that it compares.
//!
//! `point LOCK SEED INDEX SECONDS` prints a line: sections a second, the 99.9th percentile of the
//! waits and the longest stall in nanoseconds, Jain's index, and the point.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for xtask")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use overlock_bench::{CHILD, Threads, obey};
use overlock_world::experiment::Host;
use overlock_world::workload::Profile;
use overlock_world::{Job, Lengths, Rng, World as _, seed_of};

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [lock, seed, index, seconds] = match args {
        [verb, order] if verb == CHILD => match obey(order)? {},
        [lock, seed, index, seconds] => [lock, seed, index, seconds],
        _ => return Err("point LOCK SEED INDEX SECONDS".into()),
    };
    let rng = &mut Rng::new(seed_of(seed.parse()?, index.parse()?));
    let mut magnitude = |low: f64, high: f64| low * (high / low).powf(rng.fraction());
    let cpus = magnitude(2.0, 65.0) as u32;
    // A quarter of the means is zero.
    let mut mean = || match magnitude(20.0, 50_000.0) as u64 {
        0..140 => 0,
        ns => ns,
    };
    let mut profile = Profile::named("micro")?;
    (profile.section_ns, profile.think_ns) = (mean(), mean());
    let (section_ns, think_ns) = (profile.section_ns, profile.think_ns);
    let mut job = Job::new(profile, lock, cpus, Host::default());
    job.host.seconds = seconds.parse()?;
    job.shape.lengths = rng.pick(&[Lengths::Exp, Lengths::Uniform, Lengths::Fixed]);
    let run = Threads::calibrate().run(&job, &AtomicBool::new(false));
    let run = run.map_err(|failed| format!("{failed:?}"))?;
    let (p999, stall) = (run.wait_ns.p999, run.longest_stall_ns.unwrap_or(0));
    println!(
        "{} {p999} {stall} {} {cpus} threads, {section_ns} ns, {think_ns} ns",
        run.ops_per_s, run.jain
    );
    Ok(())
}
