//! The tables of published figures beside ours, from the rows of `overlock bench s1 s3 ...`.

use serde_json::Value;

use super::{Kept, table, three};

fn rows(kept: &[Kept]) -> Vec<&Value> {
    kept.iter().flat_map(|file| file.of("published")).collect()
}

fn word<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or("-")
}

fn number(of: &Value) -> String {
    match of.as_f64() {
        Some(value) if value.abs() >= 1000.0 => format!("{:.2} M", value / 1e6),
        Some(value) => three(value),
        None => "-".into(),
    }
}

/// How often each experiment agrees.
pub(super) fn scores(kept: &[Kept]) -> String {
    let rows = rows(kept);
    let mut names: Vec<&str> = rows.iter().map(|row| word(row, "experiment")).collect();
    names.dedup();
    let score = |name: Option<&str>, field: &str| {
        let own = rows.iter().filter(|row| name.is_none_or(|name| row["experiment"] == name));
        let verdicts: Vec<&str> = own.map(|row| word(row, field)).collect();
        let count = |verdict| verdicts.iter().filter(|of| **of == verdict).count();
        format!("{} of {}", count("yes"), count("yes") + count("no"))
    };
    let of = |name: Option<&str>| {
        let title = name.unwrap_or("all").to_owned();
        vec![title, score(name, "direction"), score(name, "size")]
    };
    let all = (!names.is_empty()).then(|| of(None));
    let lines = names.iter().map(|name| of(Some(name))).chain(all);
    table(&["experiment", "directions that agree", "sizes within a quarter"], lines)
}

/// What a row compares.
fn what(row: &Value) -> String {
    let timer = row["timer"].as_str();
    let mut own = vec![timer.unwrap_or_else(|| word(row, "lock")).to_owned()];
    own.extend(row["policy"].as_str().filter(|policy| *policy != "none").map(str::to_owned));
    let over = &row["over"];
    let fields = ["lock", "policy", "timer"];
    let mut base: Vec<String> =
        fields.iter().filter_map(|field| over[field].as_str()).map(str::to_owned).collect();
    base.extend(over["cpus"].as_u64().map(|cpus| format!("{cpus} vCPUs")));
    let over = if base.is_empty() { String::new() } else { format!(" over {}", base.join(", ")) };
    format!("`{}`: {}{over}", word(row, "figure"), own.join(", "))
}

/// Every figure.
pub(super) fn figures(kept: &[Kept]) -> String {
    let line = |row: &&Value| {
        vec![
            word(row, "experiment").to_owned(),
            what(row),
            row["cpus"].to_string(),
            number(&row["published_ratio"]),
            number(&row["ours"]["median"]),
            word(row, "direction").to_owned(),
            word(row, "size").to_owned(),
            number(&row["beside"]["median"]),
        ]
    };
    let head = [
        "experiment",
        "figure",
        "vCPUs",
        "published",
        "simulated",
        "direction",
        "size",
        "our lock",
    ];
    table(&head, rows(kept).iter().map(line))
}

/// The reasons that the experiments' files give for what differs.
pub(super) fn reasons(kept: &[Kept]) -> String {
    let rows = rows(kept);
    let misses = rows.iter().filter(|row| row["direction"] == "no" || row["size"] == "no");
    let mut lines: Vec<Vec<String>> = misses
        .filter_map(|row| {
            Some(vec![word(row, "experiment").to_owned(), row["note"].as_str()?.to_owned()])
        })
        .collect();
    lines.sort();
    lines.dedup();
    table(&["experiment", "why some of it differs"], lines)
}
