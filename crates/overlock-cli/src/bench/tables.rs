//! Tables of points for people: views of the columns that all worlds share.

use crate::table::Table;
use overlock_bench::World;
use overlock_results::columns::{self, Column, View};
use overlock_results::row::{Point, beside};
use overlock_results::units::{DurationArg, count, three, time};
use overlock_results::{NO_POLICY, Takers, stats};

/// The smallest share of yields whose reason is shown; rows have them all.
const TOLD: f64 = 0.01;

/// Lays out `view` of `points`; columns that none of them has are left out. Empty without points.
fn view(points: &[&Point], view: &View, label: fn(&Point) -> String, heading: &str) -> String {
    let has = |column: &&Column| points.iter().any(|point| column.show(point).is_some());
    let columns: Vec<&Column> = columns::of(view).filter(has).collect();
    if columns.is_empty() {
        return String::new();
    }
    let headings: Vec<&str> =
        [heading].into_iter().chain(columns.iter().map(|column| column.heading())).collect();
    let mut table = Table::new(&headings);
    for point in points {
        let cell = |column: &&Column| column.show(point).unwrap_or_else(|| "-".into());
        table.row([label(point)].into_iter().chain(columns.iter().map(cell)).collect());
    }
    table.to_string()
}

fn titled(title: &str, table: String) -> String {
    if table.is_empty() { table } else { format!("\n{title}\n{table}") }
}

fn name(point: &Point) -> String {
    match point.policy.as_str() {
        NO_POLICY => point.lock.clone(),
        policy => format!("{}, {policy}", point.lock),
    }
}

fn rule(point: &Point) -> String {
    point.timer.clone().unwrap_or_default()
}

/// All tables of a group; a line of one where there are many points that nobody named. Empty if
/// nothing was measured.
pub(super) fn group(points: &[Point], world: &dyn World, is_first: bool, is_long: bool) -> String {
    let Some(first) = points.first() else { return String::new() };
    let rounds = stats::describe(first.samples.len());
    match world.takers() {
        Takers::Threads | Takers::Program if is_long => line(points, is_first),
        Takers::Threads | Takers::Program => threads(points, &rounds),
        Takers::Kernel => image(points, world, &rounds),
        Takers::Vcpus => vcpus(points, world, &rounds),
    }
}

fn ranked(points: &[Point]) -> Vec<&Point> {
    let mut ranked: Vec<&Point> = points.iter().collect();
    ranked.sort_by(|a, b| b.ops().total_cmp(&a.ops()));
    ranked
}

fn threads(points: &[Point], rounds: &str) -> String {
    let points = ranked(points);
    let floor = points[0].floor_ns.map_or_else(String::new, |ns| format!("; floor {}", time(ns)));
    let of = |columns| view(&points, columns, name, "lock");
    let mut text = format!("{}  ({rounds}{floor})\n{}", points[0].place(), of(columns::THREADS));
    text += &titled("Where the lock's time went:", of(columns::LOCK_TIME));
    if points.iter().any(|point| point.spent.is_some()) {
        text += &titled("And that of the threads, as CPUs and threads:", of(columns::THREAD_TIME));
    }
    text
}

/// One line for a point, with a header before the first one: the shares of the best peer.
fn line(points: &[Point], is_first: bool) -> String {
    let (mut header, mut line) = (String::new(), String::new());
    let mut cell = |name: &str, text: String, width: usize| {
        header += &format!("{name:>width$}");
        line += &format!("{text:>width$}");
    };
    let point = &points[0];
    cell("threads", point.cpus.unwrap_or(0).to_string(), 9);
    cell("cs", DurationArg(point.cs_ns.unwrap_or(0)).to_string(), 9);
    cell("ncs", DurationArg(point.ncs_ns.unwrap_or(0)).to_string(), 9);
    cell("floor", point.floor_ns.map_or_else(|| "-".into(), time), 9);
    let peer = point.best_peer.clone();
    let best = points.iter().find(|of| Some(&of.lock) == peer.as_ref()).map_or(0.0, Point::ops);
    cell("best/s", count(best), 8);
    cell("best peer", peer.unwrap_or_else(|| "-".into()), 18);
    for point in points {
        let text = point.of_best_peer.map_or_else(|| "-".into(), |of| format!("{:.2}", of.median));
        cell(&point.lock, text, point.lock.len().max(4) + 2);
    }
    let line = format!("{line}  {}{}", point.shape(), beside(point.beside));
    if is_first { format!("Share of the best peer's throughput\n{header}\n{line}") } else { line }
}

fn vcpus(points: &[Point], world: &dyn World, rounds: &str) -> String {
    let first = &points[0];
    let all: Vec<&Point> = points.iter().collect();
    let of = |columns| view(&all, columns, name, "lock");
    let length = |ns: Option<u64>| DurationArg(ns.unwrap_or(0));
    let contention = first.contention.map(|share| three(100.0 * share));
    let contention = contention.map_or_else(String::new, |of| format!(" (contention {of} %)"));
    let mut text = format!(
        "{}, cs {}, ncs {}{contention}{}, {} pCPUs, {}  ({rounds})\n",
        first.workload,
        length(first.cs_ns),
        length(first.ncs_ns),
        first.use_of_lock(),
        first.pcpus.unwrap_or(0),
        world.about(),
    );
    if first.sections != Some(0) {
        text += &of(columns::VCPUS);
        let title = "Operations of each vCPU in a run, and acquisitions out of turn:";
        text += &titled(title, of(columns::FAIRNESS));
        let asked: Vec<&Point> = all.iter().filter(|of| of.policy != NO_POLICY).copied().collect();
        text += &titled(
            "Yields: throughput over that of other policies, and how often they were right:",
            view(&asked, columns::YIELDS, name, "lock, policy"),
        );
        text += &reasons(&asked);
    }
    if first.timer.is_some() {
        let table = view(&all, columns::TIMER, rule, "rule");
        text += &titled("The PM timer, by the rule of its readers:", table);
    }
    text
}

fn reasons(points: &[&Point]) -> String {
    let mut lines = Vec::new();
    for point in points {
        let times = point.asked().times;
        let kinds = ["directed", "plain", "stayed"].into_iter().filter_map(|kind| {
            let told = |(why, count): (&str, u64)| {
                let share = count as f64 / times;
                (share >= TOLD).then(|| format!("{why} {} %", three(100.0 * share)))
            };
            let told: Vec<String> = point.reasons(kind).into_iter().filter_map(told).collect();
            (!told.is_empty()).then(|| format!("{kind}: {}", told.join(", ")))
        });
        let kinds = kinds.collect::<Vec<_>>().join("; ");
        if !kinds.is_empty() {
            lines.push(format!("  {}, {} vCPUs: {kinds}", name(point), point.cpus.unwrap_or(0)));
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("\nYields by reason code, as shares of the requests:\n{}\n", lines.join("\n"))
}

fn image(points: &[Point], world: &dyn World, rounds: &str) -> String {
    let all: Vec<&Point> = points.iter().collect();
    let of = |columns| view(&all, columns, name, "lock");
    let title = "Waits and kicks by outcome, all rounds together:";
    let waits = titled(title, of(columns::IMAGE_WAITS));
    format!("{}  ({rounds})\n{}{waits}", world.about(), of(columns::IMAGE))
}

pub(super) fn explanations(points: &[Point]) -> String {
    let mut text = String::from("Where the time went:\n");
    for point in points {
        let (cpus, pcpus) = (point.cpus.unwrap_or(0), point.pcpus.unwrap_or(0));
        text += &format!("  {}, {}, {cpus} vCPUs on {pcpus} pCPUs\n", point.lock, point.policy);
        for sentence in &point.explanation {
            text += &format!("    {sentence}\n");
        }
    }
    text
}
