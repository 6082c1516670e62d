//! Is a page complete, true to its records, safe to open, and clear about what it could not read?

mod support {
    pub(crate) mod records;
}

use overlock_results::page::{Drawing, Results};
use scraper::{ElementRef, Html, Selector};
use serde_json::{Value, json};
use support::records::{experiment, point, run};

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
