//! Can files be read that the command wrote? `tests/data` has one of each verb, named after the day
//! of the version that wrote it; of long lists in them, most is left out.

use overlock_results::page::{Drawing, Recording, Results};
use scraper::{Html, Selector};
use std::fs;
use std::path::{Path, PathBuf};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Returns the names of all files of results, in order.
fn names() -> Vec<String> {
    let files = fs::read_dir(data()).unwrap().map(|file| file.unwrap().file_name());
    let names = files.map(|name| name.into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".jsonl")).collect();
    names.sort();
    names
}

fn read(name: &str) -> Results {
    let mut results = Results::default();
    results.read(name, fs::read(data().join(name)).unwrap().as_slice());
    results
}

/// Returns the text of a page, a line for each part of it.
fn text(page: &str) -> String {
    let page = Html::parse_document(page);
    assert!(page.errors.is_empty(), "{:?}", page.errors);
    let parts = "h1, h2, h3, pre, p, caption, summary, figcaption, desc, tr";
    let parts = Selector::parse(parts).unwrap();
    let lines = page.select(&parts).map(|part| {
        let words: Vec<&str> = part.text().map(str::trim).filter(|word| !word.is_empty()).collect();
        words.join(" ")
    });
    lines.filter(|line| !line.is_empty()).map(|line| line + "\n").collect()
}

#[test]
fn each_is_read_completely() {
    assert_eq!(names().len(), 6);
    for name in names() {
        let results = read(&name);
        assert_eq!(results.complaints, [""; 0], "{name}");
        assert!(results.runs.iter().all(Recording::has_results), "{name}");
        let page = text(&overlock_results::page::page(&results, None));
        assert!(!page.contains("NaN") && !page.contains("inf "), "{page}");
        let lines = fs::read_to_string(data().join(&name)).unwrap();
        let points = lines.lines().filter(|line| line.contains(r#""kind":"point""#)).count();
        assert!(results.extent().contains(&format!(" {points} point")), "{}", results.extent());
    }
}

#[test]
fn each_page_names_what_was_measured() {
    for (name, words) in [
        ("2026-11-26-bench", ["threads for each CPU", "lengths exp"]),
        ("2026-11-26-compare", ["How many times better than libc", "the price of preloading"]),
        ("2026-11-26-lab", ["vCPUs for each pCPU", "Timelines"]),
        ("2026-11-26-sim", ["Simulated on", "world sim, 2 pCPUs"]),
        ("2026-11-26-others", ["Torture", "What the machine offers"]),
        ("2026-11-29-trace", ["4 threads on 2 CPUs", "Waits for locks"]),
    ] {
        let page = overlock_results::page::page(&read(&format!("{name}.jsonl")), None);
        for word in words {
            assert!(page.contains(word), "'{word}' is not on the page of {name}");
        }
    }
}

#[test]
fn each_kind_of_chart_is_drawn_from_a_file() {
    for (name, kinds) in [
        ("2026-11-26-bench.jsonl", &[Drawing::Overcommit, Drawing::Waits, Drawing::Fairness][..]),
        (
            "2026-11-26-lab.jsonl",
            &[Drawing::Overcommit, Drawing::Waits, Drawing::Fairness, Drawing::Timeline],
        ),
    ] {
        for kind in kinds {
            assert!(
                overlock_results::page::picture(*kind, &read(name)).is_ok(),
                "{name}: {kind:?}"
            );
        }
    }
}

/// The page of a benchmark in words. If it was meant to change, write the file anew with
/// `OVERLOCK_BLESS=1 cargo test -p overlock-results`, and read the difference.
#[test]
fn a_page_says_what_it_said() {
    let page = text(&overlock_results::page::page(&read("2026-11-26-bench.jsonl"), None));
    let file = data().join("2026-11-26-bench.txt");
    // The version is that of this crate.
    if std::env::var_os("OVERLOCK_BLESS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    let known = fs::read_to_string(&file).unwrap();
    for (number, (line, known)) in page.lines().zip(known.lines()).enumerate() {
        assert_eq!(line, known, "line {}", number + 1);
    }
    assert_eq!(page.lines().count(), known.lines().count());
}
