//! A comparison's table: a row for each lock.

use crate::table::Table;
use overlock_results::Run;
use overlock_results::row::Point;
use overlock_results::stats::{self, Interval};
use overlock_results::units::{count, three, time};

pub(super) fn table(points: &[Point], library: Option<&str>) -> String {
    let Some(first) = points.first() else { return String::new() };
    format!("{}{}", heading(first, points, library), rows(first, points))
}

fn rows(first: &Point, points: &[Point]) -> Table {
    let show = |value: f64| match &first.metric {
        Some(_) => count(value),
        None => time(value * 1e9),
    };
    let of = format!("of {}", first.baseline.as_deref().unwrap_or("?"));
    let what = if first.metric.is_some() { "metric" } else { "wall time" };
    // One round has no interval.
    let has_ends = points.iter().any(|point| point.samples.len() > 1);
    let ends: &[&str] = if has_ends { &["low", "high"] } else { &[] };
    let rest = ["stall", "CPU s", "RSS MiB"];
    let mut table = Table::new(&[&["lock", what], ends, &[&of], ends, &rest].concat());
    for point in points {
        let (Some(value), Some(ratio)) = (point.value, point.of_baseline) else { continue };
        let median = |figure: fn(&Run) -> Option<f64>| {
            let each: Option<Vec<f64>> = point.samples.iter().map(figure).collect();
            each.and_then(|each| stats::median(&each)).map_or_else(|| "-".into(), three)
        };
        let mut row = vec![point.lock.clone()];
        let figures = |of: Interval| [of.median, of.low, of.high];
        let shown = if has_ends { 3 } else { 1 };
        row.extend(figures(value).map(show).into_iter().take(shown));
        row.extend(figures(ratio).map(three).into_iter().take(shown));
        row.push(point.longest_stall_ns.map_or_else(String::new, |ns| time(ns as f64)));
        row.push(median(|run| run.cpu_s));
        row.push(median(|run| Some(run.max_rss_kib? as f64 / 1024.0)));
        table.row(row);
    }
    table
}

fn heading(first: &Point, points: &[Point], library: Option<&str>) -> String {
    let of = format!("of {}", first.baseline.as_deref().unwrap_or("?"));
    let most = points.iter().map(|point| point.samples.len()).max().unwrap_or(0);
    let metric = match (&first.metric, first.higher_is_better) {
        (None, _) => "",
        (Some(_), Some(true)) => "; a higher metric is better",
        (Some(_), _) => "; a lower metric is better, without --higher-is-better",
    };
    let library = library.map_or_else(String::new, |file| format!("; {file}"));
    format!(
        "{}\n{}{metric}; \"{of}\" above 1 is better{library}\n",
        first.workload,
        stats::describe(most)
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use overlock_results::row::Row;

    /// The rows of a file that the command wrote in the past; of lists in it, most is left out.
    pub(in super::super) fn kept() -> Vec<Row> {
        let text = include_str!("../../../overlock-results/tests/data/2026-11-26-compare.jsonl");
        let mut rows: Vec<Row> = text.lines().map(|line| Row::parse(line).unwrap()).collect();
        for row in &mut rows {
            if let Row::Point(point) = row {
                point.samples.retain(|run| run.value.is_some());
            }
        }
        rows
    }

    #[test]
    fn the_table_of_a_kept_comparison_is_laid_out_again() {
        let points: Vec<Point> = kept().iter().filter_map(Row::point).cloned().collect();
        assert_eq!(table(&points, Some("the library")), KEPT);
    }

    const KEPT: &str = "\
/usr/bin/sort --parallel=4 /etc/services
1 round, so no interval; \"of libc\" above 1 is better; the library
  lock    wall time  of libc  stall  CPU s  RSS MiB
  libc       969 us     1.00   0 ns   9e-4     17.6
  hybrid    1.10 ms    0.878   0 ns  0.001     17.6
  none      1.12 ms    0.866   0 ns  0.001     17.6
";
}
