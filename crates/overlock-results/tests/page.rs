//! Is a page complete, true to its records, safe to open, and clear about what it could not read?

mod support {
    pub(crate) mod records;
}

use overlock_results::page::{Drawing, Results};
use scraper::{ElementRef, Html, Selector};
use serde_json::{Value, json};
use support::records::{experiment, point, run};

/// Reads files, each with its name.
fn read(files: &[(&str, &str)]) -> Results {
    let mut results = Results::default();
    for (name, text) in files {
        results.read(name, text.as_bytes());
    }
    results
}

fn text(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

/// Returns the page of these records, which must be complete.
fn page(records: &[Value]) -> Html {
    let results = read(&[("a.jsonl", &text(records))]);
    assert_eq!(results.complaints, [""; 0]);
    parsed(&overlock_results::page::page(&results, None))
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
    let records = experiment("abc", 1.0);
    let page = page(&records);
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
    let page = page(&experiment("abc-dirty", 1.0));
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
    let [one, two, other] =
        [("abc", 1.0), ("abc", 2.0), ("def", 0.5)].map(|(of, ops)| text(&experiment(of, ops)));
    let results = read(&[("1", &one), ("2", &two), ("3", &other)]);
    let page = parsed(&overlock_results::page::page(&results, None));
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
    let results = read(&[(evil, &text(&records))]);
    let page = parsed(&overlock_results::page::page(&results, Some(evil)));
    assert_eq!((all(&page, "script").len(), all(&page, "img").len()), (1, 0));
    assert_eq!(all(&page, "[onerror]").len(), 0);
    assert!(!texts(&page, "script")[0].contains("alert"));
    assert_eq!(texts(&page, "h1"), [evil]);
    assert!(texts(&page, "table.points th[scope=row]").contains(&evil.to_owned()));
    let picture = overlock_results::page::picture(Drawing::Overcommit, &results).unwrap();
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

#[test]
fn a_chart_alone_is_a_picture_that_explains_itself() {
    let mut records = experiment("abc", 1.0);
    records.push(timeline("hybrid"));
    let results = read(&[("a.jsonl", &text(&records))]);
    for (kind, name, _) in Drawing::ALL {
        assert_eq!(Drawing::named(name), Some(kind));
        let text = overlock_results::page::picture(kind, &results).unwrap();
        let picture = roxmltree::Document::parse(&text).unwrap();
        let root = picture.root_element();
        assert_eq!(root.tag_name().namespace(), Some("http://www.w3.org/2000/svg"), "{kind:?}");
        for name in ["title", "desc", "style"] {
            let part = root.children().find(|node| node.has_tag_name(name));
            assert!(
                part.and_then(|part| part.text()).is_some_and(|text| text.len() > 10),
                "{kind:?}"
            );
        }
        let bad = ["NaN", "inf"].into_iter().find(|bad| text.contains(bad));
        assert_eq!(bad, None, "{kind:?}");
    }
    let alone = read(&[("a.jsonl", &text(&[run("abc"), point("hybrid", 2, 1.0)]))]);
    let why = |kind| overlock_results::page::picture(kind, &alone).unwrap_err().to_string();
    assert!(why(Drawing::Overcommit).contains("two numbers of vCPUs"));
    assert!(why(Drawing::Timeline).contains("bench --timeline records them"));
}

#[test]
fn waits_are_drawn_from_all_of_them_where_the_records_have_them() {
    let corners = |point: Value| {
        let page = page(&[run("abc"), point]);
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
    let page = page(&[timeline("ticket")]);
    let figure = texts(&page, "figure.timeline").join(" ");
    assert!(figure.contains("held for at most 80.0 % of the time, 20.0 % by a vCPU"), "{figure}");
    assert_eq!(all(&page, "figure.timeline svg.lanes > g").len(), 1 + 1 + 2);
    let stuck = all(&page, "svg.lanes path.stuck");
    assert!(stuck.iter().all(|path| path.attr("d").unwrap().starts_with("M200 ")));
    assert_eq!(stuck.len(), 2, "in the lane of the lock, and in that of the vCPU");
}

#[test]
fn the_page_needs_no_network() {
    let results = read(&[("a.jsonl", &text(&experiment("abc", 1.0)))]);
    let page = overlock_results::page::page(&results, None);
    for part in ["src=", "url(", "@import", "<link", "<iframe", "href=\"http", "fetch("] {
        assert!(!page.contains(part), "{part}");
    }
    let page = parsed(&page);
    let policy = all(&page, "meta[http-equiv=Content-Security-Policy]");
    assert!(policy[0].attr("content").unwrap().starts_with("default-src 'none'"));
    assert!(all(&page, "html[lang] meta[name=viewport]").len() == 1);
    assert!(all(&page, "svg.chart").len() > 4 && all(&page, "noscript").is_empty());
}

/// Numbers that no run has, but that a file can contain.
#[test]
fn odd_numbers_break_no_chart() {
    let mut odd = vec![run("abc")];
    for (cpus, ops) in [(0, 0.0), (1, 0.0), (4_000_000_000_u64, 1e300), (2, -5.0)] {
        let mut point = point("hybrid", cpus, ops);
        point["jain"] = json!(-3);
        point["wait_ns"] = json!({"p50": 0, "p99": 0, "p999": 0, "max": u64::MAX});
        point["wait_counts"] = json!([[0, 0], [5, u64::MAX], [7, u64::MAX]]);
        point["ops_per_cpu"] = json!({"min": 0, "avg": 0.0, "max": u64::MAX});
        odd.push(point);
    }
    let page = page(&odd);
    for path in all(&page, "svg [d]") {
        let drawn = path.attr("d").unwrap();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}

/// Three threads of a program on two CPUs, as `trace` writes them: thread 1 holds the lock, loses
/// its CPU, and runs on; thread 0 waits for it, and thread 2 takes the lock past it.
fn threads() -> Value {
    json!({"kind": "timeline", "world": "trace", "workload": "preload", "lock": "put (cache.c:88)",
           "policy": "none", "cpus": 3, "pcpus": 2, "cs_ns": 0, "ncs_ns": 0, "speed": null,
           "from_ns": 1_000_000, "to_ns": 3_000_000,
           "stints": [[0, "running", 0, 1_000_000, 1_200_000], [0, "halted", null, 1_200_000, 2_600_000],
                      [0, "running", 0, 2_600_000, 3_000_000], [1, "running", 1, 1_000_000, 1_500_000],
                      [1, "ready", null, 1_500_000, 2_000_000], [1, "running", 0, 2_000_000, 2_600_000],
                      [2, "running", 1, 1_500_000, 3_000_000]],
           "holds": [[1, 0, 1_100_000, 1_100_000, 2_200_000], [2, 0, 2_200_000, 2_300_000, 2_400_000],
                     [0, 0, 1_150_000, 2_600_000, 2_900_000]]})
}

#[test]
fn threads_are_drawn_on_their_cpus_and_with_their_locks() {
    let page = page(&[run("1"), threads()]);
    let title = &texts(&page, "figure.timeline figcaption")[0];
    assert!(
        title.contains("3 threads on 2 CPUs, 2.00 ms around the longest wait, at put"),
        "{title}"
    );
    let names = texts(&page, "svg text.name");
    assert_eq!(names, ["CPU 0", "CPU 1", "lock", "thread 0", "thread 1", "thread 2"]);
    let said = &texts(&page, "figure.timeline + *, figure.timeline p.note").join(" ");
    assert!(said.contains("25.0 % by a thread without a CPU"), "{said}");
    assert!(!texts(&page, "ul.legend").join(" ").contains("vCPU"));
}
