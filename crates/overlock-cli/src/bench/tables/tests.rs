// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of rows that the command wrote in the past, against files in `tests/tables`.

use std::sync::atomic::AtomicBool;

use overlock_world::locks::Lock;
use overlock_world::row::{Point, Row, Summary};
use overlock_world::{Error, Failed, Job, Run, World};

use super::{group, summary};

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
    fn has_host(&self) -> bool {
        self.0 != "threads"
    }
    fn check(&self, _: &Job) -> Result<(), Error> {
        Ok(())
    }
    fn run(&self, _: &Job, _: &AtomicBool) -> Result<Run, Failed> {
        Err(Failed::Cancelled)
    }
}

/// What a table was.
fn kept(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables");
    std::fs::read_to_string(format!("{folder}/{name}.txt")).unwrap()
}

fn rows(text: &str) -> (Vec<Point>, Vec<Summary>) {
    let (mut points, mut summaries) = (Vec::new(), Vec::new());
    for line in text.lines() {
        match Row::parse(line) {
            Ok(Row::Point(point)) => points.push(*point),
            Ok(Row::Summary(summary)) => summaries.push(summary),
            _ => {}
        }
    }
    (points, summaries)
}

const BENCH: &str = include_str!("../../../../overlock-report/tests/data/2026-11-26-bench.jsonl");
const LAB: &str = include_str!("../../../../overlock-report/tests/data/2026-11-26-lab.jsonl");
const SIM: &str = include_str!("../../../../overlock-report/tests/data/2026-11-26-sim.jsonl");

#[test]
fn the_tables_of_kept_rows_are_what_they_were() {
    let bench = rows(BENCH).0;
    let (first, place) = (bench[0].place(), Point::place);
    let one: Vec<Point> = bench.iter().filter(|of| place(of) == first).cloned().collect();
    let wrong: Vec<String> = [
        ("threads", &one, "threads", false),
        ("line", &one, "threads", true),
        ("vcpus", &rows(LAB).0, "kvm", false),
        ("simulated", &rows(SIM).0, "sim", false),
        ("image", &rows(LAB).0, "tcg", false),
    ]
    .into_iter()
    .map(|(name, points, world, is_long)| (name, group(points, &Past(world), true, is_long)))
    .filter(|(name, text)| kept(name) != *text)
    .map(|(name, text)| format!("{name}.txt:\n{text}"))
    .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn without_points_there_is_no_table() {
    assert_eq!(group(&[], &Past("kvm"), true, false), "");
}

#[test]
fn the_summary_of_kept_rows_is_what_it_was() {
    let (points, summaries) = rows(BENCH);
    let text = summary(&summaries, &points);
    assert_eq!(text, kept("summary"), "{text}");
}
