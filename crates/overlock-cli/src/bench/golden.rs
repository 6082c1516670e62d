//! What people are shown of rows that the command wrote in the past, against files in
//! `tests/tables`: every table, sentence and verdict of `bench`, without a measurement.

use std::sync::atomic::AtomicBool;

use overlock_bench::experiment::Experiment;
use overlock_bench::published::beside;
use overlock_bench::{Failed, Job, World};
use overlock_results::judge::{check, explain};
use overlock_results::locks::Lock;
use overlock_results::row::{Point, Row, Summary};
use overlock_results::{Error, Run};

use super::tables::{explanations, group};
use super::{bounds, published, summary};

/// A world in which nothing runs.
struct Past(&'static str);

impl World for Past {
    fn name(&self) -> &'static str {
        self.0
    }
    fn is_real(&self) -> bool {
        false
    }
    fn pcpus(&self) -> u32 {
        1
    }
    fn locks(&self) -> Vec<Lock> {
        Vec::new()
    }
    fn check(&self, _: &Job) -> Result<(), Error> {
        Ok(())
    }
    fn run(&self, _: &Job, _: &AtomicBool) -> Result<Run, Failed> {
        Err(Failed::Cancelled)
    }
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables");

fn read(name: &str) -> String {
    std::fs::read_to_string(format!("{FOLDER}/{name}")).unwrap()
}

fn rows(text: &str) -> Vec<Row> {
    text.lines().map(|line| Row::parse(line).unwrap()).collect()
}

fn points(text: &str) -> Vec<Point> {
    rows(text).iter().filter_map(Row::point).cloned().collect()
}

const BENCH: &str = include_str!("../../../overlock-results/tests/data/2026-11-26-bench.jsonl");
const LAB: &str = include_str!("../../../overlock-results/tests/data/2026-11-26-lab.jsonl");
const SIM: &str = include_str!("../../../overlock-results/tests/data/2026-11-26-sim.jsonl");

/// Compares each text with the file that has its name. With `OVERLOCK_BLESS=1` it writes the files
/// instead: see what changed by `git diff`.
fn all_are_as_kept<const N: usize>(shown: [(&str, String); N]) {
    let mut wrong = String::new();
    for (name, text) in shown {
        let file = format!("{name}.txt");
        if std::env::var_os("OVERLOCK_BLESS").is_some() {
            std::fs::write(format!("{FOLDER}/{file}"), text).unwrap();
        } else if read(&file) != text {
            wrong += &format!("{file}:\n{text}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_tables_of_groups_are_what_they_were() {
    let bench = points(BENCH);
    let place = bench[0].place();
    let one: Vec<Point> = bench.into_iter().filter(|point| point.place() == place).collect();
    let of = |points: &[Point], world, is_long| group(points, &Past(world), true, is_long);
    all_are_as_kept([
        ("threads", of(&one, "threads", false)),
        ("line", of(&one, "threads", true)),
        ("vcpus", of(&points(LAB), "kvm", false)),
        ("simulated", of(&points(SIM), "sim", false)),
        ("image", of(&points(LAB), "tcg", false)),
        ("yields", of(&points(&read("yields.jsonl")), "sim", false)),
        ("timer", of(&points(&read("timer.jsonl")), "sim", false)),
    ]);
    assert_eq!(group(&[], &Past("kvm"), true, false), "");
}

#[test]
fn what_is_said_of_all_points_is_what_it_was() {
    let bench = rows(BENCH);
    let summary_of = |row: &Row| match row {
        Row::Summary(summary) => Some(summary.clone()),
        _ => None,
    };
    let summaries: Vec<Summary> = bench.iter().filter_map(summary_of).collect();
    let mut yields = points(&read("yields.jsonl"));
    for point in &mut yields {
        point.explanation = explain(point);
    }
    let experiment = Experiment::parse("published", &read("published.toml")).unwrap();
    let besides = beside(&experiment, &Past("sim"), &points(&read("published.jsonl")));
    all_are_as_kept([
        ("summary", summary::table(&summaries, &points(BENCH))),
        ("checks", bounds::text(&check(&bench))),
        ("explain", explanations(&yields)),
        ("published", published::table(&experiment, &Past("sim"), &besides)),
    ]);
}

#[test]
fn a_verdict_that_is_not_as_pinned_is_a_change() {
    let mut experiment = Experiment::parse("published", &read("published.toml")).unwrap();
    let points = points(&read("published.jsonl"));
    let changed = |experiment: &Experiment| {
        published::changes(experiment, &beside(experiment, &Past("sim"), &points))
    };
    assert_eq!(changed(&experiment), Vec::<String>::new());
    experiment.published[0].pinned = experiment.published[2].pinned;
    all_are_as_kept([("changed", changed(&experiment).join("\n") + "\n")]);
}
