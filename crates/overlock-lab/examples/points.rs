// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs workloads on vCPUs and prints one JSON record per line.
//!
//! `cargo run --release --example points -- kvm micro ticket,hybrid none 8 2 300`: engine,
//! workload, locks, yield policies, vCPUs, pCPUs, milliseconds; then, optionally, the pause window
//! in microseconds, and `publish` to make locks publish holder and waiters under any policy.

use std::io::{Write, stdout};
use std::time::Duration;

use overlock_lab::workload::{Profile, run};
use overlock_lab::{Config, KvmEngine, ThreadsEngine};
use overlock_world::Engine;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mut word = |default: &str| words.next().unwrap_or_else(|| default.to_owned());
    let (engine, workload) = (word("kvm"), word("micro"));
    let (locks, policies) = (word("hybrid"), word("none"));
    let (vcpus, pcpus, ms): (u32, u32, u64) =
        (word("8").parse()?, word("2").parse()?, word("300").parse()?);
    let window = Duration::from_micros(word("0").parse()?);
    let publishes = word("") == "publish";
    let profile = Profile::named(&workload)?;
    for lock in locks.split(',') {
        for policy in policies.split(',') {
            let mut config = Config::new(vcpus, pcpus);
            config.duration = Duration::from_millis(ms);
            config.policy = policy;
            config.pause_window = window;
            config.publishes = publishes;
            let record = match engine.as_str() {
                KvmEngine::NAME => run::<KvmEngine>(&config, &profile, lock)?,
                _ => run::<ThreadsEngine>(&config, &profile, lock)?,
            };
            writeln!(stdout(), "{}", serde_json::to_string(&record)?)?;
        }
    }
    Ok(())
}
