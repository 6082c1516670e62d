//! The tests of the workspace, and a last line that counts what this machine could not check.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// A word of what a test says that it lacks, and what brings it.
const BRINGS: [(&str, &str); 24] = [
    ("chromium", "apt-get install chromium"),
    ("clang", "apt-get install clang"),
    ("g++", "apt-get install g++"),
    ("C++ programs", "apt-get install g++"),
    ("sanitizer", "apt-get install clang libclang-rt-dev"),
    ("musl-gcc", "apt-get install musl-tools"),
    ("objdump", "apt-get install binutils"),
    ("nm ", "apt-get install binutils"),
    ("python3", "apt-get install python3"),
    ("no node", "apt-get install nodejs"),
    ("no go", "apt-get install golang-go"),
    ("read everything", "a user other than root"),
    ("/dev/kvm", "a machine with /dev/kvm"),
    ("only one CPU", "a second CPU"),
    ("quota", "root, cgroups and Linux 6.18"),
    ("root", "root"),
    ("SCHED_FIFO", "root"),
    ("real-time", "root"),
    ("this policy", "root"),
    ("rseq", "Linux 4.18 with rseq(2) and membarrier(2)"),
    ("were lost", "a machine that does nothing else"),
    ("were next", "a machine that does nothing else"),
    ("at the same time", "a machine that does nothing else"),
    ("trac", "a system that lets processes trace their children, and perf_event_open(2)"),
];

/// Runs the tests; their output passes through.
pub(crate) fn check() -> Result<bool> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--workspace", "--all-features"]).current_dir(crate::root());
    let mut tests = command.stderr(Stdio::piped()).spawn().context("cargo did not start")?;
    let mut skipped = Vec::new();
    let lines = BufReader::new(tests.stderr.take().context("it was piped")?).split(b'\n');
    for line in lines {
        let line = String::from_utf8_lossy(&line?).into_owned();
        eprintln!("{line}");
        skipped.extend(line.strip_prefix("skipped: ").map(str::to_owned));
    }
    let is_fine = tests.wait()?.success();
    println!("\n{}", told(&skipped));
    Ok(is_fine)
}

/// Counts what was skipped, by what would bring it.
fn told(skipped: &[String]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for what in skipped {
        let found = BRINGS.iter().find(|(word, _)| what.contains(word));
        let told = found.map_or(format!("said {what:?}"), |(_, brings)| format!("need {brings}"));
        *counts.entry(told).or_default() += 1;
    }
    let each: Vec<String> = counts.iter().map(|(told, n)| format!("{n} {told}")).collect();
    let each = if each.is_empty() { String::new() } else { format!(": {}", each.join("; ")) };
    format!(
        "{} checks were skipped{each}. Not among them: kernels/, papers/ and host/, which have \
         tests of their own, and what `cargo xtask weak` and `cargo xtask targets` check.",
        skipped.len()
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_was_skipped_is_counted_by_what_brings_it() {
        let skipped = ["what clang makes of it", "only root can", "no clang here", "odd"];
        let told = super::told(&skipped.map(str::to_owned));
        let counts = "4 checks were skipped: 2 need apt-get install clang; 1 need root; \
                      1 said \"odd\". Not";
        assert!(told.starts_with(counts), "{told}");
        assert!(super::told(&[]).starts_with("0 checks were skipped. Not"));
    }
}
