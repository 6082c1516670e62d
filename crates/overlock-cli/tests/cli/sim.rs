// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do `sim`, `reproduce`, `validate` and `calibrate` run, repeat, and refuse what makes no sense?

use crate::support::{Said, said};
use serde_json::Value;
use std::io::{Write, stderr};

fn sim(more: &[&str]) -> Said {
    said(&[&["sim", "--seconds", "0.01", "--runs", "2"], more].concat())
}

/// The records of points, without what the machine adds.
fn points(said: &Said) -> Vec<Value> {
    let mut points = said.records("point");
    for sample in points.iter_mut().flat_map(|point| point["samples"].as_array_mut().unwrap()) {
        sample["machine_steal"] = Value::Null;
    }
    points.iter_mut().for_each(|point| point["steal"] = Value::Null);
    points
}

#[test]
fn the_laboratorys_flags_measure_in_virtual_time_and_repeat_to_the_last_digit() {
    let more = ["--locks", "native-ticket,hybrid,hybrid-off", "--cpus", "4", "--json"];
    let one = sim(&more);
    assert_eq!(one.code, Some(0), "{one:?}");
    let points_of_one = points(&one);
    assert_eq!(points_of_one.len(), 6, "1x is measured along: {one:?}");
    for point in &points_of_one {
        assert_eq!((&point["world"], &point["pcpus"]), (&"sim".into(), &2.into()));
        assert!(point["ops_per_s"]["median"].as_f64().unwrap() > 0.0, "{point}");
    }
    assert_eq!(points_of_one, points(&sim(&more)), "the same command, other figures");
    let other = sim(&[&more[..], &["--seed", "2"]].concat());
    assert_ne!(points_of_one, points(&other), "another seed, the same figures");
}

#[test]
fn an_experiments_file_runs_unchanged_and_tables_are_those_of_the_laboratory() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/micro.toml");
    let said = sim(&["--experiment", file]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for part in ["2 pCPUs of the sim engine", "of 1x", "of_1x of hybrid", "published 0.800"] {
        assert!(said.stdout.contains(part), "'{part}' is not in {said:?}");
    }
}

#[test]
fn a_host_is_named_and_has_as_many_pcpus_as_it_has() {
    let said = sim(&["--host", "e5-2699v3", "--locks", "queued", "--cpus", "40", "--json"]);
    let points = said.records("point");
    assert!(points.iter().all(|point| point["pcpus"] == 36), "{said:?}");
    for (args, sentence) in [
        (&["--host", "e5-2699v3", "--pcpus", "37"][..], "has 36 pCPUs, not 37"),
        (&["--host", "atlantis"], "no host is called atlantis; there are dev-kvm"),
        (&["--host", "/nowhere/at-all.toml"], "can't read /nowhere/at-all.toml"),
        (&["--policies", "hope"], "no yield policy is called hope"),
    ] {
        let said = sim(args);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(sentence), "'{sentence}' is not in {said:?}");
    }
}

#[test]
fn bad_experiments_are_refused_with_line_and_expectation() {
    let folder = tempfile::tempdir().unwrap();
    let good = include_str!("../../experiments/s4-micro.toml");
    for (from, to, expected) in [
        ("[factors]", "[factors]\ncolour = 1", &["line ", "unknown field `colour`"][..]),
        ("slice_ns = 3000000", "slice_ns = -1", &["line ", "expected u64"]),
        ("pcpus = 36", "pcpus = 64", &["has 36 pCPUs, not 64"]),
        ("e5-2699v3", "atlantis", &["no host is called atlantis"]),
        ("cpus = [36, 54, 72]", "cpus = [36]", &["is about 54 vCPUs, which the factors"]),
        ("least_served", "luck", &["no figure is called luck"]),
    ] {
        assert!(good.contains(from), "{from}");
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
        let path = path.to_str().unwrap();
        let said = said(&["reproduce", "--quick", "--experiment", path]);
        assert_eq!(said.code, Some(2), "{said:?}");
        for part in expected {
            assert!(said.stderr.contains(part), "'{part}' is not in {said:?}");
        }
    }
}

#[test]
fn published_figures_stand_beside_ours_and_agreement_is_told() {
    let said = said(&["reproduce", "s3", "--quick", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let figures = said.records("reproduced");
    assert_eq!(figures.len(), 3, "{said:?}");
    for figure in figures {
        assert!(figure["published_ratio"].as_f64().unwrap() > 1.02, "{figure}");
        assert!(figure["ours"]["median"].as_f64().unwrap() > 0.0, "{figure}");
        assert!(["yes", "no"].contains(&figure["direction"].as_str().unwrap()), "{figure}");
    }
}

#[test]
fn what_calibrate_writes_is_a_host_that_validate_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("here.toml");
    let path = path.to_str().unwrap();
    let told = said(&["calibrate", "--engine", "threads", "--out", path]);
    if told.code != Some(0) && told.stderr.contains("one CPU only") {
        writeln!(stderr(), "SKIPPED calibrate and validate: {}", told.stderr).expect("stderr");
        return;
    }
    assert_eq!(told.code, Some(0), "{told:?}");
    let args = ["--engine", "threads", "--seconds", "0.01", "--runs", "1", "--cpus", "2,4"];
    let args = [&["validate", "--host", path, "--json", "--workload", "micro"], &args[..]].concat();
    let told = said(&args);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(told.records("validated").len(), 12, "{told:?}");
    assert_eq!(told.records("ranks").len(), 2, "{told:?}");
}
