// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records without a chart: verdicts and failures as sentences, others as tables of their fields.

use super::read::Run;
use super::record::Other;
use super::table::{number, scrolled};
use crate::args::unique;
use crate::units::three;
use maud::{Markup, html};
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
pub(super) fn sentences(run: &Run) -> Markup {
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

/// Returns the heading for a kind of record.
fn heading(kind: &str) -> &str {
    match kind {
        "pair" => "Uncontended lock and unlock",
        "summary" => "Over all points",
        "check" => "Bounds that were checked",
        "published" => "Published figures beside ours",
        "explain" => "Where each lock’s time went",
        "torture" => "Torture",
        "doctor" => "What the machine offers",
        kind => kind,
    }
}

/// Makes tables of all other records of a run, one for each kind.
pub(super) fn tables(run: &Run) -> Markup {
    let rest = || run.others.iter().filter(|other| sentence(other).is_none());
    let kinds = unique(rest().map(|other| other.kind.as_str()));
    html! {
        @for kind in kinds {
            @let rows: Vec<_> =
                rest().filter(|other| other.kind == kind).map(|o| fields(&o.value)).collect();
            @let columns = unique(rows.iter().flatten().map(|(name, _)| name.as_str()));
            @let table = html! { table class="other" {
                caption { (heading(kind)) }
                thead { tr { @for name in &columns { th scope="col" { (name) } } } }
                tbody { @for row in &rows { tr {
                    @for name in &columns {
                        @let value = row.iter().find(|(field, _)| field == name).map(|(_, v)| *v);
                        td class=[value.is_some_and(Value::is_string).then_some("text")] {
                            (cell(value))
                        }
                    }
                } } }
            } };
            (scrolled(heading(kind), &table))
        }
    }
}
