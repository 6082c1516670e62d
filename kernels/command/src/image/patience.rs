//! How long a machine may be silent: by what it did in that time, not by the clock alone.
//!
//! An emulated machine on a busy host gets little of its processors. Linux tells for each thread
//! how long it ran, and how long it could have run but had to wait for a processor
//! (Documentation/scheduler/sched-stats.rst, `/proc/PID/task/TID/schedstat`, in nanoseconds).

use std::fs;
use std::time::{Duration, Instant};

/// How many processors a machine keeps busy when it spins, at least.
const PROCESSORS: u32 = 2;

/// A machine that has been waited for so many times as long as usual is given up in any case.
pub(super) const AT_MOST: u32 = 10;

/// What the threads of a process have had, all together.
#[derive(Clone, Copy, Debug, Default)]
struct Had {
    ran: Duration,
    waited: Duration,
}

impl Had {
    /// Nothing, where the system does not tell.
    fn of(pid: i32) -> Self {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let mut had = Self::default();
        for thread in threads {
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let mut times = text.split_ascii_whitespace().map_while(|word| word.parse().ok());
            had.ran += Duration::from_nanos(times.next().unwrap_or(0));
            had.waited += Duration::from_nanos(times.next().unwrap_or(0));
        }
        had
    }
}

#[derive(Debug)]
pub(super) struct Silence {
    pid: i32,
    began: Instant,
    before: Had,
}

impl Silence {
    pub(super) fn begin(pid: i32) -> Self {
        Self { pid, began: Instant::now(), before: Had::of(pid) }
    }

    pub(super) fn lasted(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether it has lasted longer than `patience`, and the process could have ended it.
    pub(super) fn is_too_long(&self, patience: Duration) -> bool {
        let lasted = self.lasted();
        if lasted < patience {
            return false;
        }
        let now = Had::of(self.pid);
        let [ran, waited] = [(now.ran, self.before.ran), (now.waited, self.before.waited)]
            .map(|(now, before)| now.saturating_sub(before));
        is_over(lasted, ran, waited, patience)
    }
}

/// Whether a silence is over: the process had as much of its processors as it usually needs, or did
/// not want any, or it took too long by far.
fn is_over(lasted: Duration, ran: Duration, waited: Duration, patience: Duration) -> bool {
    ran >= patience * PROCESSORS || waited < lasted / 2 || lasted >= patience * AT_MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_kept_waiting_has_more_time() {
        let over = |[lasted, ran, waited]: [u64; 3]| {
            let [lasted, ran, waited] = [lasted, ran, waited].map(Duration::from_secs);
            is_over(lasted, ran, waited, Duration::from_secs(60))
        };
        // Halted for good; spinning with all that it wants; spinning beside others.
        assert!(over([60, 0, 0]) && over([60, 120, 3]) && over([120, 120, 100]));
        // Kept waiting, and for ever.
        assert!(!over([60, 60, 60]) && !over([120, 59, 181]) && over([600, 50, 900]));
    }

    #[test]
    fn what_a_process_had_is_read() {
        let before = Had::of(std::process::id().cast_signed());
        // The account of a thread that runs is as old as the kernel's last timer tick.
        let end = Instant::now() + Duration::from_secs(10);
        let mut now = before;
        while now.ran <= before.ran && Instant::now() < end {
            now = Had::of(std::process::id().cast_signed());
        }
        let readable = fs::metadata("/proc/self/schedstat").is_ok();
        assert!(!readable || now.ran > before.ran, "{before:?} {now:?}");
    }
}
