//! Does `overlock bench` measure, catch broken locks, and refuse what makes no sense?

use crate::support::{
    Said, children_of, experiment, interrupt, overlock, said, said_until, send, wait_until,
};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

fn bench(more: &[&str]) -> Said {
    bench_for("0.02", more)
}

fn bench_for(seconds: &str, more: &[&str]) -> Said {
    let args = ["bench", "--cs", "100ns", "--ncs", "0", "--seconds", seconds, "--runs"];
    said(&[&args, more].concat())
}

/// Measures for longer if threads got no processor in the shortest runs, on a busy machine.
pub(crate) fn bench_until(more: &[&str], wanted: impl Fn(&Said) -> bool) -> Said {
    said_until(&["0.02", "0.2", "2"], |seconds| bench_for(seconds, more), wanted)
}

#[test]
fn every_lock_excludes_and_is_recorded() {
    let args = ["3", "--threads", "4", "--locks", "all", "--json", "--explain"];
    let runs = |point: &Value| point["ops_per_s"]["median"].as_f64() > Some(0.0);
    let said = bench_until(&args, |said| said.records("point").iter().all(runs));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.records("run").len(), 1);
    let points = said.records("point");
    let names = ["hybrid", "queued", "ticket", "test-and-set", "native-ticket", "std"];
    let of = |lock: &str| points.iter().find(|point| point["lock"] == lock).expect(lock);
    for name in names.iter().chain(&["parking-lot", "parking-lot-fair", "pthread", "yield"]) {
        let point = of(name);
        assert_eq!((&point["world"], &point["workload"]), (&"threads".into(), &"micro".into()));
        assert_eq!(point["samples"].as_array().unwrap().len(), 3, "{name}");
        assert!(point["ops_per_s"]["median"].as_f64().unwrap() > 0.0, "{name}");
        let (jain, cpu) = (&point["jain"], &point["cpu_s_per_s"]);
        assert!((0.0..=1.0 + 1e-9).contains(&jain.as_f64().unwrap()), "{name}: {jain}");
        assert!(cpu.as_f64().unwrap() > 0.0, "{name}: {cpu}");
        let waits = &point["wait_ns"];
        let rising = ["p50", "p99", "p999"].map(|p| waits[p].as_u64().unwrap());
        assert!(rising.is_sorted(), "{name}: {waits}");
        // 67 in each of the three rounds. All at once, they would be 200.
        let pair = said.records("pair").into_iter().find(|pair| pair["lock"] == *name).unwrap();
        assert_eq!(pair["samples"].as_array().unwrap().len(), 201, "{name}");
        assert!(pair["ns"]["median"].as_f64().unwrap() > 0.0, "{name}");
    }
    let counters = &of("ticket")["counters"];
    assert!(counters.as_object().unwrap().contains_key("pv_wait_node"), "{counters}");
}

#[test]
fn a_lock_that_does_not_exclude_is_caught_and_the_others_go_on() {
    let said = bench(&["2", "--threads", "4", "--locks", "broken-noop,std,pthread"]);
    said.ends(1, "failed: lock broken-noop at micro, cs 100ns");
    assert!(said.stderr.contains(": lost update"), "{said:?}");
    assert!(said.stdout.contains("No verdict (2 rounds; 6 or more can tell): "), "{said:?}");
}

/// One thread has the lock, and no other thread ever leaves a sample of its wait.
#[test]
fn a_lock_that_starves_all_threads_but_one_is_seen() {
    let args = ["--cs", "0", "--ncs", "0", "--seconds", "0.2", "--runs", "1", "--threads", "4"];
    let locks = ["--locks", "broken-favourite,std", "--json"];
    let said = said(&[&["bench"], &args[..], &locks[..]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    let points = said.records("point");
    let unfair = points.iter().find(|point| point["lock"] == "broken-favourite").unwrap();
    // A second reading, a grain later, sees the first of the waits; the window has a hundred.
    assert!(unfair["longest_stall_ns"].as_f64().unwrap() > 150e6, "{unfair}");
    // The favourite too can be without a processor for long.
    assert!((3..=4).contains(&unfair["long_stalls"].as_u64().unwrap()), "{unfair}");
    assert!((unfair["jain"].as_f64().unwrap() - 0.25).abs() < 1e-9, "{unfair}");
    let advice = &said.records("advice")[0];
    assert_eq!((&advice["lock"], &advice["verdict"]), (&"std".into(), &false.into()), "{advice}");
}

#[test]
fn a_seed_draws_the_same_points_and_a_wide_one_the_same_with_oddities() {
    let (_folder, wide) = experiment("locks = ['std']\nrandom = 6\nwide = true", "pcpus = 0");
    let drawn = |points: &[&str], seed: &str| {
        let args = ["--seconds", "0.01", "--runs", "1", "--locks", "std", "--json", "--seed"];
        let said = said(&[&["bench"], points, &args, &[seed]].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        let keys = ["cpus", "cs_ns", "ncs_ns", "lengths", "locks_count", "then_ns", "uneven"];
        let points = said.records("point");
        let fields = |point: &Value| keys.map(|key| point[key].clone());
        points.iter().map(fields).collect::<Vec<_>>()
    };
    let plain = drawn(&["--random", "6"], "5");
    assert_eq!(plain.len(), 6);
    assert_eq!(plain, drawn(&["--random", "6"], "5"));
    assert_ne!(plain, drawn(&["--random", "6"], "6"));
    let wide = drawn(&[&wide], "5");
    let same = |(plain, wide): (&[Value; 7], &[Value; 7])| plain[..4] == wide[..4];
    assert!(plain.iter().zip(&wide).all(same), "{plain:?} {wide:?}");
    assert!(wide.iter().any(|point| point[4] != 1 || point[5] != Value::Null || point[6] != 1));
}

#[test]
fn lengths_phases_locks_and_long_holders_are_recorded() {
    let factors = "locks = ['hybrid', 'std']\ncpus = [3]\nlengths = ['uniform', 'bimodal']\n\
                   locks_count = 7\nthen_ns = [2000, 0]\nuneven = 9";
    let (_folder, odd) = experiment(factors, "pcpus = 0\nseconds = 0.02\nruns = 1");
    let json = said(&["bench", &odd, "--json"]);
    let points = json.records("point");
    assert_eq!(points.len(), 4, "{json:?}");
    for (point, lengths) in points.iter().zip(["uniform", "uniform", "bimodal", "bimodal"]) {
        let fields = ["locks_count", "then_ns", "uneven"].map(|key| point[key].to_string());
        assert_eq!(fields, ["7", "[2000,0]", "9"], "{point}");
        assert_eq!(point["lengths"], lengths);
    }
    let people = said(&["bench", &odd]);
    let shape = "uniform, then 2us/0, 7 locks, one holds 9x";
    assert!(people.stdout.contains(shape), "{people:?}");
}

#[test]
fn an_explanation_accounts_for_all_of_the_time() {
    let args = ["2", "--threads", "3", "--locks", "hybrid,std,yield", "--explain"];
    let more = |figure: &Value| figure.as_f64() > Some(0.0);
    // Without an operation in an ordinary run there is no speed of the logged one.
    let has_run = |point: &Value| more(&point["spent"]["held"]) && more(&point["ops_per_s"]["low"]);
    let json = bench_until(&[&args[..], &["--json"]].concat(), |said| {
        said.records("point").iter().all(has_run)
    });
    let explained = json.records("point");
    assert_eq!(explained.len(), 3, "{json:?}");
    for lock in &explained {
        let figure = |key: &str| lock["spent"][key].as_f64().unwrap();
        let shares = ["held", "stopped", "hand_over", "kept", "unseen", "unwanted"].map(figure);
        // Each is the median of two rounds, and each round sums to 1.
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{lock}");
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{lock}");
        assert!(figure("held") > 0.0 && figure("turn") >= 1.0 && figure("speed") > 0.0, "{lock}");
        assert!(lock["sched"]["cpu"].as_f64().unwrap() > 0.0, "{lock}");
    }
    let parts = ["Where the lock's time went:", "unseen", "hand-over", "working", "switches/s"];
    let has = |said: &Said, part: &&str| said.stdout.contains(part);
    let people = bench_until(&args, |said| parts.iter().all(|part| has(said, part)));
    for part in parts {
        assert!(has(&people, &part), "'{part}' is not in {people:?}");
    }
}

#[test]
fn the_seed_of_the_day_is_printed() {
    let drawn = ["bench", "--random", "1", "--seconds", "0.01", "--runs", "1", "--locks", "std"];
    assert!(said(&drawn).stdout.starts_with("Seed of the day: "));
    let chosen = said(&[&drawn[..], &["--seed", "3"]].concat());
    assert!(!chosen.stdout.contains("Seed"), "{chosen:?}");
    assert!(!bench(&["1", "--threads", "1", "--locks", "std"]).stdout.contains("Seed"));
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
    names
        .split(", ")
        .filter(|name| *name != "main")
        .for_each(|name| assert!(help.contains(name), "{name} is not in the help"));
}

#[test]
fn a_collapsed_lock_does_not_hang_the_run() {
    let said = bench(&["1", "--threads", "32", "--locks", "spin-ticket"]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// A run can take ten minutes; a user who ends it does not wait for that.
#[test]
fn the_run_under_way_ends_with_the_command() {
    let args = ["bench", "--cs", "0", "--ncs", "0", "--seconds", "300", "--threads", "1"];
    let mut command = overlock(&[&args[..], &["--locks", "std", "--runs", "1"]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| has_run_under_way(child.id()));
    interrupt(child.id());
    wait_until(|| !has_run_under_way(child.id()));
    let said: Said = child.wait_with_output().unwrap().into();
    said.ends(130, "before the end of the first round");
}

/// `timeout` signals the whole process group, including the run under way.
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

fn has_run_under_way(pid: u32) -> bool {
    let is_run = |child: &String| {
        let line = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.contains("{\"Run\"")
    };
    children_of(pid).iter().any(is_run)
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
