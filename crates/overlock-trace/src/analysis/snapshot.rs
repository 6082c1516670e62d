//! What all threads of a process do at one moment, for sources that can only look now and then.

use super::engine::{Analysis, LONGEST_CHAIN};
use super::report::Key;
use super::state::{Link, State};
use super::wait::Wait;
use std::collections::HashMap;

/// A thread at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub state: State,
    /// The holder, if it waits for a lock whose memory names it.
    pub holder: Holder,
    /// Whether it slept in this sleep already when the snapshot before this one was made.
    pub is_old: bool,
}

impl From<State> for Look {
    fn from(state: State) -> Self {
        Look { state, holder: Holder::Unknown, is_old: false }
    }
}

/// What a lock's memory says of its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Thread(u32),
    /// There is none: the lock is free.
    Nobody,
    Unknown,
}

/// The threads of a process, and what each does.
pub type Snapshot = HashMap<u32, Look>;

impl Analysis {
    /// Takes a look at all threads of a process, made at `to`, which stands for the time since
    /// `from`. In that time the holder may have run and not run, which events have told. If they do
    /// not tell in which order (`is_ordered`), they say nothing of a wait that has begun since.
    /// A source that reports sleeps in this way reports no waits by events.
    pub fn snapshot(
        &mut self,
        process: u32,
        threads: &Snapshot,
        (from, to): (u64, u64),
        is_ordered: bool,
    ) {
        let from = from.min(to);
        self.needed_from = Some(from);
        self.is_by_looks = true;
        for (id, look) in threads {
            let (lock, site, reason) = match look.state {
                State::Waiting(lock, site) => (lock, site, None),
                State::Asleep(reason, site) => (0, site, Some(reason)),
                _ => continue,
            };
            let mut wait = Wait::new(lock, site, false, from);
            let ns = to - from;
            match look.holder {
                _ if reason.is_some() => {}
                Holder::Thread(holder) if is_ordered || look.is_old => {
                    self.split_look(threads, (*id, holder), (from, to), &mut wait);
                }
                _ => wait.credit(part(threads, look.holder, 0), ns),
            }
            self.looked_ns += if reason.is_some() { 0 } else { ns };
            let index = self.row(Key { process, lock, site, reason });
            let row = &mut self.rows[index];
            row.waits += u64::from(!look.is_old);
            row.waited_ns += ns;
            row.take(&wait, to, self.limits.reasons);
            if let Some(thread) = self.threads.get_mut(id) {
                thread.looked_ns = if look.is_old { thread.looked_ns + ns } else { ns };
                if thread.looked_ns > row.longest_ns {
                    (row.longest_ns, row.longest_thread) = (thread.looked_ns, *id);
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
                State::Running | State::Preempted | State::Throttled => state.into(),
                // In what it sleeps, or that it has been woken, only the look tells.
                _ if now.first() == State::Running => State::asleep().into(),
                _ => now,
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
}

/// Returns what the holder of a lock does.
fn part(threads: &Snapshot, holder: Holder, depth: usize) -> Link {
    let holder = match holder {
        Holder::Nobody => return State::Late.into(),
        Holder::Unknown => return State::Unknown.into(),
        Holder::Thread(thread) => threads.get(&thread),
    };
    match holder {
        Some(Look { state: State::Waiting(lock, site), holder, .. }) => match holder {
            // It has been woken, or is being woken, and has no processor yet.
            Holder::Nobody => State::Preempted.into(),
            // So long a chain is a circle.
            _ if depth >= LONGEST_CHAIN => State::Waiting(*lock, *site).into(),
            _ => Link { via: Some(*site), end: part(threads, *holder, depth + 1).end },
        },
        Some(look) => look.state.into(),
        None => State::Unknown.into(),
    }
}
