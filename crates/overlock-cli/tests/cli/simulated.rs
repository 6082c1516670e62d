//! Do simulations run, repeat, stand beside published figures, and refuse what makes no sense?

use crate::support::{Said, children_of, interrupt, overlock, said, send, skip, wait_until};
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
fn an_experiments_file_runs_and_its_published_figures_stand_beside_ours() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/micro.toml");
    let tables = sim(&[file]);
    assert_eq!(tables.code, Some(0), "{tables:?}");
    assert_eq!(tables.stdout, sim(&["micro"]).stdout, "it is built in");
    for part in
        ["2 pCPUs, the host dev-kvm, simulated", "of 1x", "ops_per_s: hybrid over 2", "0.800"]
    {
        assert!(tables.stdout.contains(part), "'{part}' is not in {tables:?}");
    }
    let json = sim(&[file, "--json"]);
    let points = json.records("point");
    assert_eq!(points.len(), 12, "three locks, two numbers of vCPUs, two lengths");
    assert!(points.iter().all(|point| point["slice_ns"] == 1_000_000 && point["pcpus"] == 2));
    let [figure] = &json.records("published")[..] else { panic!("one figure: {json:?}") };
    assert_eq!((&figure["figure"], &figure["value"]), (&"ops_per_s".into(), &0.8.into()));
    assert!(figure["ours"]["median"].as_f64().unwrap() > 0.0, "{figure}");
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
    let asked = on("dev-kvm", &["--policies", "hope"]);
    asked.ends(2, "no yield policy is called hope");
}

#[test]
fn bad_experiments_are_refused_with_file_line_and_expectation() {
    let folder = tempfile::tempdir().unwrap();
    let good = include_str!("../../../../papers/experiments/s4-micro.toml");
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

/// Without `--check`, each part measures its own points as the whole measures them.
#[test]
fn parts_have_together_the_points_of_the_whole() {
    let lists = ["--locks", "ticket,hybrid", "--cpus", "4", "--cs", "0,200ns,1us", "--json"];
    let part = |shard: &[&str]| {
        let said = sim(&[&lists[..], shard].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        points(&said).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let whole = part(&[]);
    let (first, second) = (part(&["--shard", "1/2"]), part(&["--shard", "2/2"]));
    assert_eq!([whole.len(), first.len(), second.len()], [12, 8, 4], "three groups of four");
    assert_eq!([&first[..4], &second, &first[4..]].concat(), whole);
}

/// Starts long runs in two processes, and returns when both simulate.
fn endless(more: &[&str]) -> (Child, Vec<String>) {
    let runs = ["bench", "--in", "sim", "--seconds", "600", "--runs", "2", "--locks", "hybrid"];
    let mut command = overlock(&[&runs[..], &["--cpus", "4"], more].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| children_of(child.id()).len() == 2);
    let children = children_of(child.id());
    (child, children)
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
fn an_interrupted_simulation_says_how_far_it_came() {
    let (child, _) = endless(&[]);
    interrupt(child.id());
    let said: Said = child.wait_with_output().unwrap().into();
    said.ends(130, "0 of 4 runs were made, so there are no results");
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
