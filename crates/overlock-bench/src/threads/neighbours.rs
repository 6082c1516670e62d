//! Busy processes beside a run: other people's programs, on a machine that is shared.
//!
//! Each computes without end, on any processor that the scheduler chooses. What they lose to the
//! run is a price of the lock: waiters that spin, or yield, take processors from them.

use crate::threads::RunError;
use overlock_programs::{Child, allowed_cpus};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The verb under which the program that uses this crate calls [`compute`].
pub const NEIGHBOUR: &str = "bench-neighbour";

/// Busy processes, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Neighbours {
    processes: Vec<Child>,
    since: Instant,
    used_ns: u64,
}

impl Neighbours {
    pub(crate) fn start(count: u32) -> Result<Self, RunError> {
        let mut processes = Vec::new();
        for _ in 0..count {
            let mut command = Command::new("/proc/self/exe");
            command.arg(NEIGHBOUR).stdin(Stdio::null()).stdout(Stdio::null());
            let child = Child::spawn(&mut command);
            processes.push(child.map_err(RunError::when("start a busy process"))?);
        }
        let mut started = Self { processes, since: Instant::now(), used_ns: 0 };
        started.used_ns = started.used();
        Ok(started)
    }

    /// The CPU time that they have got since, as a share of what they would have got alone; nothing
    /// without neighbours.
    pub(crate) fn share(&self) -> Option<f64> {
        let count = u32::try_from(self.processes.len()).ok().filter(|count| *count > 0)?;
        let alone = self.since.elapsed().as_secs_f64() * f64::from(count.min(allowed_cpus()));
        let used = self.used().saturating_sub(self.used_ns);
        Some((used as f64 / 1e9 / alone).min(1.0))
    }

    /// The CPU time of all of them, in nanoseconds: the first figure of `/proc/PID/schedstat`
    /// (Linux, Documentation/scheduler/sched-stats.rst).
    fn used(&self) -> u64 {
        let of = |child: &Child| {
            let text = fs::read_to_string(format!("/proc/{}/schedstat", child.id())).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        self.processes.iter().filter_map(of).sum()
    }
}

/// Computes until the process is killed.
pub fn compute() -> ! {
    let mut number = 1_u64;
    loop {
        number = std::hint::black_box(number.wrapping_mul(0x5851_f42d_4c95_7f2d) + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_neighbours_there_is_no_share() {
        assert_eq!(Neighbours::start(0).unwrap().share(), None);
    }
}
