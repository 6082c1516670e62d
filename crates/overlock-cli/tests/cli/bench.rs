// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does `overlock bench` measure, catch broken locks, and refuse what makes no sense?

use crate::support::{Said, interrupt, overlock, said, send, wait_until};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

const QUICK: [&str; 8] = ["bench", "--cs", "100ns", "--ncs", "0", "--seconds", "0.02", "--runs"];

fn bench(more: &[&str]) -> Said {
    said(&[&QUICK, more].concat())
}

#[test]
fn every_lock_excludes_and_is_recorded() {
    let said = bench(&["2", "--threads", "1,4", "--json", "--counters"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.records("run").len(), 1);
    let points = said.records("point");
    let names = ["hybrid", "queued", "ticket", "test-and-set", "native-ticket", "std"];
    for name in names.iter().chain(&["parking-lot", "parking-lot-fair", "pthread", "spin-ticket"]) {
        let of: Vec<_> = points.iter().filter(|point| point["lock"] == *name).collect();
        assert_eq!(of.len(), 2, "{name}");
        for point in of {
            assert_eq!((&point["world"], &point["workload"]), (&"threads".into(), &"micro".into()));
            assert_eq!(point["samples"].as_array().unwrap().len(), 2, "{name}");
            assert!(point["ops_per_s"]["median"].as_f64().unwrap() > 0.0, "{name}");
            let (jain, cpu) = (&point["jain"], &point["cpu_s_per_s"]);
            assert!((0.0..=1.0 + 1e-9).contains(&jain.as_f64().unwrap()), "{name}: {jain}");
            assert!(cpu.as_f64().unwrap() > 0.0, "{name}: {cpu}");
            let waits = &point["wait_ns"];
            let rising = ["p50", "p99", "p999"].map(|p| waits[p].as_u64().unwrap());
            assert!(rising.is_sorted(), "{name}: {waits}");
        }
    }
    let contended = |point: &&serde_json::Value| point["lock"] == "ticket" && point["cpus"] == 4;
    let ticket = points.iter().find(contended).unwrap();
    assert!(ticket["counters"].as_object().unwrap().contains_key("pv_wait_node"), "{ticket}");
}

#[test]
fn a_lock_that_does_not_exclude_is_caught_and_the_others_go_on() {
    let said = bench(&["2", "--threads", "4", "--locks", "broken-noop,std"]);
    said.ends(1, "lock broken-noop lost updates");
    assert!(said.stdout.contains("Recommendation: use std"), "{said:?}");
}

#[test]
fn the_broken_lock_is_not_offered() {
    let help = said(&["bench", "--help"]).stdout;
    assert!(!help.contains("broken"));
    let said = bench(&["1", "--threads", "1", "--locks", "no-such-lock"]);
    said.ends(2, "there is no lock 'no-such-lock'; choose from hybrid, queued");
    assert!(!said.stderr.contains("broken"), "{said:?}");
    let (_, names) = said.stderr.split_once("choose from ").unwrap();
    let (names, _) = names.split_once(" (or").unwrap();
    names.split(", ").for_each(|name| assert!(help.contains(name), "{name} is not in the help"));
}

#[test]
fn a_collapsed_lock_does_not_hang_the_run() {
    let said = bench(&["1", "--threads", "32", "--locks", "spin-ticket"]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn bad_input_is_a_sentence_and_exit_code_2() {
    for (flag, value, sentence) in [
        ("--threads", "0", "0 is not in 1..=4096"),
        ("--threads", "5000", "5000 is not in 1..=4096"),
        ("--runs", "0", "0 is not in 1..=1000"),
        ("--seconds", "0", "outside 0.01 to 600 seconds"),
        ("--seconds", "soon", "'soon' is not a number of seconds"),
        ("--cs", "100", "'100' needs a unit"),
        ("--ncs", "2h", "'2h' needs a unit"),
        ("--grid", "huge", "possible values: quick, full"),
        ("--out", "/no/such/folder/file", "can't write /no/such/folder/file"),
    ] {
        said(&["bench", flag, value]).ends(2, sentence);
    }
}

#[test]
fn a_check_with_nothing_to_judge_says_what_it_needs() {
    bench(&["1", "--threads", "2", "--locks", "std", "--check"]).ends(2, "it needs hybrid");
}

#[test]
fn the_table_is_ranked_and_ends_in_advice() {
    let said = bench(&["1", "--threads", "2", "--locks", "std,spin-ticket,pthread"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for part in ["2 threads, cs 100ns, ncs 0", "of best", "Summary", "Recommendation: use "] {
        assert!(said.stdout.contains(part), "'{part}' is not in {}", said.stdout);
    }
}

/// A run may be ten minutes long; whoever ends it won't wait for that.
#[test]
fn the_run_under_way_ends_with_the_command() {
    let args = ["bench", "--cs", "0", "--ncs", "0", "--seconds", "300", "--threads", "1"];
    let mut command = overlock(&[&args[..], &["--locks", "std", "--runs", "1"]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| has_run_under_way(child.id()));
    interrupt(child.id());
    wait_until(|| !has_run_under_way(child.id()));
    let said: Said = child.wait_with_output().unwrap().into();
    said.ends(130, "before the first round was over");
}

/// `timeout` signals the whole process group, the run under way too.
#[test]
fn the_end_of_the_whole_group_is_no_fault_of_a_lock() {
    let args = ["bench", "--cs", "0", "--ncs", "0", "--seconds", "30", "--threads", "1"];
    let mut command = overlock(&[&args[..], &["--locks", "std", "--runs", "1"]].concat());
    let child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    wait_until(|| has_run_under_way(child.id()));
    send("TERM", format!("-{}", child.id()));
    let said: Said = child.wait_with_output().unwrap().into();
    assert_eq!(said.code, Some(130), "{said:?}");
    assert!(!said.stderr.contains("failed"), "{said:?}");
}

/// Says whether a process has a child that is about a run.
fn has_run_under_way(pid: u32) -> bool {
    let pid = pid.to_string();
    std::fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let read = |file| std::fs::read_to_string(process.path().join(file)).unwrap_or_default();
        let stat = read("stat");
        let parent = stat.rsplit(") ").next().and_then(|fields| fields.split(' ').nth(1));
        parent == Some(&*pid) && read("cmdline").contains("{\"Run\"")
    })
}

#[test]
fn results_are_kept_when_the_run_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kept.jsonl");
    let args = ["--threads", "1,2", "--locks", "std", "--json", "--out", file.to_str().unwrap()];
    let args = [&["bench", "--cs", "0", "--ncs", "0", "--seconds", "1", "--runs", "1"], &args[..]];
    let mut child = overlock(&args.concat()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first_point = lines.find(|line| line.as_ref().unwrap().contains("\"kind\":\"point\""));
    assert!(first_point.is_some());
    interrupt(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let kept = std::fs::read_to_string(file).unwrap();
    assert!(kept.contains("\"kind\":\"point\"") && kept.contains("\"kind\":\"summary\""), "{kept}");
}
