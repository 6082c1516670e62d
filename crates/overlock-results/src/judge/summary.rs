//! One row for each lock over all points.

use crate::Run;
use crate::judge::check::CALM_THREADS;
use crate::row::{Point, Row, Summary, Worst, geomeans};
use crate::stats::{Interval, geomean, median, unique};

/// Summarises every lock that was measured at all points of threads: first a quiet machine, then
/// beside busy processes, each with the fastest first.
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let points: Vec<Point> = rows.iter().filter_map(Row::point).cloned().collect();
    let mut settings = unique(points.iter().map(|point| point.beside));
    settings.sort_unstable();
    let of = |beside| {
        let points = points.iter().filter(|point| point.beside == beside).cloned();
        setting(&points.collect::<Vec<_>>(), rows)
    };
    settings.into_iter().flat_map(of).collect()
}

/// The summaries of the points beside as many busy processes.
fn setting(points: &[Point], rows: &[Row]) -> Vec<Summary> {
    let pair_ns = |name: &str| {
        rows.iter().find_map(|row| match row {
            Row::Pair(pair) if pair.lock == name => Some(pair.ns?.median),
            _ => None,
        })
    };
    let of = |name: &str| points.iter().filter(|point| point.lock == name).count();
    let names = unique(points.iter().map(|point| point.lock.clone()));
    let most = names.iter().map(|name| of(name)).max().unwrap_or(0);
    let whole = names.iter().filter(|name| of(name) == most);
    let mut all: Vec<Summary> = whole.map(|name| line(name, points, pair_ns(name))).collect();
    let key = |line: &Summary| line.of_best_peer.map_or(0.0, |ratio| ratio.median);
    all.sort_by(|a, b| key(b).total_cmp(&key(a)));
    all
}

fn line(name: &str, points: &[Point], pair_ns: Option<f64>) -> Summary {
    let own: Vec<&Point> = points.iter().filter(|point| point.lock == name).collect();
    let calm: Vec<&Point> =
        own.iter().copied().filter(|point| point.cpus <= Some(CALM_THREADS)).collect();
    let of_parking_lot = |figure: fn(&Run) -> f64| {
        let contended = own.iter().filter(|point| point.cpus > Some(1));
        let ratio = |point: &&Point| {
            let is_there = |of: &&Point| point.takes_turns_with(of) && of.cpus == point.cpus;
            let is_same = |of: &&Point| ["parking-lot", "parking-lot-rwlock"].contains(&&*of.lock);
            let mut other = points.iter().filter(is_there).filter(is_same);
            median(&point.rounds_over(other.next()?, figure))
        };
        geomean(&contended.filter_map(ratio).collect::<Vec<_>>())
    };
    let stall = |of: &[&Point]| {
        of.iter().filter_map(|point| point.longest_stall_ns).max().unwrap_or(0) as f64
    };
    let jain = |of: &[&Point]| of.iter().filter_map(|point| point.jain).fold(1.0, f64::min);
    let worst = own.iter().filter_map(|point| {
        Some(Worst { ratio: point.of_best_peer?.median, point: point.place_itself() })
    });
    let bare = own.iter().filter(|point| (point.cs_ns, point.ncs_ns) == (Some(0), Some(0)));
    let bare = bare.filter_map(|point| Some(point.of_best_peer?.median)).collect::<Vec<_>>();
    let neighbours = own.iter().filter_map(|point| point.neighbours).collect::<Vec<_>>();
    let mean = neighbours.iter().sum::<f64>() / neighbours.len() as f64;
    Summary {
        lock: name.to_owned(),
        beside: own.first().and_then(|point| point.beside),
        bare_of_best_peer: geomean(&bare),
        neighbours: (!neighbours.is_empty()).then_some(mean),
        of_best_peer: Interval::of(&geomeans(name, points)),
        worst: worst.min_by(|a, b| a.ratio.total_cmp(&b.ratio)),
        pair_ns,
        worst_jain: jain(&own),
        calm_jain: jain(&calm),
        p999_of_parking_lot: of_parking_lot(|run| run.wait_ns.p999 as f64),
        stall_of_parking_lot: of_parking_lot(Run::stall_ns),
        longest_stall_ns: stall(&own),
        calm_stall_ns: stall(&calm),
    }
}
