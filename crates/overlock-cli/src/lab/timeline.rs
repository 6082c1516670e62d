// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of a timeline, from a run that is used for nothing else, so that recording affects no
//! figure.

use super::results::{GroupRuns, PointRuns, ops_per_s};
use overlock_world::Timeline;
use serde::Serialize;

/// Which vCPU ran where and held which lock, for a part of one run.
#[derive(Debug, Serialize)]
pub(super) struct TimelineRecord<'a> {
    kind: &'static str,
    world: &'a str,
    workload: &'a str,
    lock: &'a str,
    policy: &'a str,
    cpus: u32,
    pcpus: u32,
    cs_ns: u64,
    ncs_ns: u64,
    /// Throughput of the recorded run over the median of the others.
    speed: Option<f64>,
    #[serde(flatten)]
    timeline: &'a Timeline,
}

impl<'a> TimelineRecord<'a> {
    /// Makes the record; nothing, if no timeline was taken.
    pub(super) fn new(group: &'a GroupRuns, runs: &'a PointRuns) -> Option<Self> {
        let noted = runs.noted.as_ref()?;
        let median = runs.median(ops_per_s);
        Some(TimelineRecord {
            kind: "timeline",
            world: &noted.world,
            workload: &group.profile.name,
            lock: &runs.point.lock.name,
            policy: &runs.point.policy,
            cpus: runs.point.cpus,
            pcpus: runs.point.pcpus,
            cs_ns: group.profile.section_ns,
            ncs_ns: group.profile.think_ns,
            speed: (median > 0.0).then(|| noted.ops_per_s / median),
            timeline: noted.timeline.as_ref()?,
        })
    }
}
