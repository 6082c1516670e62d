//! Records without a chart: verdicts and failures as sentences, others as tables of their fields.

use crate::columns::Unit;
use crate::columns::fields::{self, Field, GROUP, Kind, named};
use crate::page::read::{Other, Recording};
use crate::page::table::{Column, Group, Table, interval, none, number};
use crate::stats::{Interval, unique};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

fn sentence(other: &Other) -> Option<(&'static str, String)> {
    let tone = match other.kind.as_str() {
        "verdict" | "advice" => "good",
        "trace-summary" => "open",
        "failure" | "torture-failure" => "bad",
        _ => return None,
    };
    let field = |name: &str| other.value.get(name).and_then(Value::as_str);
    let text = match (field("sentence"), field("text"), field("replay")) {
        _ if other.kind == "trace-summary" => {
            format!("{} {}", field("diagnosis")?, field("advice")?)
        }
        (Some(sentence), ..) => sentence.to_owned(),
        (None, Some(text), Some(replay)) => format!("{text}. Replay it: {replay}"),
        _ => return None,
    };
    // A result that could be noise is not good news.
    let is_open = other.value.get("verdict") == Some(&Value::Bool(false))
        || (other.kind == "verdict" && other.value.get("lock").is_none_or(Value::is_null));
    let tone = if is_open { "open" } else { tone };
    let text = match field("lock") {
        Some(lock) if tone == "bad" && !text.contains(lock) => format!("{lock}: {text}"),
        _ => text,
    };
    Some((tone, text))
}

pub(crate) fn sentences(run: &Recording) -> Markup {
    html! {
        @for (tone, text) in run.others.iter().filter_map(sentence) {
            p class={ "sentence " (tone) } { (text) }
        }
    }
}

type Fields<'a> = Vec<(String, &'a Value)>;

/// Returns the rows that a record is: its own, or one for each of what it lists.
fn rows(other: &Other) -> Vec<Fields<'_>> {
    match other.value.get("findings").and_then(Value::as_array) {
        Some(findings) => findings.iter().map(fields).collect(),
        None => vec![fields(&other.value)],
    }
}

fn fields(value: &Value) -> Fields<'_> {
    let Value::Object(all) = value else { return Vec::new() };
    let plain = |(name, value): (&String, &'_ Value)| name != "kind" && !value.is_array();
    let mut found = Vec::new();
    for (name, value) in all.iter().filter(|(name, value)| plain((name, *value))) {
        match value {
            Value::Object(inner) if to_interval(value).is_none() => {
                let inner = inner.iter().filter(|(_, v)| !v.is_array() && !v.is_object());
                found.extend(inner.map(|(part, value)| (format!("{name}.{part}"), value)));
            }
            _ => found.push((name.clone(), value)),
        }
    }
    found
}

fn to_interval(value: &Value) -> Option<Interval> {
    Interval::deserialize(value).ok()
}

fn cell(value: Option<&Value>, unit: Unit) -> Markup {
    match value {
        None | Some(Value::Null) => none(),
        Some(Value::Number(n)) => {
            let raw = n.as_f64().unwrap_or(0.0);
            let is_whole = unit == Unit::Ratio && raw.fract() == 0.0;
            number(&(raw, if is_whole { format!("{raw:.0}") } else { unit.show(raw) }))
        }
        Some(Value::String(text)) => html! { (text) },
        Some(Value::Bool(true)) => html! { "yes" },
        Some(Value::Bool(false)) => html! { "no" },
        Some(other) => match to_interval(other) {
            Some(of) => interval(of, |value| unit.show(value)),
            None => html! { (other) },
        },
    }
}

/// Returns all fields that some row has, in the order in which to read them.
fn columns(kind: Option<&Kind>, rows: &[Fields<'_>]) -> Vec<(String, Field)> {
    let filled = rows.iter().flatten().filter(|(_, value)| !value.is_null());
    let mut names = unique(filled.map(|(name, _)| name.as_str()));
    names.retain(|name| kind.is_none_or(|kind| !kind.hides(name)));
    names.sort_by_key(|name| named(kind, name).0);
    names.into_iter().map(|name| (name.to_owned(), named(kind, name).1)).collect()
}

/// A page has room for this many columns with numbers.
const WIDE: usize = 20;

/// A page has room for this many columns with the names of locks.
const FEW: usize = 10;

fn value<'a>(row: &Fields<'a>, name: &str) -> Option<&'a Value> {
    row.iter().find(|(field, _)| field == name).map(|(_, value)| *value)
}

/// Makes a table with a row for each field, and a column for each record.
fn turned(caption: String, columns: &[(String, Field)], records: &[Fields<'_>]) -> Table {
    let text = |name: &str, about: &str| Column {
        name: name.to_owned(),
        about: about.to_owned(),
        is_text: false,
    };
    let names = records.iter().map(|row| {
        let first = columns.first().and_then(|(name, _)| value(row, name)?.as_str());
        text(first.unwrap_or("value"), "")
    });
    let heading = columns.first().map_or("", |(_, named)| &*named.heading);
    let head = Column { is_text: true, ..text(heading, "") };
    let rows = columns.iter().skip(1).map(|(name, named)| {
        let cells = records.iter().map(|row| cell(value(row, name), named.unit));
        let title = html! { span title=(named.about) { (named.heading) } };
        [title].into_iter().chain(cells).collect()
    });
    let group = Group { name: String::new(), rows: rows.collect() };
    let columns = [head].into_iter().chain(names).collect();
    Table { class: "other turned", caption, columns, groups: vec![group] }
}

fn table(name: &str, all: &[&Other]) -> Table {
    let kind = fields::kind(name);
    let records: Vec<Fields<'_>> = all.iter().flat_map(|other| rows(other)).collect();
    let columns = columns(kind, &records);
    let group = |row: &Fields<'_>| {
        let value = value(row, GROUP.1).filter(|_| name == GROUP.0);
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let caption = kind.map_or(name, |kind| kind.heading).to_owned();
    if columns.len() > WIDE && records.len() <= FEW {
        return turned(caption, &columns, &records);
    }
    let mut groups: Vec<Group> = Vec::new();
    for row in &records {
        let name = group(row);
        if groups.last().is_none_or(|last| last.name != name) {
            groups.push(Group { name, rows: Vec::new() });
        }
        let cells = columns.iter().map(|(name, named)| cell(value(row, name), named.unit));
        groups.last_mut().expect("pushed").rows.push(cells.collect());
    }
    let is_text = |name: &str| {
        records.iter().flatten().any(|(field, value)| field == name && value.is_string())
    };
    let columns = columns.into_iter().map(|(name, field)| Column {
        is_text: is_text(&name),
        name: field.heading.into_owned(),
        about: field.about.to_owned(),
    });
    Table { class: "other", caption, columns: columns.collect(), groups }
}

pub(crate) fn tables(run: &Recording) -> Markup {
    let rest: Vec<&Other> = run.others.iter().filter(|other| sentence(other).is_none()).collect();
    let mut kinds = unique(rest.iter().map(|other| other.kind.as_str()));
    kinds.sort_by_key(|name| fields::place(name));
    html! { @for kind in kinds {
        @let all: Vec<&Other> = rest.iter().filter(|other| other.kind == kind).copied().collect();
        (table(kind, &all).show())
    } }
}
