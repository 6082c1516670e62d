// SPDX-License-Identifier: MIT OR Apache-2.0
//! Switches where the kernel gives no records of them: its account of each thread's time.
//!
//! Between two looks the account says for how long a thread ran, but not when. So a thread that
//! could run all the time counts as running first and as without a processor then.

use crate::platform;
use crate::tracer::Tracer;
use overlock_trace::{Off, Reason, What};
use std::collections::{HashMap, HashSet};

/// The account of each thread, as of the last look.
#[derive(Debug, Default)]
pub(crate) struct Coarse {
    /// For how long it had run, and whether it could.
    known: HashMap<u32, (u64, bool)>,
    last: u64,
    turns: u64,
}

/// How often the mappings of code are read again.
const TURNS_BETWEEN_CODE: u64 = 64;

/// A thread that ran for all but this part of the time, one of so many, ran all the time.
const NEGLIGIBLE: u64 = 10;

impl Coarse {
    /// Tells the tracer what the threads of its processes have done since the last turn.
    pub(crate) fn turn(&mut self, tracer: &mut Tracer) {
        let now = platform::now_ns();
        let from = if self.last == 0 { now } else { self.last };
        self.last = now;
        self.turns += 1;
        let is_time_for_code = self.turns.is_multiple_of(TURNS_BETWEEN_CODE);
        let mut living = HashSet::new();
        let mut waiting: Vec<u32> = tracer.threads.values().copied().collect();
        let mut processes = HashSet::new();
        while let Some(process) = waiting.pop() {
            if !processes.insert(process) {
                continue;
            }
            let folder = format!("/proc/{process}/task");
            for thread in numbers(&folder) {
                living.insert(thread);
                // A new thread, or some time, may have brought new code.
                if tracer.adopt(from, process, thread) || is_time_for_code {
                    tracer.images.read(process);
                }
                self.thread(tracer, &folder, thread, (from, now));
                let children = std::fs::read_to_string(format!("{folder}/{thread}/children"));
                let children = children.unwrap_or_default();
                waiting.extend(
                    children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()),
                );
            }
        }
        let known: Vec<u32> = tracer.threads.keys().copied().collect();
        for gone in known.into_iter().filter(|thread| !living.contains(thread)) {
            tracer.event(now, gone, What::Exit);
            tracer.threads.remove(&gone);
            self.known.remove(&gone);
        }
        tracer.last = now;
    }

    fn thread(&mut self, tracer: &mut Tracer, folder: &str, thread: u32, (from, now): (u64, u64)) {
        let read = |name: &str| std::fs::read_to_string(format!("{folder}/{thread}/{name}"));
        let account = read("schedstat").unwrap_or_default();
        let Some(ran) = account.split(' ').next().and_then(|word| word.parse().ok()) else {
            return;
        };
        // After the name, which can contain anything: the state.
        let stat = read("stat").unwrap_or_default();
        let can_run = stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('R'));
        let before = self.known.insert(thread, (ran, can_run));
        let (had_run, could_run) = before.unwrap_or((ran, can_run));
        let used = ran.saturating_sub(had_run).min(now - from);
        let left = now - from - used;
        if can_run && !could_run {
            // It was woken at some time: as late as its running allows.
            tracer.event(now - used, thread, if used > 0 { What::In } else { PREEMPTED });
            return;
        }
        if used > 0 {
            tracer.event(from, thread, What::In);
        }
        let off = if can_run { PREEMPTED } else { What::Out(Off::Blocked(Reason(0))) };
        if !can_run || left > (now - from) / NEGLIGIBLE || now == from {
            tracer.event(from + used, thread, off);
        }
    }
}

const PREEMPTED: What = What::Out(Off::Preempted);

/// Returns the names in a folder that are numbers.
fn numbers(folder: &str) -> Vec<u32> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
