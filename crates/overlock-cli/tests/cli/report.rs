//! Does `report` read and write the files that it is told to, and say what it could not?
//! The pages themselves are tested in `overlock-results`.

#[path = "../../../overlock-results/tests/support/records.rs"]
#[allow(dead_code, reason = "the tests of pages use more of it")]
mod records;

use crate::support::{Said, overlock, said};
use records::{experiment, point, run};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A folder with files of results.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Desk(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, records: &[Value]) -> PathBuf {
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        self.text(name, &(lines.join("\n") + "\n"))
    }

    fn text(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// Reports these files; returns the output, and the page if there is one.
    fn report(&self, files: &[&Path], more: &[&str]) -> (Said, Option<String>) {
        let page = self.path("page.html");
        let files: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
        let said = said(&[&["report", "-o", page.to_str().unwrap()], &files[..], more].concat());
        (said, fs::read_to_string(page).ok())
    }
}

#[test]
fn what_is_broken_is_named_and_the_rest_is_reported() {
    let desk = Desk::new();
    let good = desk.file("good.jsonl", &experiment("abc", 1.0));
    let cut = desk.text("cut.jsonl", &format!("{}\n{{\"kind\":\"poi", point("queued", 2, 4.0)));
    let (said, page) = desk.report(&[&good, &cut, &desk.path("absent.jsonl")], &[]);
    said.ends(2, "cut.jsonl:2: not a record: EOF while parsing a string");
    said.ends(2, "absent.jsonl: can't open it");
    let page = page.unwrap();
    assert!(page.contains("absent.jsonl: can't open"));
    assert!(page.contains(">queued</th>"), "the good line");
}

#[test]
fn without_results_there_is_no_page() {
    let desk = Desk::new();
    let empty = desk.text("empty.jsonl", "");
    let head = desk.file("head.jsonl", &[run("abc")]);
    let other = desk.text("other.txt", &"lorem ipsum\n".repeat(100));
    let binary = desk.path("binary");
    fs::write(&binary, [0xff_u8; 100]).unwrap();
    for (file, sentence) in [
        (&empty, "empty.jsonl: it is empty"),
        (&head, "there is nothing to report"),
        (&other, "other.txt: the rest is not read"),
        (&binary, "binary:1: this is not text"),
        (&desk.0.path().to_owned(), "can't read line 1"),
    ] {
        let (said, page) = desk.report(&[file], &[]);
        said.ends(2, sentence);
        assert_eq!(page, None, "{sentence}");
        assert!(said.stderr.lines().count() < 10, "{said:?}");
    }
}

#[test]
fn no_result_is_overwritten_or_counted_twice() {
    let desk = Desk::new();
    let good = desk.file("good.jsonl", &experiment("abc", 1.0));
    let kept = fs::read(&good).unwrap();
    desk.report(&[&good, &good], &[]).0.ends(2, "is named twice");
    let path = good.to_str().unwrap();
    said(&["report", path, "-o", path]).ends(2, "would be overwritten");
    assert_eq!(fs::read(&good).unwrap(), kept);
    said(&["report", path, "-o", "/no/such/folder/p.html"]).ends(2, "can't write /no/such/folder");
    said(&["report", path, "-o", "/dev/full"]).ends(2, "can't write /dev/full");
}

#[test]
fn a_check_names_bad_lines_and_judges_the_others() {
    let desk = Desk::new();
    let whole: String = experiment("abc", 1.0).iter().map(|row| format!("{row}\n")).collect();
    let check = |text: &str| {
        let file = desk.text("kept.jsonl", text);
        said(&["report", "--check", file.to_str().unwrap()])
    };
    check(&whole).ends(2, "there is nothing to judge");
    let of_1x = |of: f64| {
        let mut hybrid = point("hybrid", 8, 8e6);
        hybrid["of_1x"] = json!({"median": of, "low": of, "high": of});
        hybrid["samples"] = json!([{"ops_per_cpu": {"min": 20, "avg": 20.5, "max": 21}}]);
        hybrid["locks_count"] = json!(1);
        format!("{hybrid}\n").replace("micro", "one").replace("\"cs_ns\":1000", "\"cs_ns\":0")
    };
    check(&of_1x(0.9)).ends(0, "");
    check(&of_1x(0.5)).ends(1, "bounds missed");
    let half = format!("{{\n{}{{\"kind\":\"pair\",\"lock\":3}}\n", of_1x(0.9));
    let said = check(&half);
    said.ends(2, "kept.jsonl:1: not a record");
    assert!(said.stderr.contains("kept.jsonl:3: not a record"), "{said:?}");
    assert!(said.stdout.contains("bounds met"), "{said:?}");
}

#[test]
fn results_come_by_a_pipe_and_pages_go_by_one() {
    let mut child = overlock(&["report", "-", "-o", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let records: Vec<String> = experiment("abc", 1.0).iter().map(Value::to_string).collect();
    child.stdin.take().unwrap().write_all(records.join("\n").as_bytes()).unwrap();
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(0));
    assert!(said.stdout.starts_with("<!DOCTYPE html>"), "{said:?}");
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn vcpus_record_a_timeline() {
    let desk = Desk::new();
    let out = desk.path("lab.jsonl");
    let points =
        ["--locks", "ticket", "--cpus", "3", "--pcpus", "1", "--runs", "1", "--cs", "10us"];
    let how = ["--seconds", "0.1", "--timeline", "20ms", "--out"];
    let lab = [&["bench", "--in", "sim"], &points[..], &how, &[out.to_str().unwrap()]];
    let lab = said(&lab.concat());
    assert_eq!(lab.code, Some(0), "{lab:?}");
    let text = fs::read_to_string(&out).unwrap();
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |cpus: u64| {
        let mut all = records.iter().filter(|r| r["kind"] == "timeline" && r["cpus"] == cpus);
        all.next().unwrap_or_else(|| panic!("no timeline of {cpus} in {text}"))
    };
    assert!(
        records.iter().all(|r| r["kind"] != "point" || r["samples"].as_array().unwrap().len() == 1)
    );
    check_timeline(of(3));
    check_timeline(of(1));
    let (said, page) = desk.report(&[&out], &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(page.unwrap().matches("<figure class=\"timeline\"").count(), 2);
}

/// Checks what is true of any timeline: one vCPU on a pCPU at a time, each vCPU in one state at a
/// time, and critical sections in the order of their parts.
fn check_timeline(timeline: &Value) {
    let rows = |name: &str| timeline[name].as_array().unwrap().clone();
    let ns = |row: &Value, at: usize| row[at].as_u64().unwrap();
    let disjoint = |mut spans: Vec<(u64, u64)>| {
        spans.sort_unstable();
        assert!(spans.iter().all(|(from, to)| from <= to), "{spans:?}");
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
    };
    let stints = rows("stints");
    let spans = |which: &dyn Fn(&Value) -> bool| -> Vec<(u64, u64)> {
        stints.iter().filter(|row| which(row)).map(|row| (ns(row, 3), ns(row, 4))).collect()
    };
    disjoint(spans(&|row| row[2] == 0));
    for vcpu in 0..timeline["cpus"].as_u64().unwrap() {
        disjoint(spans(&|row| row[0] == vcpu));
        assert!(stints.iter().any(|row| row[0] == vcpu), "{vcpu} is missing");
    }
    assert!(stints.iter().any(|row| row[1] == "running" && row[2] == 0), "{stints:?}");
    let holds = rows("holds");
    assert!(!holds.is_empty());
    for hold in &holds {
        assert!(ns(hold, 2) <= ns(hold, 3) && ns(hold, 3) <= ns(hold, 4), "{hold}");
    }
    let held = |row: &&Value| row[1] == 0;
    disjoint(holds.iter().filter(held).map(|row| (ns(row, 3), ns(row, 4))).collect());
    let taken: Vec<u64> = holds.iter().map(|hold| ns(hold, 3)).collect();
    assert!(taken.is_sorted());
}
