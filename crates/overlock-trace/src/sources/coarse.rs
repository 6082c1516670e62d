//! Switches where the kernel gives no records of them: its account of each thread's time.
//!
//! Between two looks the account says for how long a thread ran, and for how long it could not, but
//! not when. A thread counts as running first then, as without a processor next, and as asleep for
//! the rest. What the account says of a thread that runs is as old as the kernel's last timer tick.

use crate::analysis::{Reason, Site, State, What};
use crate::sources::account::{self, Time};
use crate::sources::platform;
use crate::sources::tracer::{Found, Tracer};
use std::collections::{HashMap, HashSet};

/// The account of each thread, as of the last look.
#[derive(Debug, Default)]
pub(crate) struct Coarse {
    known: HashMap<u32, (u64, Time)>,
    last: u64,
    turns: u64,
}

/// How often the mappings of code are read again.
const TURNS_BETWEEN_CODE: u64 = 64;

impl Coarse {
    /// Returns what the threads of the tracer's processes have done since the last turn, but for
    /// those whose account is left for later.
    pub(crate) fn turn(&mut self, tracer: &mut Tracer, but: &HashSet<u32>) -> Vec<Found> {
        let now = platform::now_ns();
        let from = if self.last == 0 { now } else { self.last };
        self.last = now;
        self.turns += 1;
        let is_time_for_code = self.turns.is_multiple_of(TURNS_BETWEEN_CODE);
        let mut found = Vec::new();
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
                if !but.contains(&thread)
                    && let Some((time, can_run)) = account::read(&folder, thread)
                {
                    let rest = if can_run { PREEMPTED } else { ASLEEP };
                    found.extend(self.account(thread, now, time, rest));
                }
                waiting.extend(account::children(process, thread));
            }
        }
        let known: Vec<u32> = tracer.threads.keys().copied().collect();
        for gone in known.into_iter().filter(|thread| !living.contains(thread)) {
            found.push((now, gone, What::Exit));
            tracer.threads.remove(&gone);
            self.known.remove(&gone);
        }
        found.sort_by_key(|(at, ..)| *at);
        found
    }

    /// Returns what a thread has done since its account was last seen; what the account leaves open
    /// is the `rest`.
    pub(crate) fn account(
        &mut self,
        thread: u32,
        at: u64,
        time: Time,
        rest: What,
    ) -> impl Iterator<Item = Found> + use<> {
        let (from, before) = self.known.get(&thread).copied().unwrap_or((at, time));
        let length = at.saturating_sub(from);
        let ran = time.ran.saturating_sub(before.ran).min(length);
        let delayed = time.delayed.saturating_sub(before.delayed).min(length - ran);
        if at >= from {
            // What it ran beyond this time was told late, and belongs to the next.
            let ran = if length == 0 { time.ran } else { before.ran + ran };
            self.known.insert(thread, (at, Time { ran, ..time }));
        }
        let events = [
            (ran > 0).then_some((from, What::In)),
            (delayed > 0).then_some((from + ran, PREEMPTED)),
            (length > ran + delayed || length == 0).then_some((from + ran + delayed, rest)),
        ];
        let is_new = at >= from;
        events
            .into_iter()
            .flatten()
            .filter(move |_| is_new)
            .map(move |(at, what)| (at, thread, what))
    }
}

pub(crate) const ASLEEP: What = What::Out(State::Asleep(Reason(0), Site(0)));
const PREEMPTED: What = What::Out(State::Preempted);

/// Returns the names in a folder that are numbers.
fn numbers(folder: &str) -> Vec<u32> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(accounts: &[(u64, u64, u64, What)]) -> Vec<(u64, What)> {
        let mut coarse = Coarse::default();
        let all = accounts.iter().flat_map(|(at, ran, delayed, rest)| {
            let time = Time { ran: *ran, delayed: *delayed };
            coarse.account(1, *at, time, *rest).collect::<Vec<_>>()
        });
        all.map(|(at, _, what)| (at, what)).collect()
    }

    #[test]
    fn an_account_says_what_a_thread_did_between_two_looks() {
        let looks = said(&[(100, 5, 0, ASLEEP), (200, 35, 20, ASLEEP), (300, 135, 20, PREEMPTED)]);
        let did =
            [(100, ASLEEP), (100, What::In), (130, PREEMPTED), (150, ASLEEP), (200, What::In)];
        assert_eq!(looks, did);
    }

    /// The kernel adds what a thread has run at its timer's ticks, and a look in between is older.
    #[test]
    fn what_is_told_late_counts_later() {
        let looks = said(&[(0, 0, 0, ASLEEP), (10, 8, 0, PREEMPTED), (20, 20, 0, PREEMPTED)]);
        assert_eq!(looks[1..], [(0, What::In), (8, PREEMPTED), (10, What::In)]);
        let later = said(&[(0, 0, 0, ASLEEP), (10, 15, 0, ASLEEP), (20, 15, 0, ASLEEP)]);
        assert_eq!(later[1..], [(0, What::In), (10, What::In), (15, ASLEEP)]);
        // A look that comes late itself says nothing.
        assert_eq!(said(&[(10, 5, 0, ASLEEP), (5, 9, 0, ASLEEP)]).len(), 1);
    }
}
