// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do simulations run, repeat, stand beside published figures, and refuse what makes no sense?

use crate::support::{Said, interrupt, overlock, said, send, skip, wait_until};
use serde_json::Value;
use std::process::{Child, Stdio};

fn sim(more: &[&str]) -> Said {
    said(&[&["bench", "--in", "sim", "--seconds", "0.01", "--runs", "2"], more].concat())
}

/// Returns all records as they were printed, but for that of the run, which names command and
/// machine.
fn points(said: &Said) -> Vec<&str> {
    let lines = said.stdout.lines();
    lines.filter(|line| !line.starts_with("{\"kind\":\"run\"")).collect()
}

#[test]
fn virtual_time_repeats_to_the_last_digit() {
    let more = ["--locks", "native-ticket,hybrid,hybrid-off", "--cpus", "4", "--json"];
    let one = sim(&more);
    assert_eq!(one.code, Some(0), "{one:?}");
    let points_of_one = one.records("point");
    assert_eq!(points_of_one.len(), 6, "1x is always measured: {one:?}");
    for point in &points_of_one {
        assert_eq!((&point["world"], &point["pcpus"]), (&"sim".into(), &2.into()));
        assert!(point["ops_per_s"]["median"].as_f64().unwrap() > 0.0, "{point}");
    }
    assert_eq!(points(&one), points(&sim(&more)), "the same command, other figures");
    let other = sim(&[&more[..], &["--seed", "2"]].concat());
    assert_ne!(points(&one), points(&other), "another seed, the same figures");
}

#[test]
fn an_experiments_file_runs_unchanged_and_tables_are_those_of_the_laboratory() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/micro.toml");
    let said = sim(&[file]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.stdout, sim(&["micro"]).stdout, "it is built in");
    for part in
        ["2 pCPUs, the host dev-kvm, simulated", "of 1x", "ops_per_s: hybrid over 2", "0.800"]
    {
        assert!(said.stdout.contains(part), "'{part}' is not in {said:?}");
    }
}

#[test]
fn a_host_is_named_and_has_as_many_pcpus_as_it_has() {
    let on = |host: &str, more: &[&str]| {
        let short = ["--seconds", "0.01", "--runs", "1", "--json"];
        said(&[&["bench", "--in", &format!("sim:{host}")], &short[..], more].concat())
    };
    let said = on("e5-2699v3", &["--locks", "queued", "--cpus", "40"]);
    let points = said.records("point");
    assert!(!points.is_empty() && points.iter().all(|point| point["pcpus"] == 36), "{said:?}");
    for (host, args, sentence) in [
        ("e5-2699v3", &["--pcpus", "37", "--cpus", "40"][..], "has 36 pCPUs, not 37"),
        ("atlantis", &[], "no host is called atlantis; there are dev-kvm"),
        ("/nowhere/at-all.toml", &[], "can't read /nowhere/at-all.toml"),
        ("dev-kvm", &["--policies", "hope"], "no yield policy is called hope"),
    ] {
        on(host, args).ends(2, sentence);
    }
}

#[test]
fn bad_experiments_are_refused_with_file_line_and_expectation() {
    let folder = tempfile::tempdir().unwrap();
    let good = include_str!("../../experiments/s4-micro.toml");
    let path = folder.path().join("mine.toml");
    let path = path.to_str().unwrap();
    for (from, to, at, expected) in [
        ("[factors]", "[factors]\ncolour = 1", "colour", "unknown field `colour`, expected one of"),
        ("slice_ns = 3000000", "slice_ns = -1", "slice_ns", "expected a whole number, 0 or more"),
        ("pcpus = 36", "pcpus = 64", "pcpus", "has 36 pCPUs, not 64; choose 1 to 36"),
        ("e5-2699v3", "atlantis", "machine", "no host is called atlantis; there are"),
        (
            "skip-spinners\"]",
            "skip-spinners\", \"hope\"]",
            "policies",
            "no yield policy is called hope; choose from",
        ),
        ("cpus = [36, 54, 72]", "cpus = [36]", "cpus = 54", "is about 54 vCPUs, which the factors"),
        (
            "least_served",
            "luck",
            "figure = \"luck",
            "there is no figure luck; choose from ops_per_s",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let bad = good.replacen(from, to, 1);
        let line = 1 + bad.lines().position(|line| line.starts_with(at)).unwrap();
        std::fs::write(path, bad).unwrap();
        let said = said(&["bench", path]);
        assert_eq!(said.code, Some(2), "{said:?}");
        // Where a path is long, the sentence continues on the next line.
        let text = said.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&format!("mine.toml:{line}: ")), "{line}: {said:?}");
        assert!(text.contains(expected), "'{expected}' is not in {said:?}");
    }
}

/// A sweep of twelve runs, in a folder.
fn sweep(folder: &std::path::Path, more: &[&str]) -> Said {
    let lists = ["--locks", "ticket,hybrid", "--cpus", "4,8", "--json", "--sweep"];
    sim(&[&lists[..], &[folder.to_str().unwrap()], more].concat())
}

#[test]
fn parts_of_a_sweep_merge_to_what_the_whole_of_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let parts = folder.path().join("parts");
    for number in ["2/3", "1/3", "3/3"] {
        let part = sweep(&parts, &["--shard", number]);
        assert_eq!(part.code, Some(0), "{part:?}");
        assert!(part.stderr.contains("0 runs found, 4 made"), "{part:?}");
        assert_eq!(points(&part).is_empty(), number != "3/3", "the last one has all: {part:?}");
    }
    let merged = sweep(&parts, &[]);
    assert!(merged.stderr.contains("12 runs found, 0 made"), "{merged:?}");
    let whole = sweep(&folder.path().join("whole"), &[]);
    assert!(whole.stderr.contains("0 runs found, 12 made"), "{whole:?}");
    assert_eq!(points(&whole).len(), 6, "{whole:?}");
    assert_eq!(points(&merged), points(&whole));
    // And what no sweep reports.
    let plain = sim(&["--locks", "ticket,hybrid", "--cpus", "4,8", "--json"]);
    assert_eq!(points(&merged), points(&plain));
    for shard in ["4/3", "half"] {
        sweep(&parts, &["--shard", shard]).ends(2, "choose 1/N to N/N, as in 2/4");
    }
}

#[test]
fn a_sweep_that_was_cut_off_is_taken_up_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let whole = sweep(folder.path(), &[]);
    let file = folder.path().join("part-1-of-1.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 12, "{text}");
    // As if killed in the middle of the sixth line.
    let five: usize = text.lines().take(5).map(|line| line.len() + 1).sum();
    std::fs::write(&file, &text[..five + 1000]).unwrap();
    let again = sweep(folder.path(), &[]);
    assert!(again.stderr.contains("5 runs found, 7 made"), "{again:?}");
    assert!(again.stderr.contains(".jsonl:6 is not a complete run"), "{again:?}");
    assert_eq!(points(&again), points(&whole));
    // Another seed is another sweep, in the same folder.
    let other = sweep(folder.path(), &["--seed", "2"]);
    assert!(other.stderr.contains("0 runs found, 12 made"), "{other:?}");
}

/// Starts long runs in two processes, and returns when both simulate.
fn endless(more: &[&str]) -> (Child, Vec<String>) {
    let runs = ["bench", "--in", "sim", "--seconds", "600", "--runs", "2", "--locks", "hybrid"];
    let mut command = overlock(&[&runs[..], &["--cpus", "4"], more].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id().to_string();
    wait_until(|| children_of(&id).len() == 2);
    let children = children_of(&id);
    (child, children)
}

/// Returns the processes that `parent` has started.
fn children_of(parent: &str) -> Vec<String> {
    let stat = |id: &String| std::fs::read_to_string(format!("/proc/{id}/stat")).ok();
    let parent_of = |stat: String| {
        let after_name = stat.rsplit_once(')')?.1.to_owned();
        after_name.split_whitespace().nth(1).map(str::to_owned)
    };
    let names = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = names.filter_map(|entry| entry.file_name().into_string().ok());
    ids.filter(|id| stat(id).and_then(parent_of).is_some_and(|id| id == parent)).collect()
}

#[test]
fn a_process_that_dies_is_an_error() {
    let (child, children) = endless(&[]);
    send("KILL", &children[0]);
    let said: Said = child.wait_with_output().unwrap().into();
    said.ends(2, "the process that simulated it has died");
    assert!(said.stderr.contains("signal: 9"), "{said:?}");
}

#[test]
fn an_impossible_simulation_is_refused_and_no_child_is_reported_dead() {
    let said = sim(&["--locks", "sequential-queued", "--cpus", "4,8"]);
    said.ends(2, "sequential-queued");
    assert!(!said.stderr.contains("signal") && !said.stderr.contains("died"), "{said:?}");
}

#[test]
fn an_interrupted_sweep_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    for (more, sentence) in [
        (
            &["--sweep", folder.path().to_str().unwrap()][..],
            "the same command continues from there",
        ),
        (&[], "0 of 4 runs were made, so there are no results; with --sweep FOLDER"),
    ] {
        let (child, _) = endless(more);
        interrupt(child.id());
        let said: Said = child.wait_with_output().unwrap().into();
        said.ends(130, sentence);
    }
}

#[test]
fn what_if_wants_a_point_to_compare_with() {
    sim(&["s3", "--what-if", "20%"]).ends(2, "--what-if needs a point with 16 vCPUs");
}

#[test]
fn what_if_finds_where_a_lock_breaks_down() {
    let locks = ["--locks", "native-ticket,hybrid", "--workload", "kernbench", "--seconds", "0.05"];
    let asked = |more: &[&str]| {
        let short = ["bench", "--in", "sim", "--runs", "1", "--json"];
        let said = said(&[&short, &locks[..], more].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        let answers = said.records("what-if");
        assert_eq!(answers.len(), 2, "{said:?}");
        answers
    };
    let answers = asked(&["--what-if", "30%", "--cpus", "2,4,6"]);
    let up_to = |answer: &Value| answer["cpus"].as_u64();
    assert_eq!([up_to(&answers[0]), up_to(&answers[1])], [Some(2), Some(2)], "{answers:?}");
    // Spinners lose throughput; those that halt have at first only longer tails.
    for (answer, figure) in answers.iter().zip(["throughput", "p99.9"]) {
        assert!(answer["fails_by"].as_str().unwrap().starts_with(figure), "{answers:?}");
    }
    let said = sim(&["--what-if", "5", "--pcpus", "2", "--locks", "hybrid"]);
    let tried: Vec<_> = said.stdout.lines().filter(|l| l.contains("hybrid")).collect();
    assert!(tried.len() > 8 && said.stdout.contains("What if: "), "its own ladder: {said:?}");
}

/// Two runs of a part of S1. The figures of the experiments are below.
#[test]
fn published_figures_stand_beside_ours_and_a_verdict_that_changes_fails_the_check() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables/published.toml");
    let checked = |path: &str| said(&["bench", path, "--in", "sim", "--check", "--json"]);
    let good = checked(file);
    good.ends(0, "");
    let figures = good.records("published");
    assert_eq!(figures.len(), 4, "{good:?}");
    for figure in figures {
        assert!(figure["published_ratio"].as_f64().unwrap() > 0.95, "{figure}");
        assert!(figure["ours"]["median"].as_f64().unwrap() > 0.0, "{figure}");
        let effect = figure["published_effect"].as_f64().unwrap();
        assert!((0.01..0.05).contains(&effect.abs()), "{figure}");
        let verdict = [&figure["direction"], &figure["size"]];
        assert_eq!(verdict, [&figure["pinned"][0], &figure["pinned"][1]], "{figure}");
    }
    // A pin that says otherwise.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(&path, text.replacen("pinned = [\"yes", "pinned = [\"no", 1)).unwrap();
    let bad = checked(path.to_str().unwrap());
    bad.ends(1, "changed: ops_per_s: published-ticket-off over native-ticket");
    assert!(bad.stderr.contains("direction/size was NO/yes, is yes/yes"), "{bad:?}");
    assert!(bad.stderr.contains("published 0.967, ours 1."), "both figures: {bad:?}");
}

/// Experiments with published figures, each with what makes it shorter and has the same verdicts.
const PUBLISHED: [(&str, &[&str]); 9] = [
    ("s1", &["--runs", "1"]),
    ("s2-kernbench", &["--seconds", "0.02"]),
    ("s2-oltp", &[]),
    ("s2-ebizzy", &["--seconds", "0.02"]),
    ("s3", &["--runs", "1", "--seconds", "0.01"]),
    ("s4-36-cores", &["--seconds", "0.2"]),
    ("s4-16-cores", &["--runs", "1"]),
    ("s4-micro", &["--seconds", "0.25"]),
    ("s5", &["--runs", "1", "--seconds", "0.02"]),
];

/// Simulations are functions of their files: a change of a verdict is a change of a lock or of the
/// model, and has to be looked at. With `OVERLOCK_VERIFY`, they are as long as their files say.
#[test]
fn the_verdicts_are_those_that_were_examined() {
    let whole = std::env::var_os("OVERLOCK_VERIFY").is_some();
    for (name, shorter) in PUBLISHED {
        let shorter = if whole { &[] } else { shorter };
        let said = said(&[&["bench", name, "--check"], shorter].concat());
        said.ends(0, "");
        assert!(said.stdout.contains(", of which 0 have changed"), "{said:?}");
    }
}

#[test]
fn what_the_doctor_calibrates_is_a_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("here.toml");
    let path = path.to_str().unwrap();
    let told = said(&["doctor", "--calibrate", path]);
    if told.code != Some(0) && told.stderr.contains("only one CPU") {
        return skip(&format!("calibration: {}", told.stderr));
    }
    assert_eq!(told.code, Some(0), "{told:?}");
    let short = ["--locks", "hybrid", "--cpus", "4", "--seconds", "0.01", "--runs", "1", "--json"];
    let simulated = said(&[&["bench", "--in", &format!("sim:{path}")], &short[..]].concat());
    assert_eq!(simulated.records("point").len(), 2, "{simulated:?}");
}

#[test]
fn a_profile_that_cannot_be_written_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let calibrate =
        |path: &std::path::Path| said(&["doctor", "--calibrate", path.to_str().unwrap()]);
    // Before anything is measured.
    let told = calibrate(&folder.path().join("no/such/folder"));
    assert_eq!(told.stdout, "", "{told:?}");
    told.ends(2, "no/such/folder: No such file");
    // Afterwards: this file can be opened, but not written.
    let told = calibrate(std::path::Path::new("/dev/full"));
    if told.stderr.contains("only one CPU") {
        return skip(&format!("in part: {}", told.stderr));
    }
    told.ends(2, "can't write /dev/full: No space left on device");
    assert!(told.stdout.contains("\n[costs]\n"), "{told:?}");
}
