//! The summary of all points of threads, for people.

use crate::table::Table;
use overlock_results::row::{Point, Summary, beside};
use overlock_results::stats;
use serde_json::json;

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
    // One round has no interval.
    let is_one = points.iter().all(|point| point.samples.len() == 1);
    let row = |of: &&Summary| {
        let mut row = json!(of);
        if let Some(ratio) = of.of_best_peer.filter(|_| is_one) {
            row["of_best_peer"] = json!(ratio.median);
        }
        row
    };
    let table = Table::of("summary", &summaries.iter().map(row).collect::<Vec<_>>());
    let places = stats::unique(points.iter().map(|point| point.place())).len();
    format!(
        "Summary{place}: geometric mean over all points ({places}), and over those without any \
         work (0/0);\npair is an uncontended lock and unlock; Jain is the worst, then the worst of the points with up to 16 threads;\n\
         p99.9/pl and stall/pl are over parking-lot's, where threads compete; neighbours is the CPU \
         time\nthat the busy processes beside got, of what they have alone\n{table}"
    )
}
