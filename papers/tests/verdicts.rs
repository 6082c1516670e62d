//! Do the published figures stand beside ours as they were examined?

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

#[path = "../../crates/overlock-cli/tests/cli/said.rs"]
#[allow(dead_code, reason = "it serves the tests of other programs too")]
mod heard;
use heard::{Said, skip};

fn said(args: &[&str]) -> Said {
    Command::new(env!("CARGO_BIN_EXE_overlock-papers")).args(args).output().unwrap().into()
}

/// Two runs of a part of S1. The figures of the experiments are below.
#[test]
fn published_figures_stand_beside_ours_and_a_verdict_that_changes_fails_the_check() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/overlock-cli/tests/tables/published.toml");
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
    assert!(bad.stderr.contains("direction was NO, is yes"), "{bad:?}");
    assert!(bad.stderr.contains("published 0.967, ours 1."), "both figures: {bad:?}");
}

/// Experiments with published figures, each with what makes it shorter and has the same verdicts.
const PUBLISHED: [(&str, &[&str]); 9] = [
    ("s1", &["--runs", "1"]),
    ("s2-kernbench", &["--runs", "1", "--seconds", "0.02"]),
    ("s2-oltp", &["--runs", "1"]),
    ("s2-ebizzy", &["--runs", "1", "--seconds", "0.02"]),
    ("s3", &["--runs", "1"]),
    ("s4-36-cores", &["--runs", "3"]),
    ("s4-16-cores", &["--runs", "1"]),
    ("s4-micro", &["--runs", "1"]),
    ("s5", &["--runs", "1", "--seconds", "0.02"]),
];

/// Simulations are functions of their files: a change of a verdict is a change of a lock or of the
/// model, and has to be looked at. With fewer seeds than the files have, less is told, and only a
/// yes that becomes a no counts. With `OVERLOCK_VERIFY`, they are as long as their files say.
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

/// A published host has more processors than this machine: its overcommit is kept.
#[test]
fn published_experiments_run_on_real_vcpus_at_the_same_overcommit() {
    if std::fs::File::options().read(true).write(true).open("/dev/kvm").is_err() {
        return skip("published figures on real vCPUs: there is no /dev/kvm that may be opened");
    }
    let short = ["--in", "kvm", "--seconds", "0.02", "--runs", "1", "--json"];
    let said = said(&[&["bench", "s4-micro", "s3"][..], &short].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    let figures = said.records("published");
    let over = |name: &str| -> BTreeSet<u64> {
        let own = figures.iter().filter(|figure| figure["experiment"] == name);
        let number = |figure: &Value, name: &str| figure[name].as_u64().unwrap();
        own.map(|of| 1000 * number(of, "ours_cpus") / number(of, "ours_pcpus")).collect()
    };
    let micro = over("s4-micro");
    assert!(micro.contains(&1000) && micro.contains(&2000), "1x and 2x: {said:?}");
    assert!(micro.is_subset(&BTreeSet::from([1000, 1500, 2000])), "{said:?}");
    // On one pCPU none of S3's numbers of vCPUs, a quarter to three quarters, is whole.
    assert!(over("s3").is_subset(&BTreeSet::from([500])), "{said:?}");
    for charged in figures.iter().filter(|figure| figure["experiment"] == "s3") {
        assert_eq!(charged["over"]["lock"], "published-queued-full", "{charged}");
    }
}
