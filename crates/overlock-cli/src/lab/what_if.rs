// SPDX-License-Identifier: MIT OR Apache-2.0
//! What-if: how far can a host be overcommitted before throughput or the tail of waits suffers?

use super::results::{GroupRuns, PointRuns, ops_per_s};
use crate::output::Sink;
use crate::stats;
use crate::table::Table;
use crate::units::{Nanos, three, time};
use anyhow::Result;
use serde::Serialize;
use std::str::FromStr;

/// The limit on the 99.9th percentile of waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tail {
    /// A multiple of that with one vCPU for each pCPU.
    Times(f64),
    /// A fixed time.
    Span(Nanos),
}

impl FromStr for Tail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(times) = text.strip_suffix('x') else { return text.parse().map(Self::Span) };
        let times = times.parse().ok().filter(|times| (1.0..=1e6).contains(times));
        times.map(Self::Times).ok_or_else(|| "choose 1x or more, or a time as in 5ms".into())
    }
}

/// The acceptable loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WhatIf {
    /// The share of the throughput with one vCPU for each pCPU that may be lost.
    pub(crate) loss: f64,
    pub(crate) tail: Tail,
}

/// The answer for one lock and policy.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    kind: &'static str,
    workload: &'a str,
    cs_ns: u64,
    ncs_ns: u64,
    lock: &'a str,
    policy: &'a str,
    pcpus: u32,
    loss: f64,
    /// The highest number of vCPUs at which, and at all lower ones, both bounds hold; absent if the
    /// tail is too long even with one vCPU for each pCPU.
    cpus: Option<u32>,
    overcommit: Option<f64>,
    /// Throughput there, over that with one vCPU for each pCPU, and the 99.9th percentile of waits.
    of_1x: f64,
    p999_ns: u64,
    /// The first number of vCPUs at which a bound does not hold, the bound, and by how much; absent
    /// if everything that was tried is within the bounds.
    fails_at: Option<u32>,
    fails_by: Option<String>,
}

fn p999(runs: &PointRuns) -> f64 {
    runs.median(|record| record.wait_ns.p999 as f64)
}

fn of_1x(runs: &PointRuns, base: &PointRuns) -> f64 {
    let ratio = runs.over(base, ops_per_s);
    ratio.map_or(0.0, |ratio| ratio.median)
}

impl WhatIf {
    /// Answers for each lock and policy of a group, in records and a table.
    pub(super) fn tell(&self, group: &GroupRuns, sink: &mut Sink) -> Result<()> {
        let answers = self.answers(group);
        let mut table = Table::new(&[
            "lock, policy",
            "up to",
            "vCPUs",
            "of 1x",
            "p99.9",
            "at the next",
            "what fails",
        ]);
        for answer in &answers {
            sink.record(answer)?;
            table.row(answer.row());
        }
        let rounds = group.points.iter().map(|runs| runs.samples.len()).min().unwrap_or(0);
        let tail = match self.tail {
            Tail::Times(times) => format!("{}x that of 1x", three(times)),
            Tail::Span(span) => span.to_string(),
        };
        let loss = three(100.0 * self.loss);
        sink.people(&format!(
            "What if: the highest tried overcommit at which throughput is within {loss} % of \
             1x, and p99.9 is at most {tail} ({}):\n{table}",
            stats::describe(rounds)
        ))
    }

    fn answers<'a>(&self, group: &'a GroupRuns) -> Vec<Answer<'a>> {
        let bases = group.points.iter().filter(|runs| runs.point.cpus == runs.point.pcpus);
        bases.map(|base| self.answer(group, base)).collect()
    }

    fn answer<'a>(&self, group: &'a GroupRuns, base: &'a PointRuns) -> Answer<'a> {
        let alike = |runs: &&PointRuns| {
            let (one, other) = (&runs.point, &base.point);
            (&one.lock, &one.policy, one.timer) == (&other.lock, &other.policy, other.timer)
                && one.cpus >= other.cpus
        };
        let mut tried: Vec<_> = group.points.iter().filter(alike).collect();
        tried.sort_by_key(|runs| runs.point.cpus);
        let fails = |runs: &PointRuns| self.fails(runs, base);
        let within = tried.iter().take_while(|runs| fails(runs).is_none()).last();
        let next = tried.iter().find_map(|runs| Some((runs.point.cpus, fails(runs)?)));
        let cpus = within.map(|runs| runs.point.cpus);
        let within = *within.unwrap_or(&base);
        let point = &within.point;
        Answer {
            kind: "what-if",
            workload: &group.profile.name,
            cs_ns: group.profile.section_ns,
            ncs_ns: group.profile.think_ns,
            lock: &point.lock.name,
            policy: &point.policy,
            pcpus: point.pcpus,
            loss: self.loss,
            cpus,
            overcommit: cpus.map(|cpus| f64::from(cpus) / f64::from(point.pcpus)),
            of_1x: of_1x(within, base),
            p999_ns: p999(within).round() as u64,
            fails_at: next.as_ref().map(|(cpus, _)| *cpus),
            fails_by: next.map(|(_, why)| why),
        }
    }

    /// Explains why a point is out of bounds; returns nothing if it is not.
    fn fails(&self, runs: &PointRuns, base: &PointRuns) -> Option<String> {
        let (ratio, tail) = (of_1x(runs, base), p999(runs));
        let most = match self.tail {
            Tail::Times(times) => times * p999(base),
            Tail::Span(span) => span.0 as f64,
        };
        if runs.point.cpus > base.point.cpus && ratio < 1.0 - self.loss {
            Some(format!("throughput {} of 1x", three(ratio)))
        } else if tail > most {
            Some(format!("p99.9 {}", time(tail)))
        } else {
            None
        }
    }
}

impl Answer<'_> {
    fn row(&self) -> Vec<String> {
        let policy = if self.policy == "none" { "" } else { self.policy };
        let comma = if policy.is_empty() { "" } else { ", " };
        vec![
            format!("{}{comma}{policy}", self.lock),
            self.overcommit.map_or_else(|| "not 1x".into(), |over| format!("{}x", three(over))),
            self.cpus.map_or_else(|| "-".into(), |cpus| cpus.to_string()),
            three(self.of_1x),
            time(self.p999_ns as f64),
            self.fails_at.map_or_else(|| "-".into(), |cpus| cpus.to_string()),
            self.fails_by.clone().unwrap_or_else(|| "nothing".into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_times_or_spans() {
        assert_eq!("10x".parse(), Ok(Tail::Times(10.0)));
        assert_eq!("5ms".parse(), Ok(Tail::Span(Nanos(5_000_000))));
        for text in ["", "x", "0.5x", "-3x", "5", "nanx"] {
            assert!(text.parse::<Tail>().is_err(), "{text}");
        }
    }
}
