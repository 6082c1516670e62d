//! Records without a chart: verdicts and failures as sentences, others as tables of their fields.

use crate::page::fields::{self, Kind, Named, Unit, named};
use crate::page::read::{Other, Recording};
use crate::page::table::{Column, Group, Table, interval, none, number};
use crate::stats::{Interval, unique};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

/// Returns the sentence of this record, with its tone, if it has one.
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
            let is_whole = unit == Unit::Plain && raw.fract() == 0.0;
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
fn columns(kind: Option<&Kind>, rows: &[Fields<'_>]) -> Vec<(String, Named)> {
    let filled = rows.iter().flatten().filter(|(_, value)| !value.is_null());
    let is_column =
        |name: &&str| kind.is_none_or(|kind| !kind.hides(name) && kind.group != Some(*name));
    let names = unique(filled.map(|(name, _)| name.as_str()));
    let mut columns: Vec<(String, Named)> = names
        .into_iter()
        .filter(is_column)
        .map(|name| (name.to_owned(), named(kind, name)))
        .collect();
    columns.sort_by_key(|(_, named)| named.place);
    columns
}

/// A page has room for this many columns with numbers.
const WIDE: usize = 20;

/// A page has room for this many columns with the names of locks.
const FEW: usize = 10;

fn value<'a>(row: &Fields<'a>, name: &str) -> Option<&'a Value> {
    row.iter().find(|(field, _)| field == name).map(|(_, value)| *value)
}

/// Makes a table with a row for each field, and a column for each record.
fn turned(caption: String, columns: &[(String, Named)], records: &[Fields<'_>]) -> Table {
    let text = |name: &str, about: &str| Column {
        name: name.to_owned(),
        about: about.to_owned(),
        is_text: false,
    };
    let names = records.iter().map(|row| {
        let first = columns.first().and_then(|(name, _)| value(row, name)?.as_str());
        text(first.unwrap_or("value"), "")
    });
    let heading = columns.first().map_or("", |(_, named)| &named.heading);
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
        let value = kind.and_then(|kind| value(row, kind.group?));
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
    let columns = columns.into_iter().map(|(name, Named { heading, about, .. })| Column {
        is_text: is_text(&name),
        name: heading,
        about,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::sample::read;

    fn shown(rows: &[&str]) -> (String, String) {
        let results = read(&rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>());
        let run = &results.runs[0];
        (sentences(run).into_string(), tables(run).into_string())
    }

    #[test]
    fn a_summary_is_in_words_and_units() {
        let (_, table) = shown(&[concat!(
            r#"{"kind":"summary","lock":"hybrid","calm_stall_ns":26870735.0,"worst_jain":1.0,"#,
            r#""of_best_peer":{"median":0.997,"low":0.99,"high":1.01},"#,
            r#""worst":{"ratio":0.95,"point":"8 threads"},"p999_of_parking_lot":null}"#,
        )]);
        for part in
            ["stall, up to 16 threads", ">26.9 ms<", ">where<", ">8 threads<", ">0.990<", ">1<"]
        {
            assert!(table.contains(part), "{part} is not in {table}");
        }
        for raw in ["calm_stall_ns", "p99.9", "worst."] {
            assert!(!table.contains(raw), "{raw} is in {table}");
        }
    }

    #[test]
    fn a_record_with_many_fields_is_a_column() {
        let counters: Vec<String> = (0..WIDE).map(|n| format!(r#""event_{n}":{n}"#)).collect();
        let row = |lock: &str| {
            let counters = counters.join(",");
            format!(r#"{{"kind":"torture","lock":"{lock}","counters":{{{counters}}}}}"#)
        };
        let (_, table) = shown(&[&row("hybrid"), &row("ticket")]);
        assert_eq!(table.matches(r#"<th scope="col""#).count(), 3, "{table}");
        for part in [">ticket</th>", ">counters: event 7</span>"] {
            assert!(table.contains(part), "{part} is not in {table}");
        }
        let many: Vec<String> = (0..=FEW).map(|n| row(&format!("lock-{n}"))).collect();
        let (_, table) = shown(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(table.matches(r#"<th scope="row""#).count(), FEW + 1, "{table}");
    }

    #[test]
    fn rows_of_one_point_stand_together() {
        let row = |lock: &str, name: &str| {
            format!(r#"{{"kind":"published","lock":"{lock}","world":"sim","experiment":"{name}"}}"#)
        };
        let rows = [row("hybrid", "one"), row("std", "one"), row("std", "two")];
        let (_, table) = shown(&rows.each_ref().map(String::as_str));
        assert_eq!(table.matches(r#"scope="rowgroup""#).count(), 2, "{table}");
        assert!(!table.contains("world") && !table.contains("experiment<"), "{table}");
    }

    #[test]
    fn what_is_not_known_is_shown_by_its_name() {
        let (_, table) =
            shown(&[r#"{"kind":"new","long_wake_ns":1500,"is_new":true,"of":{"one":2}}"#]);
        for part in ["<caption>new</caption>", ">long wake<", ">1.50 us<", ">yes<", ">of: one<"] {
            assert!(table.contains(part), "{part} is not in {table}");
        }
    }

    #[test]
    fn verdicts_and_failures_are_sentences() {
        let (text, tables) = shown(&[
            r#"{"kind":"verdict","lock":"hybrid","sentence":"take hybrid"}"#,
            r#"{"kind":"verdict","lock":null,"sentence":"it is open"}"#,
            r#"{"kind":"failure","lock":"ticket","sentence":"it hung"}"#,
            r#"{"kind":"trace-summary","diagnosis":"It waits.","advice":"Unlock."}"#,
            r#"{"kind":"torture-failure","lock":"queued","text":"lost","replay":"overlock torture"}"#,
        ]);
        for part in [
            r#"<p class="sentence good">take hybrid</p>"#,
            r#"<p class="sentence open">it is open</p>"#,
            r#"<p class="sentence bad">ticket: it hung</p>"#,
            r#"<p class="sentence open">It waits. Unlock.</p>"#,
            r#"<p class="sentence bad">queued: lost. Replay it: overlock torture</p>"#,
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(tables, "");
    }

    #[test]
    fn findings_of_the_doctor_are_rows() {
        let (_, table) = shown(&[
            r#"{"kind":"doctor","version":"1","findings":[{"name":"CPUs","found":"2"},{"name":"tick","found":"1 ms","advice":"more"}]}"#,
        ]);
        assert_eq!(table.matches("<tr>").count(), 3, "{table}");
    }
}
