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
        Some(value) if value.abs() >= 1000.0 => format!("{:.2} M/s", value / 1e6),
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

/// A published value as its source gives it.
fn given(row: &Value, value: &Value) -> Option<String> {
    let value = value.as_f64()?;
    let unit = row["unit"].as_str().map_or_else(String::new, |unit| format!(" {unit}"));
    Some(format!("{value}{unit}"))
}

/// What was published: the value, its base, and the ratio of the two.
fn published(row: &Value) -> String {
    let Some(value) = given(row, &row["value"]) else { return "no figure".into() };
    match row["over"]["value"].as_f64() {
        Some(base) => format!("{value} against {base}: {}", number(&row["published_ratio"])),
        None => value,
    }
}

/// What a row compares: the figure, of what, over what.
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
    let cpus = row["cpus"].as_u64().map_or_else(String::new, |cpus| format!(", {cpus} vCPUs"));
    format!("`{}`: {}{over}{cpus}", word(row, "figure"), own.join(", "))
}

/// The reasons that the experiments' files give for misses, each once, in the order of the rows.
fn given_reasons<'a>(rows: &[&'a Value]) -> Vec<&'a str> {
    let missed = |row: &&&Value| row["direction"] == "no" || row["size"] == "no";
    let mut all: Vec<&str> = Vec::new();
    for note in rows.iter().filter(missed).filter_map(|row| row["note"].as_str()) {
        if !all.contains(&note) {
            all.push(note);
        }
    }
    all
}

/// Whether a row agrees, and if not, the number of the reason.
fn verdict(row: &Value, reasons: &[&str]) -> String {
    let told = match (word(row, "direction"), word(row, "size")) {
        ("yes", "yes") => "agrees",
        ("open", "yes") => "agrees in size",
        ("yes", "no") => "direction only",
        ("no", _) => "**disagrees**",
        ("open", "no") => "**another size**",
        ("open", "open") => return "-".into(),
        _ => "unclear",
    };
    let reason = row["note"].as_str().and_then(|note| reasons.iter().position(|of| *of == note));
    match reason.filter(|_| told != "agrees" && told != "agrees in size") {
        Some(at) => format!("{told}: {}", at + 1),
        None => told.into(),
    }
}

/// Every figure, as one table for each experiment.
pub(super) fn figures(kept: &[Kept]) -> String {
    let rows = rows(kept);
    let reasons = given_reasons(&rows);
    let mut names: Vec<&str> = rows.iter().map(|row| word(row, "experiment")).collect();
    names.dedup();
    let head = ["claim", "published", "what is compared here", "simulated", "our lock", "verdict"];
    let of = |name: &&str| {
        let own = rows.iter().filter(|row| row["experiment"] == *name);
        let lines = own.map(|row| {
            vec![
                word(row, "source").to_owned(),
                published(row),
                what(row),
                number(&row["ours"]["median"]),
                number(&row["beside"]["median"]),
                verdict(row, &reasons),
            ]
        });
        format!("### {name}\n\n{}", table(&head, lines))
    };
    names.iter().map(of).collect::<Vec<_>>().join("\n")
}

/// The reasons, numbered as the figures refer to them.
pub(super) fn reasons(kept: &[Kept]) -> String {
    let rows = rows(kept);
    let lines = given_reasons(&rows).into_iter().enumerate();
    let lines = lines.map(|(at, note)| vec![(at + 1).to_string(), note.to_owned()]);
    table(&["number", "why figures differ"], lines)
}
