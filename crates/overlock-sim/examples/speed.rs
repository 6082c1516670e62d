// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how fast the performance simulator is. Run it with `--release`.
//!
//! Pairs and hand-overs are those of virtual CPUs. Seconds are CPU time of the one thread that does
//! everything (Linux's schedstat), so waiting for a CPU does not count. A busy machine is still
//! slower, because caches and the other half of a core are shared.

#![expect(clippy::print_stdout, reason = "an example that measures has to say what it found")]

use std::time::Duration;

use overlock_sim::performance::{HostProfile, Setup, Topology};
use overlock_world::Config;
use overlock_world::workload::Profile;

/// CPU time of this thread, in seconds.
fn cpu_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    let ns = text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
    ns.expect("the first number is the time on a CPU") / 1e9
}

fn main() {
    let mut host = HostProfile::named("e5-2699v3").expect("it comes with the crate");
    host.topology = Topology { sockets: 8, clusters: 1, cores: 64, threads: 1 };
    let setup = Setup { host, seed: 1, seq_cst: false };
    let micro = Profile::named("micro").expect("it comes with the crate");
    let saturated = Profile { section_ns: 200, ..micro.clone() };
    println!(
        "{:42} {:>10} {:>10} {:>10} {:>10} {:>8}",
        "", "pairs/s", "accesses/s", "lines/s", "events/s", "s"
    );
    for (what, profile, lock, vcpus, pcpus, ms) in [
        ("uncontended, 1 vCPU", &micro, "hybrid", 1, 1, 200),
        ("two that spin, ticket", &micro, "native-ticket", 2, 2, 100),
        ("8 that spin, ticket", &saturated, "native-ticket", 8, 8, 100),
        ("36 that halt, queued", &saturated, "queued", 36, 36, 100),
        ("36 that halt, queued, twice as long", &saturated, "queued", 36, 36, 200),
        ("72 on 36, hybrid", &saturated, "hybrid", 72, 36, 100),
        ("72 on 36, hybrid, twice as long", &saturated, "hybrid", 72, 36, 200),
        ("1,024 on 512, queued", &saturated, "queued", 1024, 512, 50),
        ("1,024 on 512, hybrid", &saturated, "hybrid", 1024, 512, 50),
        ("1,024 on 512, hybrid, twice as long", &saturated, "hybrid", 1024, 512, 100),
    ] {
        let config = Config { duration: Duration::from_millis(ms), ..Config::new(vcpus, pcpus) };
        let start = cpu_time();
        let (record, counts) = setup.run(&config, profile, lock).expect("a run that works");
        let seconds = cpu_time() - start;
        let rate = |count: f64| format!("{:.2} M", count / seconds / 1e6);
        println!(
            "{what:42} {:>10} {:>10} {:>10} {:>10} {seconds:8.2}",
            rate(record.ops_per_s * record.seconds),
            rate(counts.accesses as f64),
            rate(counts.transfers as f64),
            rate(counts.events as f64),
        );
    }
}
