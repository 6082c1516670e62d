//! Fills the tables of `published.md` and `README.md` from the rows that `overlock bench s1 s3 ...
//! --out FILE` has written. Each has its place, from `<!-- NAME -->` to `<!-- end -->`.

use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Effects below this count as none, as the command judges them.
const NOISE: f64 = 0.02;

fn main() -> Result<()> {
    let (mut rows, mut vcpus, mut wakes) = (Vec::new(), Vec::new(), Vec::new());
    for path in std::env::args().skip(1) {
        let text = fs::read_to_string(&path).with_context(|| format!("can't read {path}"))?;
        let parsed = text.lines().map(serde_json::from_str::<Value>);
        let all = parsed.collect::<Result<Vec<_>, _>>().context("a line is no JSON")?;
        let wake =
            Path::new(&path).file_stem().and_then(|name| name.to_str()?.strip_prefix("wakes-"));
        let points =
            |row: &Value| row["kind"] == "point" && (wake.is_some() || row["world"] == "kvm");
        match wake {
            Some(wake) => wakes.push((wake.to_owned(), all.into_iter().filter(points).collect())),
            None => {
                vcpus.extend(all.iter().filter(|row| points(row)).cloned());
                rows.extend(all.into_iter().filter(|row| row["kind"] == "published"));
            }
        }
    }
    for document in ["README.md", "published.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
        fs::write(&path, filled(fs::read_to_string(&path)?, (&rows, &vcpus, &wakes))?)?;
    }
    Ok(())
}

/// Points of simulations, by how long a wake-up takes there.
type Wakes = [(String, Vec<Value>)];

/// Returns `text` with the tables in its places; those of which there are no rows stay.
fn filled(mut text: String, (rows, points, wakes): (&[Value], &[Value], &Wakes)) -> Result<String> {
    for (name, table) in [
        ("headline", headline(rows)),
        ("scores", scores(rows)),
        ("figures", figures(rows)),
        ("reasons", reasons(rows)),
        ("vcpus", vcpus(points)),
        ("wakes", slow(wakes)),
    ] {
        let begin = format!("<!-- published {name} -->\n");
        let Some((before, rest)) = text.split_once(&begin).filter(|_| !table.is_empty()) else {
            continue;
        };
        let (_, after) = rest.split_once("<!-- end -->").context(format!("{begin} has no end"))?;
        text = format!("{before}{begin}{table}<!-- end -->{after}");
    }
    Ok(text)
}

/// A table; nothing if it has no rows.
fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: String = rows.into_iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
    if rows.is_empty() {
        return rows;
    }
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

fn rate(value: f64) -> String {
    if value >= 1e6 { format!("{:.2} M/s", value / 1e6) } else { format!("{:.0} k/s", value / 1e3) }
}

fn number(of: &Value) -> String {
    match of.as_f64() {
        Some(value) if value.abs() >= 1000.0 => rate(value),
        Some(value) => three(value),
        None => "-".into(),
    }
}

/// What a figure can tell. A model in which nothing has an effect agrees with figures whose
/// published effect is within the noise.
fn kind(row: &Value) -> usize {
    let noise = NOISE.max(row["noise_percent"].as_f64().unwrap_or(0.0) / 100.0);
    let is_none = row["published_effect"].as_f64().is_some_and(|effect| effect.abs() <= noise);
    match word(row, "basis") {
        "fitted" => 2,
        "repeated" => 3,
        _ => usize::from(is_none),
    }
}

const KINDS: [&str; 4] = [
    "predicted, and something has an effect",
    "predicted, and nothing has an effect",
    "fitted",
    "repeated",
];

/// How many of the figures of one kind agree, of how many, and how many the seeds leave open.
fn score<'a>(rows: impl Iterator<Item = &'a Value>, field: &str) -> [usize; 3] {
    rows.fold([0; 3], |[agree, all, open], row| match word(row, field) {
        "yes" => [agree + 1, all + 1, open],
        "no" => [agree, all + 1, open],
        "unclear" => [agree, all + 1, open + 1],
        _ => [agree, all, open],
    })
}

fn told([agree, all, open]: [usize; 3]) -> String {
    match (all, open) {
        (0, _) => "-".into(),
        (_, 0) => format!("{agree} of {all}"),
        _ => format!("{agree} of {all}, {open} open"),
    }
}

/// How often each experiment agrees, each kind of figure apart.
fn scores(rows: &[Value]) -> String {
    let mut names: Vec<&str> = rows.iter().map(|row| word(row, "experiment")).collect();
    names.dedup();
    let of = |name: Option<&str>| {
        let own = |at: usize| {
            let own = rows.iter().filter(move |row| kind(row) == at);
            own.filter(move |row| name.is_none_or(|name| row["experiment"] == name))
        };
        let both =
            |at| format!("{}; {}", told(score(own(at), "direction")), told(score(own(at), "size")));
        let held = rows.iter().filter(|row| name.is_none_or(|name| row["experiment"] == name));
        [
            vec![name.unwrap_or("all").to_owned()],
            (0..4).map(both).collect(),
            vec![told(score(held, "ours_holds"))],
        ]
        .concat()
    };
    let all = (!names.is_empty()).then(|| of(None));
    let lines = names.iter().map(|name| of(Some(name))).chain(all);
    let head = [&["experiment"], &KINDS[..], &["our lock over theirs"]].concat();
    table(&head, lines)
}

/// The one sentence: predictions only, and only those that a model of nothing misses.
fn headline(rows: &[Value]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let own = || rows.iter().filter(|row| kind(row) == 0);
    let [[directions, of, open], [sizes, all, _]] =
        ["direction", "size"].map(|field| score(own(), field));
    let seeds = rows.iter().filter_map(|row| row["rounds"].as_u64()).min().unwrap_or(0);
    format!(
        "**{directions} of {of} predicted directions that a model without any effect misses agree, \
         {open} are open;\nso do {sizes} of {all} predicted sizes, to within a quarter.** What is \
         not open is judged by at least {seeds} seeds.\n"
    )
}

/// By how much an absolute figure differs from ours, where both are rates: it is not compared.
fn factor(row: &Value) -> Option<String> {
    let unit = match word(row, "unit") {
        "Mop/s" => 1e6,
        "tps" | "records/s" => 1.0,
        _ => return None,
    };
    let theirs = unit * row["value"].as_f64()?;
    let ours = row["ours_absolute"].as_f64().filter(|ours| *ours > 0.0)?;
    let of = |ratio: f64| if ratio < 10.0 { three(ratio) } else { format!("{ratio:.0}") };
    match theirs / ours {
        ratio if ratio > 1.25 => Some(format!("{} times ours", of(ratio))),
        ratio if ratio < 0.8 => Some(format!("ours is {} times that", of(1.0 / ratio))),
        _ => None,
    }
}

/// A median with its interval, where that is wider than the last digit.
fn ranged(of: &Value) -> String {
    let [median, low, high] = ["median", "low", "high"].map(|end| number(&of[end]));
    if low == high { median } else { format!("{median} ({low} to {high})") }
}

/// The different values of a field, in order.
fn each<'a, T: Ord>(points: &'a [Value], of: impl Fn(&'a Value) -> Option<T>) -> Vec<T> {
    let mut all: Vec<T> = points.iter().filter_map(of).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn locks(points: &[Value]) -> Vec<&str> {
    each(points, |row| row["lock"].as_str())
}

fn at<'a>(points: &'a [Value], lock: &str, cpus: u64) -> Option<&'a Value> {
    points.iter().find(|row| row["lock"] == lock && row["cpus"] == cpus)
}

/// The throughput of each lock on real vCPUs, and over that of the same lock at 1x.
fn vcpus(points: &[Value]) -> String {
    let cpus = each(points, |row| row["cpus"].as_u64());
    let lines = locks(points).into_iter().map(|lock| {
        let cell = |cpus: &u64| match at(points, lock, *cpus) {
            Some(row) => format!("{}; {}", ranged(&row["ops_per_s"]), ranged(&row["of_1x"])),
            None => "-".into(),
        };
        [vec![lock.to_owned()], cpus.iter().map(cell).collect()].concat()
    });
    let head: Vec<String> = cpus.iter().map(|cpus| format!("{cpus} vCPUs")).collect();
    let head: Vec<&str> = ["lock"].into_iter().chain(head.iter().map(String::as_str)).collect();
    table(&head, lines)
}

/// The throughput of each lock where wake-ups are slow, and the hybrid lock's over it.
fn slow(wakes: &Wakes) -> String {
    let names = wakes.first().map(|(_, points)| locks(points)).unwrap_or_default();
    let lines = wakes.iter().flat_map(|(wake, points)| {
        let names = &names;
        each(points, |row| row["cpus"].as_u64()).into_iter().map(move |cpus| {
            let median = |lock: &str| at(points, lock, cpus)?["ops_per_s"]["median"].as_f64();
            let cell = |lock: &&str| match (median(lock), median("hybrid")) {
                (Some(own), Some(hybrid)) if *lock != "hybrid" => {
                    format!("{}; {}", rate(own), three(hybrid / own))
                }
                (Some(own), _) => rate(own),
                _ => "-".into(),
            };
            [vec![wake.clone(), cpus.to_string()], names.iter().map(cell).collect()].concat()
        })
    });
    table(&[&["world, wake-up", "vCPUs"], &names[..]].concat(), lines)
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
        Some(base) => {
            let far = factor(row).map_or_else(String::new, |far| format!(" ({far})"));
            format!("{value}{far} against {base}: {}", number(&row["published_ratio"]))
        }
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
    let missed = |row: &&Value| {
        ["direction", "size"].iter().any(|of| ["no", "unclear"].contains(&word(row, of)))
    };
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
        ("yes", "unclear") => "direction; size open",
        _ => "open",
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
    let head = [
        "claim",
        "published",
        "what is compared here",
        "basis",
        "simulated",
        "our lock",
        "over theirs",
        "verdict",
    ];
    let of = |name: &&str| {
        let own = rows.iter().filter(|row| row["experiment"] == *name);
        let lines = own.map(|row| {
            vec![
                word(row, "source").to_owned(),
                published(row),
                what(row),
                ["predicted", "null", "fitted", "repeated"][kind(row)].to_owned(),
                ranged(&row["ours"]),
                number(&row["beside"]["median"]),
                match word(row, "ours_holds") {
                    "-" => "-".into(),
                    holds => format!("{}: {holds}", ranged(&row["our_ratio"])),
                },
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
                   "published_ratio": 2.0, "published_effect": if cpus == 2 { 0.01 } else { 1.0 }, "ours": {"median": 1.5, "low": 1.4, "high": 1.6}, "rounds": 10, "direction": "yes",
                   "size": size, "note": note})
        };
        let rows =
            vec![row(2, "yes", "nothing"), row(4, "no", "far away"), row(8, "no", "too near")];
        let figures = figures(&rows);
        let line = "| S9, table 1, 8 CPUs | 12.5 s against 25: 2.00 \
                    | `ops_per_s`: new over old, 8 vCPUs | predicted | 1.50 (1.40 to 1.60) | - | - \
                    | direction only: 2 |\n";
        assert!(figures.starts_with("### s9\n\n| claim |") && figures.ends_with(line), "{figures}");
        assert!(figures.contains("| agrees |"), "{figures}");
        let reasons = reasons(&rows);
        assert!(reasons.ends_with("| 1 | far away |\n| 2 | too near |\n"), "{reasons}");
        let all = "| all | 2 of 2; 0 of 2 | 1 of 1; 1 of 1 | -; - | -; - | - |\n";
        assert!(scores(&rows).ends_with(all), "{}", scores(&rows));
        assert!(headline(&rows).starts_with("**2 of 2 predicted directions"));
        let mut open = rows[1].clone();
        open["direction"] = "unclear".into();
        let fitted = json!({"basis": "fitted", "direction": "yes", "size": "yes"});
        let all = scores(&[open, fitted]);
        assert!(all.contains("0 of 1, 1 open; 0 of 1 | -; - | 1 of 1; 1 of 1"), "{all}");
        let point = |lock: &str, ops: f64| {
            let ops = json!({"median": ops, "low": ops, "high": ops});
            json!({"lock": lock, "cpus": 4, "ops_per_s": ops, "of_1x": {"median": 0.9, "low": 0.8, "high": 1.0}})
        };
        let points = vec![point("queued", 2e6), point("hybrid", 3e6)];
        let line = "| hybrid | 3.00 M/s; 0.900 (0.800 to 1.00) |\n";
        assert!(vcpus(&points).contains(line), "{}", vcpus(&points));
        let slow = slow(&[("5us".into(), points)]);
        assert!(slow.ends_with("| 5us | 4 | 3.00 M/s | 2.00 M/s; 1.50 |\n"), "{slow}");
        let far = json!({"unit": "Mop/s", "value": 5.0, "ours_absolute": 2000.0});
        assert_eq!(factor(&far).as_deref(), Some("2500 times ours"));
    }
}
