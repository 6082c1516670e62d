// SPDX-License-Identifier: MIT OR Apache-2.0
//! What-if, for people.

use crate::table::Table;
use overlock_judge::what_if::{TAIL, answer};
use overlock_world::row::{Point, WhatIf};
use overlock_world::units::{three, time};

/// Answers for each lock and policy of each group.
pub(super) fn answers(loss: f64, points: &[Point]) -> Vec<WhatIf> {
    let bases = points.iter().filter(|point| point.cpus == point.pcpus);
    bases.map(|base| answer(loss, base, points)).collect()
}

/// The table of answers.
pub(super) fn text(loss: f64, answers: &[WhatIf]) -> String {
    let mut table = Table::new(&[
        "lock, policy",
        "up to",
        "vCPUs",
        "of 1x",
        "p99.9",
        "at the next",
        "what fails",
    ]);
    answers.iter().for_each(|answer| table.row(line(answer)));
    let loss = three(100.0 * loss);
    format!(
        "What if: the highest tried overcommit at which throughput is within {loss} % of 1x, and \
         p99.9 is at most {TAIL}x that of 1x:\n{table}"
    )
}

fn line(of: &WhatIf) -> Vec<String> {
    let policy = if of.policy == "none" { "" } else { &of.policy };
    let comma = if policy.is_empty() { "" } else { ", " };
    vec![
        format!("{}{comma}{policy}", of.lock),
        of.overcommit.map_or_else(|| "not 1x".into(), |over| format!("{}x", three(over))),
        of.cpus.map_or_else(|| "-".into(), |cpus| cpus.to_string()),
        three(of.of_1x),
        time(of.p999_ns as f64),
        of.fails_at.map_or_else(|| "-".into(), |cpus| cpus.to_string()),
        of.fails_by.clone().unwrap_or_else(|| "nothing".into()),
    ]
}
