// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all threads of a process do at one moment, for sources that can only look now and then.

use crate::analysis::{Analysis, Thread};
use crate::event::{Reason, Site};
use crate::report::{BlockedIn, Key};
use crate::timeline::State;
use crate::wait::{Part, Wait};
use std::collections::HashMap;

/// What a thread does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It runs.
    Running,
    /// It could run, but has no processor.
    Preempted,
    /// It could run, but its group has spent its quota.
    Throttled,
    /// It sleeps.
    Asleep(Reason),
    /// It sleeps in a wait on a word.
    Waits {
        /// The word's address.
        lock: u64,
        /// Where.
        site: Site,
        /// The holder, if this is a lock whose memory names it.
        holder: Holder,
        /// Whether it slept in this wait already when the snapshot before this one was made.
        is_old: bool,
    },
}

/// What events have last said of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It got a processor.
    Running,
    /// It could run on, but lost its processor.
    Preempted,
    /// Its group has spent its quota.
    Throttled,
    /// It went to sleep.
    Asleep,
    /// Nothing yet.
    Unknown,
}

/// What a lock's memory says of its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This thread.
    Thread(u32),
    /// There is none: the lock is free.
    Nobody,
    /// Nothing.
    Unknown,
}

/// The threads of a process, and what each does.
pub type Snapshot = HashMap<u32, Doing>;

impl Analysis {
    /// Takes a look at all threads of a process, made at `to`, which stands for the time since
    /// `from`. In that time the holder may have run and not run, which events have told. If they do
    /// not tell in which order (`is_ordered`), they say nothing of a wait that has begun since.
    /// A source that reports waits in this way reports no events of them.
    pub fn snapshot(
        &mut self,
        process: u32,
        threads: &Snapshot,
        (from, to): (u64, u64),
        is_ordered: bool,
    ) {
        let from = from.min(to);
        self.needed_from = from;
        for (id, doing) in threads {
            let Doing::Waits { lock, site, holder, is_old } = *doing else { continue };
            let mut wait = Wait::new(lock, site, from);
            let ns = to - from;
            match holder {
                Holder::Thread(holder) if is_ordered || is_old => {
                    self.split_look(threads, (*id, holder), (from, to), &mut wait);
                }
                _ => wait.credit(part(threads, holder, 0), ns),
            }
            self.looked_ns += ns;
            let site = self.site(Key { process, lock, site });
            let report = &mut self.sites[site];
            report.waits += u64::from(!is_old);
            report.waited_ns += ns;
            report.take(&wait, to, self.limits.reasons);
            if let Some(thread) = self.threads.get_mut(id) {
                thread.looked_ns = if is_old { thread.looked_ns + ns } else { ns };
                if thread.looked_ns > report.longest_ns {
                    (report.longest_ns, report.longest_thread) = (thread.looked_ns, *id);
                }
            }
        }
    }

    /// Splits the time for which a look stands like the part of it in which the waiter slept.
    fn split_look(
        &self,
        threads: &Snapshot,
        (waiter, holder): (u32, u32),
        (from, to): (u64, u64),
        wait: &mut Wait,
    ) {
        let now = part(threads, Holder::Thread(holder), 0);
        let (Some(waiter), Some(line)) =
            (self.threads.get(&waiter), self.threads.get(&holder).map(|thread| &thread.line))
        else {
            return wait.credit(now, to - from);
        };
        let start = waiter.line.since().clamp(from, to);
        let (mut left, mut parts) = (to - from, Vec::new());
        line.during(start, to, |from, to, state| {
            let part = match state {
                State::Running => Part::Running,
                State::Preempted => Part::Preempted,
                State::Throttled => Part::Throttled,
                // In what it sleeps, or that it has been woken, only the look tells.
                State::Blocked(_) | State::Waiting { .. } | State::Unknown => match now {
                    Part::Running => Part::Blocked(BlockedIn::Other),
                    now => now,
                },
            };
            parts.push((part, to - from));
        });
        let (all, whole) = ((to - start).max(1), left);
        for (part, ns) in parts {
            let scaled = u128::from(ns) * u128::from(whole) / u128::from(all);
            let scaled = u64::try_from(scaled).unwrap_or(left).min(left);
            wait.credit(part, scaled);
            left -= scaled;
        }
        wait.credit(now, left);
    }

    /// Returns the threads of a process that have not ended, what events last said of each, and how
    /// often it has got a processor: as long as that stays the same, it sleeps in one place.
    pub fn threads_of(&self, process: u32) -> impl Iterator<Item = (u32, Seen, u64)> {
        let of = move |thread: &&Thread| thread.process == process && !thread.has_ended;
        self.threads.iter().filter(move |(_, thread)| of(thread)).map(|(id, thread)| {
            let seen = match thread.line.state() {
                State::Running => Seen::Running,
                State::Preempted => Seen::Preempted,
                State::Throttled => Seen::Throttled,
                State::Blocked(_) | State::Waiting { .. } => Seen::Asleep,
                State::Unknown => Seen::Unknown,
            };
            (*id, seen, thread.turns)
        })
    }
}

/// Chains of locks are followed this far.
const LONGEST_CHAIN: usize = 16;

/// Returns what the holder of a lock does.
fn part(threads: &Snapshot, holder: Holder, depth: usize) -> Part {
    let holder = match holder {
        Holder::Nobody => return Part::Free,
        Holder::Unknown => return Part::Unknown,
        Holder::Thread(thread) => threads.get(&thread),
    };
    match holder {
        Some(Doing::Running) => Part::Running,
        Some(Doing::Preempted) => Part::Preempted,
        Some(Doing::Throttled) => Part::Throttled,
        Some(Doing::Asleep(reason)) => Part::Blocked(BlockedIn::Reason(*reason)),
        // It has been woken, or is being woken, and has no processor yet.
        Some(Doing::Waits { holder: Holder::Nobody, .. }) => Part::Preempted,
        Some(Doing::Waits { site, holder, .. }) if depth < LONGEST_CHAIN => {
            let end = part(threads, *holder, depth + 1).end();
            Part::Blocked(BlockedIn::Lock { site: *site, end })
        }
        Some(Doing::Waits { .. }) | None => Part::Unknown,
    }
}
