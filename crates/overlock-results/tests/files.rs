//! Can files be read that the command wrote? `tests/data` has one of each verb, named after the day
//! of the version that wrote it; of long lists in them, most is left out. `made.jsonl` is made up:
//! it has of everything that pages treat in its own way.

use overlock_results::page::{Recording, Results};
use scraper::{Html, Selector};
use std::fs;
use std::path::{Path, PathBuf};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

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
        let tone = part.attr("class").filter(|class| class.starts_with("sentence"));
        tone.map(|tone| format!("({tone}) ")).unwrap_or_default() + &words.join(" ")
    });
    lines.filter(|line| !line.is_empty()).map(|line| line + "\n").collect()
}

#[test]
fn each_is_read_completely() {
    assert_eq!(names().len(), 7);
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

/// The pages in words. If they were meant to change, write the files anew with
/// `OVERLOCK_BLESS=1 cargo test -p overlock-results`, and read the difference.
#[test]
fn pages_say_what_they_said() {
    let mut changed = String::new();
    for name in names() {
        let page = text(&overlock_results::page::page(&read(&name), None));
        let file = data().join(&name).with_extension("txt");
        if std::env::var_os("OVERLOCK_BLESS").is_some() {
            fs::write(&file, &page).unwrap();
        }
        let known = fs::read_to_string(&file).unwrap();
        let lines = page.lines().zip(known.lines()).filter(|(line, known)| line != known);
        changed.extend(lines.map(|(line, known)| format!("{name}: {line}\nand not: {known}\n")));
        if page.lines().count() != known.lines().count() {
            changed += &format!("{name}: more or fewer lines\n");
        }
    }
    assert!(changed.is_empty(), "{changed}");
}
