// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is a page complete, true to its records, safe to open, and clear about what it could not read?

use crate::support::{Said, overlock, said};
use scraper::{ElementRef, Html, Selector};
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

    /// Returns the page of these files, which must be complete.
    fn page(&self, files: &[&Path]) -> Html {
        let (said, page) = self.report(files, &[]);
        assert_eq!(said.code, Some(0), "{said:?}");
        parsed(&page.unwrap())
    }
}

/// Checks a page that a browser reads without repairing it.
fn parsed(page: &str) -> Html {
    let html = Html::parse_document(page);
    assert!(html.errors.is_empty(), "{:?}", html.errors);
    html
}

fn all<'a>(page: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    page.select(&Selector::parse(selector).unwrap()).collect()
}

fn texts(page: &Html, selector: &str) -> Vec<String> {
    all(page, selector).iter().map(|element| element.text().collect()).collect()
}

fn run(commit: &str) -> Value {
    let machine = json!({"cpus": 2, "cpu_model": "Elbrus", "kernel": "6.1", "load_average": 0.1});
    let command = ["overlock", "lab", "--locks", "hybrid,ticket"];
    json!({"kind": "run", "version": "1.2.3", "commit": commit, "command": command, "seed": 7,
           "machine": machine})
}

fn point(lock: &str, cpus: u64, ops: f64) -> Value {
    json!({"kind": "point", "world": "kvm", "workload": "micro", "lock": lock, "policy": "none",
           "cpus": cpus, "pcpus": 2, "cs_ns": 1000, "ncs_ns": 0, "seconds": 0.5,
           "samples": [{}, {}, {}], "interval_coverage": 0.75, "jain": 0.987654,
           "ops_per_s": {"median": ops, "low": 0.9 * ops, "high": 1.1 * ops},
           "ops_per_cpu": {"min": 17, "avg": 20.5, "max": 31},
           "wait_ns": {"p50": 111, "p99": 2222, "p999": 33333, "max": 444444},
           "longest_stall_ns": 555555, "cpu_s_per_s": 1.75})
}

/// Four points of one run.
fn experiment(commit: &str, faster: f64) -> Vec<Value> {
    let points = [("hybrid", 2, 9e6), ("hybrid", 8, 8e6), ("ticket", 2, 7e6), ("ticket", 8, 3e4)];
    let points = points.map(|(lock, cpus, ops)| point(lock, cpus, ops * faster));
    [run(commit)].into_iter().chain(points).collect()
}

/// Collects every number in a record, at any depth.
fn numbers(value: &Value, found: &mut Vec<f64>) {
    match value {
        Value::Number(number) => found.push(number.as_f64().unwrap()),
        Value::Array(items) => {
            found.push(items.len() as f64);
            items.iter().for_each(|item| numbers(item, found));
        }
        Value::Object(fields) => fields.values().for_each(|field| numbers(field, found)),
        _ => {}
    }
}

#[test]
fn every_number_in_the_tables_is_one_of_the_records() {
    let desk = Desk::new();
    let records = experiment("abc", 1.0);
    let page = desk.page(&[&desk.file("a.jsonl", &records)]);
    let mut known = Vec::new();
    records.iter().for_each(|record| numbers(record, &mut known));
    let cells = all(&page, "table data");
    assert!(cells.len() >= 4 * 12, "{}", cells.len());
    for cell in cells {
        let value: f64 = cell.attr("value").unwrap().parse().unwrap();
        assert!(known.contains(&value), "{value} is in no record");
    }
    assert_eq!(all(&page, "table.points tbody tr").len(), 4);
    for raw in [0.987654, 17.0, 20.5, 31.0, 111.0, 33333.0, 555555.0, 1.75] {
        let shown =
            all(&page, "table data").iter().any(|d| d.attr("value") == Some(&raw.to_string()));
        assert!(shown, "{raw} is not shown");
    }
}

#[test]
fn the_page_says_what_was_measured_and_how_sure_it_is() {
    let desk = Desk::new();
    let page = desk.page(&[&desk.file("a.jsonl", &experiment("abc-dirty", 1.0))]);
    let about = texts(&page, "section.run").join(" ");
    for part in [
        "overlock lab --locks hybrid,ticket",
        "2 CPUs of Elbrus",
        "Linux 6.1",
        "commit abc",
        "seed 7",
        "3 rounds",
        "covers the true median with 75 %",
        "uncommitted changes",
        "3 rounds are too few",
    ] {
        assert!(about.contains(part), "'{part}' is not in {about}");
    }
    let charts: Vec<String> = texts(&page, "svg[role=img] > title");
    for part in ["Throughput against overcommit", "Waits, 8 vCPUs (4x)", "Fairness, 2 vCPUs (1x)"] {
        assert!(charts.iter().any(|title| title == part), "{part}: {charts:?}");
    }
    let description = texts(&page, "svg > desc").remove(0);
    let hybrid = "hybrid: 1x 9.00 M (8.10 M to 9.90 M), 4x 8.00 M (7.20 M to 8.80 M)";
    assert!(description.contains(hybrid), "{description}");
}

#[test]
fn runs_of_one_commit_are_pooled_and_others_stand_beside() {
    let desk = Desk::new();
    let one = desk.file("1.jsonl", &experiment("abc", 1.0));
    let two = desk.file("2.jsonl", &experiment("abc", 2.0));
    let other = desk.file("3.jsonl", &experiment("def", 0.5));
    let page = desk.page(&[&one, &two, &other]);
    // The median of 9 M and 18 M, from 0.9 of the one to 1.1 of the other; and half of it beside.
    let overcommit = all(&page, "div.wide > svg > desc");
    let told: Vec<String> = overcommit.iter().map(|desc| desc.text().collect()).collect();
    assert!(told[0].contains("hybrid: 1x 13.5 M (8.10 M to 19.8 M)"), "{told:?}");
    assert!(told[1].contains("hybrid: 1x 4.50 M (4.05 M to 4.95 M)"), "{told:?}");
    assert_eq!(texts(&page, "h3"), ["Runs A, B", "Run C"]);
    let row = texts(&page, "table.runs tbody tr").remove(0);
    for part in ["9.00 M", "18.0 M", "4.50 M", "4.00x"] {
        assert!(row.contains(part), "{part} is not in {row}");
    }
}

#[test]
fn nothing_in_a_record_becomes_markup() {
    let desk = Desk::new();
    let evil = "</title></style></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'>";
    let mut records = experiment(evil, 1.0);
    records[0]["command"] = json!(["overlock", evil]);
    records[0]["machine"]["cpu_model"] = json!(evil);
    records.push(point(evil, 2, 5.0));
    records.push(point(evil, 8, 4.0));
    let mut program = point(evil, 1, 5.0);
    (program["world"], program["workload"]) = (json!("process"), json!(evil));
    program["of_baseline"] = json!({"median": 1.0, "low": 0.9, "high": 1.1});
    (program["baseline"], program["metric"]) = (json!(evil), json!(evil));
    records.push(program);
    records.push(json!({"kind": "verdict", "sentence": evil, "lock": evil}));
    records.push(json!({"kind": evil, "field": evil, evil: {evil: evil}}));
    records.push(timeline(evil));
    let (said, page) = desk.report(&[&desk.file("evil.jsonl", &records)], &["--title", evil]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let page = parsed(&page.unwrap());
    assert_eq!((all(&page, "script").len(), all(&page, "img").len()), (1, 0));
    assert_eq!(all(&page, "[onerror]").len(), 0);
    assert!(!texts(&page, "script")[0].contains("alert"));
    assert_eq!(texts(&page, "h1"), [evil]);
    assert!(texts(&page, "table.points th[scope=row]").contains(&evil.to_owned()));
    let picture = said_picture(&desk, "overcommit", "evil.jsonl");
    let picture = roxmltree::Document::parse(&picture).unwrap();
    assert!(!picture.descendants().any(|node| node.has_tag_name("script")));
}

/// vCPU 0 loses its pCPU while it holds the lock.
fn timeline(lock: &str) -> Value {
    json!({"kind": "timeline", "world": "kvm", "workload": "micro", "lock": lock, "policy": lock,
           "cpus": 2, "pcpus": 1, "cs_ns": 0, "ncs_ns": 0, "from_ns": 0, "to_ns": 1000,
           "speed": 0.5, "holds": [[0, 0, 0, 100, 500], [1, 0, 250, 500, 900]],
           "stints": [[0, "running", 0, 0, 200], [0, "ready", null, 200, 400],
                      [1, "running", 0, 200, 400], [0, "running", 0, 400, 1000]]})
}

fn said_picture(desk: &Desk, kind: &str, name: &str) -> String {
    let (file, picture) = (desk.path(name), desk.path("picture.svg"));
    let paths = [file.to_str().unwrap(), "-o", picture.to_str().unwrap()];
    let said = said(&[&["report", "--chart", kind], &paths[..]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    fs::read_to_string(picture).unwrap()
}

#[test]
fn a_chart_alone_is_a_picture_that_explains_itself() {
    let desk = Desk::new();
    let mut records = experiment("abc", 1.0);
    records.push(timeline("hybrid"));
    desk.file("a.jsonl", &records);
    for kind in ["overcommit", "waits", "fairness", "timeline"] {
        let text = said_picture(&desk, kind, "a.jsonl");
        let picture = roxmltree::Document::parse(&text).unwrap();
        let root = picture.root_element();
        assert_eq!(root.tag_name().namespace(), Some("http://www.w3.org/2000/svg"), "{kind}");
        for name in ["title", "desc", "style"] {
            let part = root.children().find(|node| node.has_tag_name(name));
            assert!(
                part.and_then(|part| part.text()).is_some_and(|text| text.len() > 10),
                "{kind}"
            );
        }
        let bad = ["NaN", "inf"].into_iter().find(|bad| text.contains(bad));
        assert_eq!(bad, None, "{kind}");
    }
    let alone = desk.file("alone.jsonl", &[run("abc"), point("hybrid", 2, 1.0)]);
    desk.report(&[&alone], &["--chart", "overcommit"]).0.ends(2, "two numbers of vCPUs");
    desk.report(&[&alone], &["--chart", "timeline"]).0.ends(2, "lab --timeline records them");
}

#[test]
fn waits_are_drawn_from_all_of_them_where_the_records_have_them() {
    let desk = Desk::new();
    let corners = |point: Value| {
        let file = desk.file("w.jsonl", &[run("abc"), point]);
        let page = desk.page(&[&file]);
        let lines = all(&page, "svg .series path.line");
        let drawn = lines.iter().map(|line| line.attr("d").unwrap().matches('L').count() + 1);
        drawn.max().unwrap()
    };
    let four = point("hybrid", 2, 1.0);
    let mut whole = four.clone();
    let counts: Vec<_> = (0..20_u64).map(|n| json!([100 << n, 1 << (20 - n)])).collect();
    whole["wait_counts"] = json!(counts);
    assert_eq!(corners(four), 4, "percentiles only");
    // All but the last of them, which none exceeds; and the longest.
    assert_eq!(corners(whole), 20);
}

#[test]
fn a_timeline_tells_what_the_holder_lost() {
    let desk = Desk::new();
    let page = desk.page(&[&desk.file("t.jsonl", &[timeline("ticket")])]);
    let figure = texts(&page, "figure.timeline").join(" ");
    assert!(
        figure.contains("held for at most 80.0 % of the time, 20.0 % of the time by a"),
        "{figure}"
    );
    assert_eq!(all(&page, "figure.timeline svg.lanes > g").len(), 1 + 1 + 2);
    let stuck = all(&page, "svg.lanes path.stuck");
    assert!(stuck.iter().all(|path| path.attr("d").unwrap().starts_with("M200 ")));
    assert_eq!(stuck.len(), 2, "in the lane of the lock, and in that of the vCPU");
}

#[test]
fn the_page_needs_no_network_and_no_script() {
    let desk = Desk::new();
    let (_, page) = desk.report(&[&desk.file("a.jsonl", &experiment("abc", 1.0))], &[]);
    let page = page.unwrap();
    for part in ["src=", "url(", "@import", "<link", "<iframe", "href=\"http", "fetch("] {
        assert!(!page.contains(part), "{part}");
    }
    let page = parsed(&page);
    let policy = all(&page, "meta[http-equiv=Content-Security-Policy]");
    assert!(policy[0].attr("content").unwrap().starts_with("default-src 'none'"));
    assert!(all(&page, "html[lang] meta[name=viewport]").len() == 1);
    assert!(all(&page, "svg.chart").len() > 4 && all(&page, "noscript").is_empty());
}

#[test]
fn what_is_broken_is_named_and_the_rest_is_reported() {
    let desk = Desk::new();
    let good = desk.file("good.jsonl", &experiment("abc", 1.0));
    let cut = desk.text("cut.jsonl", &format!("{}\n{{\"kind\":\"poi", point("queued", 2, 4.0)));
    let (said, page) = desk.report(&[&good, &cut, &desk.path("absent.jsonl")], &[]);
    said.ends(2, "cut.jsonl:2: not a record: EOF while parsing a string");
    said.ends(2, "absent.jsonl: can't open it");
    let page = parsed(&page.unwrap());
    assert_eq!(texts(&page, "div.missing li").len(), 2);
    assert_eq!(all(&page, "table.points tbody tr").len(), 5, "the good file, and the good line");
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
        (&empty, "empty.jsonl: the file is empty"),
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
    said(&["report"]).ends(2, "<FILE>");
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
    assert_eq!(all(&parsed(&said.stdout), "table.points tbody tr").len(), 4);
}

/// Numbers that no run has, but that a file can contain.
#[test]
fn odd_numbers_break_no_chart() {
    let desk = Desk::new();
    let mut odd = vec![run("abc")];
    for (cpus, ops) in [(0, 0.0), (1, 0.0), (4_000_000_000_u64, 1e300), (2, -5.0)] {
        let mut point = point("hybrid", cpus, ops);
        point["jain"] = json!(-3);
        point["wait_ns"] = json!({"p50": 0, "p99": 0, "p999": 0, "max": u64::MAX});
        point["wait_counts"] = json!([[0, 0], [5, u64::MAX], [7, u64::MAX]]);
        point["ops_per_cpu"] = json!({"min": 0, "avg": 0.0, "max": u64::MAX});
        odd.push(point);
    }
    let (said, page) = desk.report(&[&desk.file("odd.jsonl", &odd)], &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let page = parsed(&page.unwrap());
    for path in all(&page, "svg [d]") {
        let drawn = path.attr("d").unwrap();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn the_laboratory_records_a_timeline() {
    let desk = Desk::new();
    let out = desk.path("lab.jsonl");
    let points =
        ["--locks", "ticket", "--cpus", "3", "--pcpus", "1", "--runs", "1", "--cs", "10us"];
    let how = ["--engine", "threads", "--seconds", "0.1", "--timeline", "20ms", "--out"];
    let lab = said(&[&["lab"], &points[..], &how, &[out.to_str().unwrap()]].concat());
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
    let page = desk.page(&[&out]);
    assert_eq!(all(&page, "figure.timeline").len(), 2);
    said_timeline_too_long();
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn said_timeline_too_long() {
    let long = ["lab", "--engine", "threads", "--seconds", "0.1", "--timeline", "60ms"];
    said(&long).ends(2, "longer than half a run");
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
