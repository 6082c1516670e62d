//! Does the reference explain every name that the commands print?
//!
//! Each command runs shortly and prints JSON: all names of fields and of counters in it must be in
//! the first cell of a row of the page.

use crate::real;
use crate::said::explained;
use crate::support::{Said, experiment, said};

fn page() -> String {
    said(&["reference"]).stdout
}

/// Asserts that the page explains all names in the records, among them these.
#[track_caller]
pub(crate) fn knows(said: &Said, among: &[&str]) {
    said.is_explained(&page(), among);
}

#[test]
fn the_reference_knows_every_field_of_a_comparison() {
    let script = r#"[ "$OVERLOCK_LOCK" = ticket ] && exit 1; true"#;
    let flags = ["compare", "--runs", "6", "--json", "--locks", "libc,hybrid,ticket", "--"];
    let said = said(&[&flags[..], &["sh", "-c", script]].concat());
    knows(&said, &["run", "sample", "point", "failure", "verdict", "startup", "cpu_model"]);
}

#[test]
fn the_reference_knows_every_field_of_threads() {
    let factors = "locks = ['hybrid', 'parking-lot']\ncpus = [2]\nthen_ns = [1000, 0]\n\
                   uneven = 2\nlocks_count = 3\nbeside = [0, 1]\nsection_ns = [100]\nthink_ns = [0]";
    let (_folder, path) = experiment(factors, "pcpus = 0\nseconds = 0.02\nruns = 1");
    let kinds = ["run", "pair", "point", "summary", "advice", "check"];
    knows(&said(&["bench", &path, "--explain", "--check", "--json"]), &kinds);
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn the_reference_knows_every_field_of_vcpus_and_simulations() {
    let lab = ["bench", "--in", "sim", "--pcpus", "1", "--cpus", "3", "--json"];
    let short = ["--seconds", "0.02", "--runs", "1"];
    let factors = ["--locks", "native-ticket,ticket,hybrid", "--timeline", "2ms", "--check"];
    let yields = ["--policies", "all", "--explain"];
    let kinds = ["run", "point", "timeline", "check"];
    knows(&said(&[&lab[..], &short, &factors, &yields].concat()), &kinds);
    let timer = ["--workload", "pmtimer", "--locks", "hybrid"];
    knows(&said(&[&lab[..], &short, &timer].concat()), &["point"]);
    let share = "locks = ['hybrid']\ncpus = [3]\ncontention = [0.5]";
    let (_folder, path) = experiment(share, "pcpus = 1\nseconds = 0.02\nruns = 1");
    knows(&said(&["bench", "--in", "sim", &path, "--json"]), &["point"]);

    let sim = ["bench", "--in", "sim", "--json", "--seconds", "0.01", "--runs", "1"];
    let all = ["--pcpus", "2", "--cpus", "6", "--locks", "native-ticket,hybrid"];
    knows(&said(&[&sim[..], &all, &yields].concat()), &["run", "point"]);
    knows(&said(&[&sim[..], &["micro"]].concat()), &["published"]);
}

#[test]
fn the_reference_knows_every_field_of_torture_and_of_the_doctor() {
    let all = ["torture", "--lock", "all", "--for", "1s", "--steps", "2000", "--json"];
    knows(&said(&all), &["run", "torture"]);
    let broken = ["torture", "--lock", "broken-early-mark", "--for", "60s", "--json"];
    knows(&said(&broken), &["torture-failure"]);
    knows(&said(&["doctor", "--json"]), &["doctor"]);
}

#[test]
fn the_reference_knows_every_counter_of_the_library() {
    let record = real::counters("hybrid", &["mutex"]);
    let page = page();
    let page = explained(&page);
    for (group, value) in record.as_object().expect("an object") {
        let counters = value.as_object().map(|counters| counters.keys().collect::<Vec<_>>());
        for counter in counters.into_iter().flatten() {
            let name =
                if group == "events" { counter.clone() } else { format!("{group}.{counter}") };
            assert!(page.contains(&*name), "the reference does not explain {name}");
        }
        assert!(
            value.is_object() || page.contains(&**group),
            "the reference does not explain {group}"
        );
    }
}

#[test]
fn the_reference_answers_for_one_name() {
    let answer = |word: &str| said(&["reference", word]);
    assert!(answer("pv_wait_head").stdout.contains("the queue head halted"));
    assert!(answer("floor_ns").stdout.contains("without a lock"));
    for name in ["run", "compare", "bench"] {
        let help = said(&[name, "--help"]).stdout;
        assert!(help.contains("overlock reference"), "{name}: {help}");
    }
}
