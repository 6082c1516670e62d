// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills the tables of `published.md` and `README.md` from the rows that `overlock bench s1 s3 ...
//! --out FILE` has written. Each has its place, from `<!-- NAME -->` to `<!-- end -->`.

use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Effects below this count as none, as the command judges them.
const NOISE: f64 = 0.02;

fn main() -> Result<()> {
    let mut rows = Vec::new();
    for path in std::env::args().skip(1) {
        let text = fs::read_to_string(&path).with_context(|| format!("can't read {path}"))?;
        for line in text.lines() {
            rows.push(serde_json::from_str::<Value>(line).context("a line is no JSON")?);
        }
    }
    rows.retain(|row| row["kind"] == "published");
    for document in ["README.md", "published.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
        fs::write(&path, filled(fs::read_to_string(&path)?, &rows)?)?;
    }
    Ok(())
}

/// Returns `text` with the tables of `rows` in its places.
fn filled(mut text: String, rows: &[Value]) -> Result<String> {
    for (name, table) in
        [("scores", scores(rows)), ("figures", figures(rows)), ("reasons", reasons(rows))]
    {
        let begin = format!("<!-- published {name} -->\n");
        let Some((before, rest)) = text.split_once(&begin) else { continue };
        let (_, after) = rest.split_once("<!-- end -->").context(format!("{begin} has no end"))?;
        text = format!("{before}{begin}{table}<!-- end -->{after}");
    }
    Ok(text)
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: String = rows.into_iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
    let line = "|---".repeat(head.len());
    format!("| {} |\n{line}|\n{rows}", head.join(" | "))
}

fn three(value: f64) -> String {
    let digits = 2 - value.abs().max(1e-9).log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 3) as usize)
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

/// How many figures of an experiment a model would agree with in which nothing has an effect: those
/// whose published effect is within the noise.
fn without_effect(rows: &[Value], name: Option<&str>, field: &str) -> String {
    let own = rows.iter().filter(|row| name.is_none_or(|name| row["experiment"] == name));
    let judged = own.filter(|row| ["yes", "no"].contains(&word(row, field)));
    let is_none = |row: &&Value| {
        let noise = NOISE.max(row["noise_percent"].as_f64().unwrap_or(0.0) / 100.0);
        row["published_effect"].as_f64().is_some_and(|effect| effect.abs() <= noise)
    };
    judged.filter(is_none).count().to_string()
}

/// How often each experiment agrees.
fn scores(rows: &[Value]) -> String {
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
        let without = |field| without_effect(rows, name, field);
        let [direction, size] = ["direction", "size"];
        vec![title, score(name, direction), without(direction), score(name, size), without(size)]
    };
    let all = (!names.is_empty()).then(|| of(None));
    let lines = names.iter().map(|name| of(Some(name))).chain(all);
    let head = [
        "experiment",
        "directions that agree",
        "if nothing had an effect",
        "sizes within a quarter",
        "if nothing had an effect",
    ];
    table(&head, lines)
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
fn given_reasons(rows: &[Value]) -> Vec<&str> {
    let missed = |row: &&Value| row["direction"] == "no" || row["size"] == "no";
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
fn figures(rows: &[Value]) -> String {
    let reasons = given_reasons(rows);
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
fn reasons(rows: &[Value]) -> String {
    let lines = given_reasons(rows).into_iter().enumerate();
    let lines = lines.map(|(at, note)| vec![(at + 1).to_string(), note.to_owned()]);
    table(&["number", "why figures differ"], lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_published_figure_is_told_from_the_others_and_a_miss_has_its_reason() {
        let row = |cpus: u32, size: &str, note: &str| {
            json!({"kind": "published", "experiment": "s9", "figure": "ops_per_s", "lock": "new",
                   "policy": "none", "cpus": cpus, "source": format!("S9, table 1, {cpus} CPUs"),
                   "value": 12.5, "unit": "s", "over": {"lock": "old", "value": 25.0},
                   "published_ratio": 2.0, "published_effect": if cpus == 2 { 0.01 } else { 1.0 }, "ours": {"median": 1.5}, "direction": "yes",
                   "size": size, "note": note})
        };
        let rows =
            vec![row(2, "yes", "nothing"), row(4, "no", "far away"), row(8, "no", "too near")];
        let figures = figures(&rows);
        let line = "| S9, table 1, 8 CPUs | 12.5 s against 25: 2.00 \
                    | `ops_per_s`: new over old, 8 vCPUs | 1.50 | - | direction only: 2 |\n";
        assert!(figures.starts_with("### s9\n\n| claim |") && figures.ends_with(line), "{figures}");
        assert!(figures.contains("| agrees |"), "{figures}");
        let reasons = reasons(&rows);
        assert!(reasons.ends_with("| 1 | far away |\n| 2 | too near |\n"), "{reasons}");
        assert!(scores(&rows).ends_with("| all | 3 of 3 | 1 | 1 of 3 | 1 |\n"));
    }
}
