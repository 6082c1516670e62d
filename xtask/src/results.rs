//! `cargo xtask results FILE...`: tables of documents, from what `bench` and `compare` recorded.
//! Each has its place, from `<!-- NAME -->` to `<!-- end -->`.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

mod trust;

/// How the names of files end that `experiments/compare.sh` wrote beside busy processes.
const BESIDE: &str = "-beside";

/// One file of results: its name without the ending, and its rows.
struct Kept(String, Vec<Value>);

impl Kept {
    fn of(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.1.iter().filter(move |row| row["kind"] == kind)
    }

    /// Whether busy processes were beside it.
    fn is_beside(&self) -> bool {
        self.0.ends_with(BESIDE)
    }

    /// The speed of the program under `lock` over that under libc.
    fn speed(&self, lock: &str) -> Option<&Value> {
        let mut points = self.of("point").filter(|row| row["world"] == "process");
        points.find(|row| row["lock"] == lock).map(|row| &row["of_baseline"])
    }
}

/// Fills the places of the documents from `paths`.
pub(crate) fn write(root: &Path, paths: &[&str]) -> Result<bool> {
    let kept = paths.iter().map(|path| {
        let text = std::fs::read_to_string(path).with_context(|| format!("can't read {path}"))?;
        let rows: Result<_, _> = text.lines().map(serde_json::from_str).collect();
        let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        anyhow::Ok(Kept(name, rows.with_context(|| format!("{path} is not JSON Lines"))?))
    });
    let kept: Vec<Kept> = kept.collect::<Result<_>>()?;
    for document in
        ["README.md", "docs/results.md", "docs/family.md", "docs/simulator.md", "docs/host.md"]
    {
        let text = std::fs::read_to_string(root.join(document))?;
        std::fs::write(root.join(document), filled(&text, &kept)?)?;
    }
    Ok(true)
}

/// Returns `text` with the tables of `kept` in its places; one without rows leaves its place alone.
fn filled(text: &str, kept: &[Kept]) -> Result<String> {
    let mut text = text.to_owned();
    for (name, table) in [
        ("commands", commands(kept)),
        ("random points", points(kept)),
        ("programs", programs(kept, false)),
        ("programs beside", programs(kept, true)),
        ("readers", tasks(kept, "rwlock", "read-")),
        ("conditions", tasks(kept, "hybrid", "")),
        ("trust", trust::trust(kept)),
        ("policies", policies(kept)),
    ] {
        let begin = format!("<!-- {name} -->\n");
        let place = text.split_once(&begin).filter(|_| table.lines().count() > 2);
        let Some((before, rest)) = place else { continue };
        let after = rest.split_once("<!-- end -->").context(format!("{begin} has no end"))?.1;
        text = format!("{before}{begin}{table}<!-- end -->{after}");
    }
    Ok(text)
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: String = rows.into_iter().map(|row| format!("| {} |\n", row.join(" | "))).collect();
    let line = "|---".repeat(head.len());
    format!("| {} |\n{line}|\n{rows}", head.join(" | "))
}

/// Merges rows that are equal in the columns `same`, with the others' cells one below the other.
fn merged(rows: impl Iterator<Item = Vec<String>>, same: &[usize]) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for row in rows {
        match all.iter_mut().find(|of| same.iter().all(|column| of[*column] == row[*column])) {
            Some(of) => {
                let others = (0..row.len()).filter(|column| !same.contains(column));
                others.for_each(|column| of[column] += &format!("<br>{}", row[column]));
            }
            None => all.push(row),
        }
    }
    all
}

fn three(value: f64) -> String {
    let digits = 2 - value.abs().max(1e-9).log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 3) as usize)
}

/// Formats an interval as `median (low..high)`.
fn interval(of: &Value) -> String {
    let end = |end| of[end].as_f64().map_or("?".into(), three);
    format!("{} ({}..{})", end("median"), end("low"), end("high"))
}

/// The commands that ran programs.
fn commands(kept: &[Kept]) -> String {
    let kept = kept.iter().filter(|file| file.speed("libc").is_some() && !file.is_beside());
    let said = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    let rows = kept.flat_map(|file| file.of("run")).map(|run| {
        let words = run["command"].as_array().into_iter().flatten().skip(1).map(said);
        let words = typed(words.collect()).replace('|', "\\|");
        let cpus = format!("{} of {}", run["machine"]["cpus"], said(&run["machine"]["cpu_model"]));
        let (words, program) = words.split_once(" -- ").unwrap_or((&words, ""));
        let program = if program.is_empty() { String::new() } else { format!("`{program}`") };
        vec![format!("`overlock {words}`"), program, said(&run["commit"]), cpus]
    });
    table(&["command", "program", "commit", "CPUs"], merged(rows, &[0, 2, 3]))
}

/// Returns a command as it is typed in the repository, without the file that it writes.
fn typed(mut words: Vec<String>) -> String {
    if let Some(at) = words.iter().position(|word| word == "--out") {
        words.drain(at..(at + 2).min(words.len()));
    }
    let root = format!("{}/", crate::root().display());
    let plain = |c: char| c.is_alphanumeric() || "-_=,.:/+%".contains(c);
    let words = words.iter().map(|word| word.replace(&root, ""));
    let quoted = words.map(|word| if word.chars().all(plain) { word } else { format!("'{word}'") });
    quoted.collect::<Vec<_>>().join(" ")
}

const POINTS: [(&str, &str, f64); 6] = [
    ("of the best, mean", "/of_best_peer", 1.0),
    ("worst point", "/worst/ratio", 1.0),
    ("longest stall, ms", "/longest_stall_ns", 1e6),
    ("p99.9 over parking_lot's", "/p999_of_parking_lot", 1.0),
    ("worst Jain, to 16 threads", "/calm_jain", 1.0),
    ("pair, ns", "/pair_ns", 1.0),
];

/// The summary of each lock at points of one lock alone, by how many busy processes were beside it.
fn points(kept: &[Kept]) -> String {
    let files = kept.iter().filter(|file| file.of("point").all(|row| row["task"].is_null()));
    let rows = files.flat_map(|file| file.of("summary")).map(|row| {
        let cell = |(_, field, unit): &(&str, &str, f64)| match row.pointer(field) {
            Some(Value::Number(value)) => three(value.as_f64().unwrap_or(f64::NAN) / unit),
            Some(value) => interval(value),
            None => "-".into(),
        };
        let name = row["lock"].as_str().unwrap_or("?").to_owned();
        let beside = row["beside"].as_u64().unwrap_or(0).to_string();
        [name, beside].into_iter().chain(POINTS.iter().map(cell)).collect()
    });
    table(&[&["lock", "beside"][..], &POINTS.map(|column| column.0)].concat(), rows)
}

/// What threads do besides taking one lock, as tasks that begin with `begin`: at each point `lock`
/// over the best of its peers.
fn tasks(kept: &[Kept], lock: &str, begin: &str) -> String {
    let all = kept.iter().flat_map(|file| file.of("point"));
    let all = all.filter(|row| row["world"] == "threads" && row["lock"] == lock);
    let rows = all.filter_map(|row| {
        let task = row["task"].as_str().filter(|task| task.starts_with(begin))?;
        let us = |field: &str| row[field].as_f64().map_or("?".into(), |ns| three(ns / 1e3));
        let beside = row["beside"].as_u64().unwrap_or(0);
        let peer = row["best_peer"].as_str().unwrap_or("?").to_owned();
        let lengths = format!("{} / {}", us("cs_ns"), us("ncs_ns"));
        let over = interval(&row["of_best_peer"]);
        Some(vec![
            task.to_owned(),
            row["cpus"].to_string(),
            lengths,
            beside.to_string(),
            over,
            peer,
        ])
    });
    let head =
        ["task", "threads", "section / pause, us", "beside", "over the best peer", "best peer"];
    table(&head, rows)
}

/// The programs, the worst under `hybrid` at first: those beside busy processes, or the others.
fn programs(kept: &[Kept], beside: bool) -> String {
    let locks = ["hybrid", "none"];
    let median = |file: &Kept, lock: &str| file.speed(lock).and_then(|of| of["median"].as_f64());
    let of = |file| Some((median(file, locks[0])?, file));
    let mut files: Vec<_> =
        kept.iter().filter(|file| file.is_beside() == beside).filter_map(of).collect();
    files.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = |lock: &&str| {
        let all: Option<Vec<f64>> = files.iter().map(|(_, file)| median(file, lock)).collect();
        let logs = all.map(|all| all.iter().map(|one| one.ln()).sum::<f64>() / all.len() as f64);
        logs.map_or("-".into(), |mean| three(mean.exp()))
    };
    let means = || [vec!["geometric mean".into()], locks.iter().map(mean).collect()].concat();
    let row = |(_, file): &(f64, &Kept)| {
        let cell = |lock: &&str| file.speed(lock).map_or("-".into(), interval);
        [vec![file.0.trim_end_matches(BESIDE).to_owned()], locks.iter().map(cell).collect()]
            .concat()
    };
    let rows = files.iter().map(row).chain((!files.is_empty()).then(means));
    table(&[&["program"][..], &locks].concat(), rows)
}

/// What each policy gains over `linux`, seed by seed, in each file that has both; and what `linux`
/// gains where the file `load-more` has something more than the file `load`.
fn policies(kept: &[Kept]) -> String {
    let ops = |row: &Value| -> Vec<f64> {
        let samples = row["samples"].as_array().into_iter().flatten();
        samples.filter_map(|sample| sample["ops_per_s"].as_f64()).collect()
    };
    // The second lowest and the second highest of ten: 98 of 100 such intervals have the median.
    let over = |one: &[f64], other: &[f64]| {
        let mut all: Vec<f64> = one.iter().zip(other).map(|(one, other)| one / other).collect();
        all.sort_by(f64::total_cmp);
        let (count, skip) = (all.len(), usize::from(all.len() >= 9));
        let middle = f64::midpoint(all[(count - 1) / 2], all[count / 2]);
        format!("{middle:.3} ({:.3}..{:.3})", all[skip], all[count - 1 - skip])
    };
    let mut rows = Vec::new();
    for file in kept {
        let plain =
            file.0.rsplit_once('-').and_then(|(name, _)| kept.iter().find(|of| of.0 == name));
        for base in file.of("point").filter(|row| row["policy"] == "linux") {
            let like = |row: &&Value| ["policy", "cpus"].iter().all(|of| row[of] == base[of]);
            if let Some((plain, row)) =
                plain.and_then(|of| Some((&of.0, of.of("point").find(like)?)))
            {
                let place =
                    [file.0.clone(), base["cpus"].to_string(), format!("linux, over {plain}")];
                rows.push([&place[..], &[over(&ops(base), &ops(row))]].concat());
            }
            for row in file.of("point").filter(|row| row["cpus"] == base["cpus"]) {
                let (mut own, mut name) = (ops(row), row["policy"].as_str().unwrap_or("?"));
                if name == "linux" {
                    own.rotate_left(1);
                    name = "linux, other seeds";
                }
                let place = [file.0.clone(), base["cpus"].to_string(), name.to_owned()];
                rows.push([&place[..], &[over(&own, &ops(base))]].concat());
            }
        }
    }
    let rows = merged(rows.into_iter(), &[0, 1]);
    table(&["load", "vCPUs", "policy", "over `linux`"], rows)
}

#[cfg(test)]
mod tests;
