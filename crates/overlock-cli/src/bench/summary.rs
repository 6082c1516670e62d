//! The summary of all points of threads, for people.

use crate::table::Table;
use overlock_results::row::{Point, Summary, beside};
use overlock_results::stats;
use overlock_results::units::{three, time};

pub(super) fn table(summaries: &[Summary], points: &[Point]) -> String {
    let settings = stats::unique(summaries.iter().map(|of| of.beside));
    let of = |beside: &Option<u32>| {
        let lines: Vec<_> = summaries.iter().filter(|of| of.beside == *beside).collect();
        let points: Vec<_> = points.iter().filter(|of| of.beside == *beside).collect();
        setting(&lines, &points)
    };
    settings.iter().map(of).collect::<Vec<_>>().join("\n")
}

fn setting(summaries: &[&Summary], points: &[&Point]) -> String {
    let place = summaries.first().map_or_else(String::new, |of| beside(of.beside));
    let mut table = Table::headed(
        "lock|of best peer|low|high|worst|0/0|pair|Jain|Jain<=16|p99.9/pl|stall/pl|\
         stall|neighbours|worst point",
    );
    let ratio = |value: Option<f64>| value.map_or_else(|| "-".into(), three);
    let is_one = points.iter().all(|point| point.samples.len() == 1);
    let ends = |of: &Summary| of.of_best_peer.filter(|_| !is_one);
    for of in summaries {
        table.row(vec![
            of.lock.clone(),
            ratio(of.of_best_peer.map(|ratio| ratio.median)),
            ratio(ends(of).map(|ratio| ratio.low)),
            ratio(ends(of).map(|ratio| ratio.high)),
            ratio(of.worst.as_ref().map(|worst| worst.ratio)),
            ratio(of.bare_of_best_peer),
            of.pair_ns.map_or_else(|| "-".into(), time),
            format!("{:.2}", of.worst_jain),
            format!("{:.2}", of.calm_jain),
            ratio(of.p999_of_parking_lot),
            ratio(of.stall_of_parking_lot),
            time(of.longest_stall_ns),
            of.neighbours.map_or_else(|| "-".into(), |of| format!("{:.0} %", 100.0 * of)),
            of.worst.as_ref().map_or_else(String::new, |worst| worst.point.clone()),
        ]);
    }
    let places = stats::unique(points.iter().map(|point| point.place())).len();
    format!(
        "Summary{place}: geometric mean over all points ({places}), and over those without any \
         work (0/0);\npair is an uncontended lock and unlock; Jain is the worst, then the worst of the points with up to 16 threads;\n\
         p99.9/pl and stall/pl are over parking-lot's, where threads compete; neighbours is the CPU \
         time\nthat the busy processes beside got, of what they have alone\n{table}"
    )
}
