//! The rows of jobs and their runs.

use overlock_results::locks::Lock;
use overlock_results::row::{Point, TimelineRow};
use overlock_results::{Run, Takers, Task};

use crate::Job;

/// Merges the runs of `job` in the world called `world`. Ratios to other points are filled in
/// by [`relate`](overlock_results::row::relate).
pub fn point_of(world: &str, job: &Job, samples: Vec<Run>) -> Point {
    let has_host = Takers::of(world).has_host();
    let reads = job.profile.timer_reads > 0;
    let mut point = Point {
        world: world.to_owned(),
        workload: job.profile.name.clone(),
        lock: job.lock.clone(),
        policy: job.policy.clone(),
        timer: (has_host && reads).then(|| job.timer.name().to_owned()),
        cpus: Some(job.cpus),
        pcpus: Some(job.host.pcpus),
        cs_ns: Some(job.profile.section_ns),
        ncs_ns: Some(job.profile.think_ns),
        sections: Some(job.profile.sections),
        contention: job.contention,
        lengths: (!has_host).then_some(job.shape.lengths),
        locks_count: u32::try_from(job.profile.locks).ok().filter(|locks| *locks > 0),
        then_ns: job.shape.then_ns,
        uneven: (!has_host).then_some(job.shape.uneven),
        task: Some(job.shape.task).filter(|task| *task != Task::default()),
        beside: Some(job.shape.beside).filter(|count| *count > 0),
        ..Point::default()
    };
    if has_host {
        point.paravirtual = Lock::named(&job.lock).map(|lock| lock.paravirtual);
        point.slice_ns = Some(job.host.slice_ns);
        point.pause_window_ns = Some(job.pause_window_ns());
        point.sample_ns = Some(job.sample_ns());
        point.grace_ns = Some(job.host.grace_ns);
    }
    point.samples = samples;
    point.sum_up(reads);
    point
}

/// The timeline of a run of `job` in `world`, if it has one; `point` is the job's, without it.
pub fn timeline_of(world: &str, job: &Job, run: Run, point: Option<&Point>) -> Option<TimelineRow> {
    let timeline = run.timeline?;
    let stints = timeline.stints.into_iter();
    let holds = timeline.holds.into_iter();
    Some(TimelineRow {
        world: world.to_owned(),
        workload: job.profile.name.clone(),
        lock: job.lock.clone(),
        policy: job.policy.clone(),
        cpus: job.cpus,
        pcpus: job.host.pcpus,
        cs_ns: job.profile.section_ns,
        ncs_ns: job.profile.think_ns,
        speed: point.map(Point::ops).filter(|ops| *ops > 0.0).map(|ops| run.ops_per_s / ops),
        from_ns: timeline.from_ns,
        to_ns: timeline.to_ns,
        stints: stints.map(|(v, name, p, from, to)| (v, name.into(), p, from, to)).collect(),
        holds: holds
            .map(|(v, l, asked, taken, until)| (v, l, asked, Some(taken), Some(until)))
            .collect(),
    })
}
