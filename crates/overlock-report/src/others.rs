// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records without a chart: verdicts and failures as sentences, others as tables of their fields.

use crate::read::Run;
use crate::record::Other;
use crate::table::{number, scrolled};
use maud::{Markup, html};
use overlock_world::stats::unique;
use overlock_world::units::three;
use serde_json::Value;

/// Returns the sentence of this record, with its tone, if it has one.
fn sentence(other: &Other) -> Option<(&'static str, String)> {
    let tone = match other.kind.as_str() {
        "verdict" | "advice" => "good",
        "failure" | "torture-failure" => "bad",
        _ => return None,
    };
    let text = other.value.get("sentence")?.as_str()?;
    // A result that could be noise is not good news.
    let is_open = other.value.get("verdict") == Some(&Value::Bool(false))
        || (other.kind == "verdict" && other.value.get("lock").is_none_or(Value::is_null));
    let tone = if is_open { "open" } else { tone };
    let lock = other.value.get("lock").and_then(Value::as_str);
    Some((
        tone,
        match lock {
            Some(lock) if tone == "bad" && !text.contains(lock) => format!("{lock}: {text}"),
            _ => text.to_owned(),
        },
    ))
}

/// Shows the sentences in which a command ended.
pub(crate) fn sentences(run: &Run) -> Markup {
    html! {
        @for (tone, text) in run.others.iter().filter_map(sentence) {
            p class={ "sentence " (tone) } { (text) }
        }
    }
}

/// Returns the fields of a record, by name.
fn fields(value: &Value) -> Vec<(String, &Value)> {
    let Value::Object(all) = value else { return Vec::new() };
    let plain = |(name, value): (&String, &'_ Value)| name != "kind" && !value.is_array();
    let mut found = Vec::new();
    for (name, value) in all.iter().filter(|(name, value)| plain((name, *value))) {
        match value {
            Value::Object(inner) if !is_interval(value) => {
                let inner = inner.iter().filter(|(_, v)| !v.is_array() && !v.is_object());
                found.extend(inner.map(|(part, value)| (format!("{name}.{part}"), value)));
            }
            _ => found.push((name.clone(), value)),
        }
    }
    found
}

fn is_interval(value: &Value) -> bool {
    ["median", "low", "high"].iter().all(|name| value.get(name).is_some_and(Value::is_number))
}

fn cell(value: Option<&Value>) -> Markup {
    let part = |value: &Value, name: &str| {
        let raw = value.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        number(&(raw, three(raw)))
    };
    match value {
        None | Some(Value::Null) => html! { span class="none" { "–" } },
        Some(value) if is_interval(value) => html! {
            (part(value, "median"))
            span class="interval" { (part(value, "low")) " to " (part(value, "high")) }
        },
        Some(Value::Number(n)) => {
            let raw = n.as_f64().unwrap_or(0.0);
            let shown = if raw.fract() == 0.0 { n.to_string() } else { three(raw) };
            number(&(raw, shown))
        }
        Some(Value::String(text)) => html! { (text) },
        Some(Value::Bool(true)) => html! { "yes" },
        Some(Value::Bool(false)) => html! { "no" },
        Some(other) => html! { (other) },
    }
}

/// The fields that tell rows apart, and those to read first. All others follow.
const FIRST: [&str; 14] = [
    "experiment",
    "workload",
    "figure",
    "lock",
    "policy",
    "cpus",
    "published_ratio",
    "ours",
    "direction",
    "size",
    "over.lock",
    "over.policy",
    "over.cpus",
    "timer",
];

/// Returns the names of all fields that some row has, in the order in which to read them.
fn columns<'a>(rows: &'a [Vec<(String, &Value)>]) -> Vec<&'a str> {
    let filled = rows.iter().flatten().filter(|(_, value)| !value.is_null());
    let mut columns = unique(filled.map(|(name, _)| name.as_str()));
    let place = |name: &str| FIRST.iter().position(|first| *first == name);
    columns.sort_by_key(|name| place(name).unwrap_or(FIRST.len()));
    columns
}

/// Returns how to set a column: as numbers, text, or sentences. In a table that is too wide for
/// paper, only the first columns are printed.
fn tone(rows: &[Vec<(String, &Value)>], column: &str, is_wide: bool) -> String {
    let values = rows.iter().flatten().filter(|(name, _)| name == column);
    let set = match values.filter_map(|(_, value)| value.as_str()).map(str::len).max() {
        None => "",
        Some(0..=40) => "text",
        Some(_) => "text long",
    };
    let is_more = is_wide && !FIRST.contains(&column);
    if is_more { format!("{set} more") } else { set.into() }
}

/// How many columns a sheet of paper has room for.
const PAPER: usize = 14;

/// Returns the heading for a kind of record.
fn heading(kind: &str) -> &str {
    match kind {
        "pair" => "Uncontended lock and unlock",
        "summary" => "Over all points",
        "check" => "Bounds that were checked",
        "published" | "reproduced" => "Published figures beside ours",
        "validated" => "The laboratory and the simulator",
        "ranks" => "Whether both rank the locks alike",
        "explain" => "Where each lock’s time went",
        "torture" => "Torture",
        "doctor" => "What the machine offers",
        kind => kind,
    }
}

/// Makes tables of all other records of a run, one for each kind.
pub(crate) fn tables(run: &Run) -> Markup {
    let rest = || run.others.iter().filter(|other| sentence(other).is_none());
    let kinds = unique(rest().map(|other| other.kind.as_str()));
    html! {
        @for kind in kinds {
            @let rows: Vec<_> =
                rest().filter(|other| other.kind == kind).map(|o| fields(&o.value)).collect();
            @let columns = columns(&rows);
            @let is_wide = columns.len() > PAPER;
            @let columns: Vec<_> =
                columns.iter().map(|name| (*name, tone(&rows, name, is_wide))).collect();
            @let table = html! { table class="other" {
                caption { (heading(kind)) }
                thead { tr { @for (name, tone) in &columns {
                    th scope="col" class=(tone) { (name) }
                } } }
                tbody { @for row in &rows { tr {
                    @for (name, tone) in &columns {
                        @let value = row.iter().find(|(field, _)| field == name).map(|(_, v)| *v);
                        td class=(tone) { (cell(value)) }
                    }
                } } }
            } };
            (scrolled(heading(kind), &table))
        }
    }
}
