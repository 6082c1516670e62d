//! Threads that are stepped: each makes one call when told, and the kernel says which are blocked.

use std::fs;

use super::model::{Call, Outcome, Thread};

/// Threads that make calls.
pub(crate) trait Machine {
    fn start(&mut self, thread: Thread, call: Call);
    /// What has returned since the last question.
    fn returned(&mut self) -> Vec<(Thread, Outcome)>;
    /// The directory in which the kernel tells of a thread.
    fn status(&self, thread: Thread) -> String;
    /// The same of a thread that passes calls on.
    fn relay(&self) -> Option<String> {
        None
    }

    /// Whether all of these threads, and the relay, were asleep at one moment: each was asleep at
    /// its second look and had not run since the first, and all first looks came before.
    fn are_asleep(&self, threads: &[Thread]) -> bool {
        let look = || -> Option<Vec<u64>> {
            let all = threads.iter().map(|&thread| self.status(thread)).chain(self.relay());
            all.map(|status| switches_of_sleeper(&status)).collect()
        };
        look().is_some_and(|first| look() == Some(first))
    }
}

/// How often a thread has gone to sleep, if it is asleep.
fn switches_of_sleeper(directory: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("{directory}/status")).ok()?;
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if !field("State:")?.starts_with('S') {
        return None;
    }
    field("voluntary_ctxt_switches:")?.parse().ok()
}
