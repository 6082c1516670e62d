//! The scheduler in a real kernel: Debian's Linux of unstable, in QEMU. Skips visibly where that
//! can't be had.

use serde_json::Value;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

const HOST: &str = env!("CARGO_MANIFEST_DIR");

/// Runs a script in the machine; what it prints, or nothing if there is no machine.
fn machine(script: &str, files: &[PathBuf]) -> Option<String> {
    // One at a time: each emulates two processors.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut machine = Command::new(format!("{HOST}/machine.sh"));
    machine.arg(format!("{HOST}/tests/{script}")).arg(env!("CARGO_BIN_EXE_overlock-host"));
    let done = machine.args(files).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.code() == Some(77) {
        std::io::stderr().write_all(said.as_bytes()).unwrap();
        return None;
    }
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
    Some(said)
}

fn part<'a>(said: &'a str, heading: &str) -> &'a str {
    let (_, after) =
        said.split_once(&format!("== {heading}\n")).unwrap_or_else(|| panic!("{heading}: {said}"));
    after.split_once("\n== ").map_or(after, |(part, _)| part)
}

#[test]
fn the_scheduler_decides_as_the_oracle_and_ends_well_however_it_ends() {
    let Some(said) = machine("life.sh", &[]) else { return };
    let each = part(&said, "each");
    let rows = rows(each);
    assert_eq!(rows.len(), 9, "{each}");
    for row in &rows {
        assert_eq!((&row["oracle"], &row["ended"]), (&"same".into(), &"asked".into()), "{row}");
        assert!(row["events"].as_u64() > Some(0), "{row}");
    }
    let moved: u64 = rows.iter().filter_map(|row| row["moved"].as_u64()).sum();
    assert!(moved > 0, "no chosen thread ever ran: {each}");
    let reasons = |policy: &str| {
        rows.iter().find(|row| row["policy"] == policy).unwrap()["reasons"].to_string()
    };
    assert!(reasons("none").contains("stay policy-never"), "{each}");
    assert!(reasons("yield").contains("plain policy-undirected"), "{each}");
    for (heading, wanted) in [
        ("nobody", "loading a scheduler needs root"),
        ("missing", "there is no process [99999]"),
        ("no-cgroup", "there is no cgroup /sys/fs/cgroup/none"),
        ("occupied", "another scheduler is loaded: overlock"),
        ("ctrl-c", "The scheduler is unloaded.\n"),
        ("killed", "disabled\nalive"),
        ("watchdog", "The kernel threw the scheduler out: runnable task stall"),
        ("watchdog", "code 1\ndisabled\nalive"),
        ("cgroup", "another scheduler is loaded: overlock"),
        ("page-gone", "can't open the page /sys/fs/bpf/page"),
        ("page-elsewhere", "the page can't be put at /tmp/page"),
        ("died", "The scheduler is unloaded: there is no process"),
        ("no-sched-ext", "the kernel has no sched_ext"),
        ("no-btf", "the kernel has no BTF"),
    ] {
        assert!(part(&said, heading).contains(wanted), "{heading}: {}", part(&said, heading));
    }
    assert_eq!(part(&said, "page-elsewhere").lines().count(), 1, "{said}");
    page_is_heard(part(&said, "cgroup"));
    let holders = |heading| {
        let (_, counts) = part(&said, heading).rsplit_once("taken early ").expect(heading);
        let mut counts = counts.split(" late ").map(|n| n.trim().parse::<u64>().unwrap());
        (counts.next().unwrap(), counts.next().unwrap())
    };
    // The sections are shorter than the extension of 40 ms, then without one, then longer. A holder
    // that a thread of the kernel's own class interrupts goes back into the queue, so that a few
    // may be taken even so.
    let (extended, without) = (holders("extended").0, holders("not-extended").0);
    assert!(3 * extended < without, "{extended} with an extension, {without} without");
    let (early, late) = holders("longer-than-extended");
    assert!(late > early, "an extension of 10 ms has an end: {early}, {late}");
}

fn rows(said: &str) -> Vec<Value> {
    said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// A cgroup that goes away, and the page: what a program or a guest says of its lock is heard, a
/// holder's slice is extended, and it learns of that and yields.
fn page_is_heard(said: &str) {
    let rows = rows(said);
    let of = |key: &str| rows.iter().find(|row| !row[key].is_null()).expect(said);
    let (load, host) = (of("granted"), of("oracle"));
    assert_eq!((&host["oracle"], &host["ended"]), (&"same".into(), &"gone".into()), "{host}");
    assert_eq!(host["why"], "there is no cgroup /sys/fs/cgroup/vm");
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
    let (extended, granted) = (number(host, "extended"), number(load, "granted"));
    let returned = number(host, "returned");
    assert!(0 < returned && returned <= granted && granted <= extended, "{load} {host}");
    let reasons = host["reasons"].as_object().unwrap();
    let hinted = ["to lock-holder", "stay holder-running"];
    assert!(hinted.iter().any(|why| reasons.contains_key(*why)), "{host}");
}

/// The kernel image and its monitor, from the other workspace.
fn image() -> (PathBuf, PathBuf) {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--bin", "image", "--", "--vmm"]);
    let done = cargo.current_dir(format!("{HOST}/../kernels")).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let image = PathBuf::from(String::from_utf8(done.stdout).unwrap().trim());
    let monitor = image.with_file_name("overlock-vmm");
    (image, monitor)
}

#[test]
fn two_guests_run_under_every_policy_and_the_oracle_agrees() {
    let (image, monitor) = image();
    let Some(said) = machine("guests.sh", &[image, monitor, modes()]) else { return };
    let compared = part(&said, "compare");
    let rows = rows(compared);
    assert_eq!(rows.len(), 10, "the kernel's own class and nine policies: {said}");
    for row in &rows {
        assert!(row["ops_per_s"][0].as_f64() > Some(0.0), "{row}");
    }
    let (_, events) = compared.split_once("the same answers and counts: ").expect(&said);
    let events: u64 = events.split(' ').next().unwrap().parse().unwrap();
    assert!(events > 0 && compared.trim_end().ends_with("disabled"), "{said}");
    page_is_heard(part(&said, "page"));
    // A spinner in the kernel passes over vCPUs in user mode, one in user mode over none.
    for (vcpus, some) in [("kkuu", true), ("kkkk", false), ("ppuu", false)] {
        let said = part(&said, vcpus);
        let row: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
        assert_eq!((&row["oracle"], row["moved"].as_u64() > Some(0)), (&"same".into(), true));
        assert_eq!(!row["reasons"]["skipped in-user"].is_null(), some, "{vcpus}: {row}");
    }
    let died = part(&said, "died");
    assert!(died.contains("The scheduler is unloaded: there is no process"), "{died}");
    assert!(died.trim_end().ends_with("disabled"), "{died}");
}

/// A monitor whose vCPUs spin and compute in both modes.
fn modes() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("modes");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-pthread"]).arg(format!("{HOST}/tests/modes.c")).arg("-o").arg(&program);
    assert!(cc.status().unwrap().success());
    program
}
