//! What is known of one lock: which threads wait, and which thread held it when.
//!
//! The kernel sees a lock only when threads wait for it. So the holder is known backwards: the
//! thread that wakes a waiter has just released the lock. From one release to the next the lock is
//! free while the woken waiter is on its way, and then held by the thread that releases it next.

use std::collections::VecDeque;

/// Which thread had a lock for some time, or that it was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Had {
    By(u32),
    Free,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    from: u64,
    to: u64,
    had: Had,
}

/// A word that threads wait on.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    pub(crate) waiters: Vec<u32>,
    past: VecDeque<Segment>,
    /// The end of what is known of the past.
    known_to: u64,
    /// When a waiter was woken, if no release came after it.
    released: Option<u64>,
    /// The waiter that left its wait since then, and when.
    taken: Option<(u32, u64)>,
}

/// How many changes of a lock's holder are remembered.
const LONGEST_PAST: usize = 4096;

impl Lock {
    /// A thread begins to wait, or goes on to after a moment.
    pub(crate) fn joins(&mut self, thread: u32, at: u64, goes_on: bool) {
        if self.waiters.is_empty() && !goes_on {
            self.push(self.known_to, self.free_to().min(at), Had::Free);
            self.known_to = self.known_to.max(at);
            self.released = None;
            self.taken = None;
        }
        self.waiters.push(thread);
    }

    /// A thread that left its wait finds the lock taken, and waits on.
    pub(crate) fn rejoins(&mut self, thread: u32) {
        self.taken = self.taken.filter(|(taker, _)| *taker != thread);
        self.waiters.push(thread);
    }

    /// A thread leaves its wait.
    pub(crate) fn leaves(&mut self, thread: u32, at: u64, was_woken: bool) {
        self.waiters.retain(|waiter| *waiter != thread);
        if was_woken {
            self.takes(thread, at);
        }
    }

    /// A thread takes the lock without a wait.
    pub(crate) fn takes(&mut self, thread: u32, at: u64) {
        if self.released.is_some() && self.taken.is_none() {
            self.taken = Some((thread, at));
        }
    }

    /// Returns whether the past is known beyond a time.
    pub(crate) fn is_known_to(&self, at: u64) -> bool {
        at < self.known_to
    }

    /// The holder is known to have had the lock until now.
    pub(crate) fn held_until(&mut self, holder: u32, at: u64, is_released: bool) {
        let from = self.known_to;
        let free_to = match (self.released, self.taken) {
            (Some(_), Some((taker, taken))) if taker == holder => taken.clamp(from, at),
            _ => from,
        };
        self.push(from, free_to, Had::Free);
        self.push(free_to, at, Had::By(holder));
        self.known_to = at.max(from);
        self.released = is_released.then_some(at);
        self.taken = (!is_released).then_some((holder, from));
    }

    /// Returns until when the lock has been free that was released last, as far as that is known.
    fn free_to(&self) -> u64 {
        let taken = self.taken.map_or(u64::MAX, |(_, taken)| taken);
        self.released.map_or(0, |_| taken)
    }

    fn push(&mut self, from: u64, to: u64, had: Had) {
        if to > from {
            self.past.push_back(Segment { from, to, had });
        }
        if self.past.len() > LONGEST_PAST {
            self.past.pop_front();
        }
    }

    /// Events are missing: nothing is known of the past.
    pub(crate) fn lose(&mut self, at: u64) {
        self.past.clear();
        self.known_to = at;
        self.released = None;
        self.taken = None;
    }

    /// Returns how much is remembered.
    pub(crate) fn changes(&self) -> usize {
        self.past.len() + 1
    }

    /// Forgets what ended before `horizon`; returns whether nothing is left.
    pub(crate) fn forget(&mut self, horizon: u64) -> bool {
        while self.past.front().is_some_and(|segment| segment.to <= horizon) {
            self.past.pop_front();
        }
        self.past.is_empty() && self.waiters.is_empty()
    }

    /// Calls `each` with the holders between two times, in order; nothing where none is known.
    pub(crate) fn during(&self, from: u64, to: u64, mut each: impl FnMut(u64, u64, Option<Had>)) {
        let mut at = from;
        let start = self.past.partition_point(|segment| segment.to <= from);
        for segment in self.past.range(start..).take_while(|segment| segment.from < to) {
            if segment.from > at {
                each(at, segment.from, None);
            }
            each(segment.from.max(from), segment.to.min(to), Some(segment.had));
            at = segment.to.min(to);
        }
        let free_to = if at < self.known_to { at } else { self.free_to().clamp(at, to) };
        if at < free_to {
            each(at, free_to, Some(Had::Free));
        }
        if free_to < to {
            each(free_to, to, None);
        }
    }
}
