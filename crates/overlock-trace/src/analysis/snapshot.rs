//! What all threads of a process do at one moment, for sources that can only look now and then.

use super::chain::{Link, Part, first};
use super::engine::{Analysis, LONGEST_CHAIN};
use super::report::Key;
use super::state::{Site, State};
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
                holder => {
                    let mut now = Vec::new();
                    follow(threads, holder, &mut now);
                    let parts = match holder {
                        Holder::Thread(holder) if is_ordered || look.is_old => {
                            self.split_look((*id, holder), &now, (from, to))
                        }
                        _ => vec![(now, ns)],
                    };
                    wait.is_known_to(to, parts);
                }
            }
            self.looked_ns += if reason.is_some() { 0 } else { ns };
            let index = self.row(Key { process, lock, site, reason });
            let row = &mut self.rows[index];
            row.waits += u64::from(!look.is_old);
            row.waited_ns += ns;
            row.was_here(*id);
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
        (waiter, holder): (u32, u32),
        now: &[Link],
        (from, to): (u64, u64),
    ) -> Vec<Part> {
        let mut left = to - from;
        let (Some(waiter), Some(thread)) = (self.threads.get(&waiter), self.threads.get(&holder))
        else {
            return vec![(now.to_vec(), left)];
        };
        let start = waiter.line.since().clamp(from, to);
        let (all, whole, mut parts) = ((to - start).max(1), left, Vec::new());
        thread.line.during(start, to, |from, to, state, (_, site)| {
            let chain = |state| vec![Link { thread: holder, state, site }];
            let chain = match state {
                State::Running | State::Preempted | State::Throttled => chain(state),
                // In what it sleeps, or that it has been woken, only the look tells.
                _ if first(now) == State::Running => chain(State::asleep()),
                _ => now.to_vec(),
            };
            let scaled = u128::from(to - from) * u128::from(whole) / u128::from(all);
            let scaled = u64::try_from(scaled).unwrap_or(left).min(left);
            parts.push((chain, scaled));
            left -= scaled;
        });
        parts.push((now.to_vec(), left));
        parts
    }
}

/// Adds what the holder of a lock does, and those for whom it waits.
fn follow(threads: &Snapshot, holder: Holder, chain: &mut Vec<Link>) {
    let thread = if let Holder::Thread(thread) = holder { thread } else { 0 };
    let (state, next) = match (holder, threads.get(&thread)) {
        (Holder::Nobody, _) => (State::Late, None),
        // It has been woken, or is being woken, and has no processor yet.
        (_, Some(Look { state: State::Waiting(..), holder: Holder::Nobody, .. })) => {
            (State::Preempted, None)
        }
        // So long a chain is a circle.
        (_, Some(Look { state: State::Waiting(_, site), holder, .. })) => {
            (State::Waiting(0, *site), Some(*holder).filter(|_| chain.len() < LONGEST_CHAIN))
        }
        (_, look) => (look.map_or(State::Unknown, |look| look.state), None),
    };
    chain.push(Link { thread, state, site: Site(0) });
    next.into_iter().for_each(|holder| follow(threads, holder, chain));
}
