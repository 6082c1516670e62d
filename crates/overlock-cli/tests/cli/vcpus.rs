//! Does `overlock bench` measure on vCPUs, explain itself, and refuse what makes no sense?

use crate::support::{Said, experiment, said, said_until, skip};
use overlock_bench::workload::Profile;
use overlock_results::locks::LOCKS;
use overlock_sim::POLICIES;
use serde_json::Value;
use std::collections::BTreeSet;

/// A simulation, as short as possible.
fn sim(more: &[&str]) -> Said {
    lab_for("0.02", "sim", more)
}

fn lab_for(seconds: &str, engine: &str, more: &[&str]) -> Said {
    said(&[&["bench", "--in", engine, "--seconds", seconds], more].concat())
}

/// Returns whether KVM works; if not, reports why, past the test harness's capture.
fn kvm_works(test: &str) -> bool {
    let doctor = said(&["doctor", "--json"]).records("doctor").remove(0);
    let findings = doctor["findings"].as_array().unwrap();
    let kvm = findings.iter().find(|finding| finding["name"] == "/dev/kvm").unwrap();
    let works = kvm.get("advice").is_none();
    if !works {
        skip(&format!("{test}: {}", kvm["found"]));
    }
    works
}

/// Checks the fields that every record of a point must have, whatever the result.
fn check_point(point: &Value, engine: &str, runs: usize) {
    assert_eq!(point["world"], engine, "{point}");
    let samples = point["samples"].as_array().unwrap();
    assert_eq!(samples.len(), runs, "{point}");
    let cpus = point["cpus"].as_u64().unwrap();
    for sample in samples {
        assert_eq!(sample["vcpus"].as_array().unwrap().len() as u64, cpus);
    }
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} in {point}"));
    let ops = &point["ops_per_s"];
    assert!(number(&ops["low"]) > 0.0 && number(&ops["low"]) <= number(&ops["high"]), "{point}");
    let jain = number(&point["jain"]);
    assert!((1.0 / cpus as f64 - 1e-9..=1.0 + 1e-9).contains(&jain), "{point}");
    let waits = ["p50", "p99", "p999"].map(|p| number(&point["wait_ns"][p]));
    assert!(waits.is_sorted(), "{point}");
    let used = number(&point["cpu_s_per_s"]);
    assert!(used > 0.0 && used <= number(&point["pcpus"]) * 1.2, "{point}");
    assert!(point["exits"].as_object().unwrap().contains_key("preemption"), "{point}");
    if cpus == point["pcpus"] {
        assert_eq!(number(&point["of_1x"]["median"]), 1.0, "{point}");
    }
}

fn names(points: &[Value]) -> BTreeSet<(String, u64, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let name = |point: &Value| {
        (text(&point["lock"]), point["cpus"].as_u64().unwrap(), text(&point["policy"]))
    };
    points.iter().map(name).collect()
}

fn measures_and_records(engine: &str) {
    let locks = "native-ticket,hybrid,hybrid-off";
    let more = ["--locks", locks, "--pcpus", "1", "--cpus", "3", "--runs", "2", "--json"];
    // On a busy machine a vCPU's thread can be without a processor for all of a short run.
    let all_ran =
        |said: &Said| said.records("point").iter().all(|point| point["ops_per_s"]["low"] != 0.0);
    let run = |time: &str| lab_for(time, engine, &more);
    let said = said_until(&["0.02", "0.1", "0.5", "2.5"], run, all_ran);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.records("run").len(), 1);
    let points = said.records("point");
    let cross = ["native-ticket", "hybrid", "hybrid-off"]
        .iter()
        .flat_map(|lock| [1, 3].map(|cpus| ((*lock).to_owned(), cpus, "none".to_owned())));
    assert_eq!(names(&points), cross.collect(), "one vCPU per pCPU is always measured");
    for point in &points {
        check_point(point, engine, 2);
        assert_eq!(point["paravirtual"], point["lock"] == "hybrid");
        assert_eq!(point["unfair_share"].is_null(), point["lock"] == "native-ticket");
    }
}

#[test]
fn simulations_measure_and_record() {
    measures_and_records("sim");
}

#[test]
fn kvm_measures_and_records() {
    if kvm_works("kvm_measures_and_records") {
        measures_and_records("kvm");
    }
}

#[test]
fn policies_are_measured_against_none_and_explained() {
    let more = ["--policies", "oracle", "--workload", "ebizzy", "--pcpus", "1", "--cpus", "3"];
    let json = sim(&[&more[..], &["--runs", "1", "--explain", "--json"]].concat());
    let points = json.records("point");
    let of = |policy: &str| {
        let mut points = points.iter().filter(|p| p["policy"] == policy && p["cpus"] == 3);
        points.next().unwrap_or_else(|| panic!("no {policy} in {json:?}"))
    };
    assert_eq!(of("none")["of_none"]["median"], 1.0);
    assert_eq!(of("none")["yields"], Value::Null, "a spinner is not asked");
    let oracle = of("oracle");
    assert_eq!(of("report")["of_report"]["median"], 1.0);
    assert!(of("report")["yields"]["stayed:policy-never"].as_u64().unwrap() > 0, "it is asked");
    assert!(oracle["of_none"]["median"].as_f64().unwrap() > 0.0, "{oracle}");
    assert!(oracle["yields"]["directed:true-holder"].as_u64().unwrap() > 0, "{oracle}");
    let sentences = oracle["explanation"].to_string();
    let parts =
        ["went into waiting for the one native-ticket lock", "the holder was off", "truly waited"];
    for part in parts {
        assert!(sentences.contains(part), "'{part}' is not in {sentences}");
    }
    let tables = sim(&[&more[..], &["--runs", "1", "--explain"]].concat());
    assert_eq!(tables.code, Some(0), "{tables:?}");
    let parts = [
        "native-ticket, oracle",
        "Yields: throughput over that of other policies",
        "Yields by reason code, as shares of the requests:",
        "directed: true-holder ",
        "Where the time went",
    ];
    for part in parts {
        assert!(tables.stdout.contains(part), "'{part}' is not in {tables:?}");
    }
}

#[test]
fn the_timer_is_read_under_every_rule() {
    let more = ["--workload", "pmtimer", "--pcpus", "1", "--cpus", "2", "--runs", "1", "--json"];
    let has_read = |point: &Value| point["timer_read_ns"]["median"].as_f64() > Some(0.0);
    let said = sim(&more);
    let points = said.records("point");
    let rules: BTreeSet<&str> = points.iter().map(|p| p["timer"].as_str().unwrap()).collect();
    assert_eq!(rules, BTreeSet::from(["mutex", "published", "refresh", "clamped", "lock-free"]));
    for point in &points {
        assert_eq!(point["lock"], "none", "{point}");
        assert_eq!(point["timer_backwards"], 0, "{point}");
        assert!(has_read(point), "{point}");
    }
}

/// At half of what hand-overs allow, the work between critical sections follows from a measured
/// limit; the limit itself is measured too if requested, and judged.
#[test]
fn contention_chooses_the_work_and_the_check_judges() {
    let factors = "locks = ['ticket', 'hand-over']\ncpus = [1, 3]\ncontention = [0.5, 1.0]";
    let (_folder, shares) = experiment(factors, "pcpus = 1\nruns = 1");
    let asked = sim(&[&shares, "--json"]);
    let points = asked.records("point");
    let think = |share: f64| {
        let mut points = points.iter().filter(|p| p["contention"] == share);
        points.next().unwrap_or_else(|| panic!("no {share} in {asked:?}"))["ncs_ns"]
            .as_f64()
            .unwrap()
    };
    // Both follow from one limit, to the microsecond.
    assert!((think(0.5) - 2.0 * think(1.0)).abs() <= 2000.0 && think(1.0) > 0.0, "{asked:?}");

    let more = ["--locks", "ticket,hand-over", "--pcpus", "1", "--cpus", "3", "--runs", "1"];
    let judged = sim(&[&more[..], &["--check", "--json"]].concat());
    let checks = judged.records("check");
    let bounds: Vec<&str> = checks.iter().map(|check| check["bound"].as_str().unwrap()).collect();
    assert_eq!(bounds, ["throughput over hand-over"], "{judged:?}");
    let missed = checks.iter().any(|check| check["verdict"] == "missed");
    assert_eq!(judged.code, Some(i32::from(missed)), "{judged:?}");

    let alone = ["--locks", "hybrid", "--pcpus", "1", "--cpus", "1", "--runs", "1", "--check"];
    sim(&alone).ends(2, "--check found nothing to judge");
}

#[test]
fn an_experiment_that_can_not_run_is_refused() {
    let factors = "locks = ['hybrid']\ncpus = [1]";
    let kvm = kvm_works("an_experiment_that_can_not_run_is_refused");
    for (world, factors, host, sentence) in [
        (
            "kvm",
            &*format!("{factors}\npolicies = ['report']"),
            "sample_ns = 1000",
            "leave no time to run",
        ),
        ("kvm", factors, "slice_ns = 1000", "shorter than its switch"),
        ("sim", &format!("{factors}\ntimers = ['sundial']"), "", "mine.toml:7: "),
    ] {
        let (_folder, path) = experiment(factors, host);
        if kvm || world == "sim" {
            said(&["bench", "--in", world, &path]).ends(2, sentence);
        }
    }
}

#[test]
fn the_help_knows_every_lock_policy_and_workload() {
    let help = said(&["bench", "--help"]).stdout;
    let words: BTreeSet<&str> = help.split([' ', ',', ':', '\n']).collect();
    let locks = LOCKS.into_iter().filter(|name| !name.starts_with("native-"));
    for name in locks.chain(POLICIES).chain(Profile::names()) {
        assert!(words.contains(name), "{name} is not in the help");
    }
}

/// A sample finds a spinner that reports nothing by its place, and asks the policy about it.
#[test]
fn a_spinner_that_reports_nothing_is_sampled() {
    let factors = "locks = ['native-ticket']\npolicies = ['round-robin']\ncpus = [3]";
    let asked = |sample_ns: u32| {
        let host = "pause_window_ns = 0\npcpus = 1\nseconds = 0.1\nruns = 1";
        let (_folder, path) = experiment(factors, &format!("{host}\nsample_ns = {sample_ns}"));
        let said = said(&["bench", "--in", "sim", &path, "--json"]);
        let points = said.records("point");
        let mut points = points.iter().filter(|p| p["policy"] == "round-robin" && p["cpus"] == 3);
        let point = points.next().unwrap_or_else(|| panic!("no such point in {said:?}"));
        assert_eq!(point["exits"]["long-spin"], 0, "{point}");
        point["yields"]["directed:next-in-turn"].as_u64() > Some(0)
    };
    // On a busy machine no sample may find the spinner in so short a run.
    assert!((0..20).any(|_| asked(500_000)));
    assert!(!asked(0));
}

#[test]
fn more_pcpus_than_cpus_are_refused() {
    if !kvm_works("more_pcpus_than_cpus_are_refused") {
        return;
    }
    let cpus = std::thread::available_parallelism().unwrap().get();
    let more = (cpus + 1).to_string();
    let refused = lab_for("0.02", "kvm", &["--pcpus", &more, "--cpus", &more, "--json"]);
    refused.ends(2, &format!("use --pcpus {cpus}, or simulate such a host by --in sim:HOST"));
    assert!(refused.records("point").is_empty(), "{refused:?}");
}
