//! What a preloaded library has told, until its turn comes among the kernel's records.

use super::memory::{self, Batch};
use crate::analysis::hash::HashMap;
use crate::analysis::{Reason, Site};
use crate::sources::account::Time;
use std::collections::VecDeque;

/// What threads have told and has not had its turn.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(super) events: VecDeque<Saying>,
    /// The stack of a place that a thread has told, until its next wait there.
    stacks: HashMap<(u32, u16), OwnStack>,
    /// The places that threads have numbered.
    pub(super) places: HashMap<(u32, u16), Site>,
    pub(super) conditions: HashMap<u32, Condition>,
    /// Which thread had the lock when a thread began to wait for it.
    pub(super) holders: HashMap<u32, u32>,
    /// Where each thread has last released a lock.
    pub(super) released_at: HashMap<u32, Site>,
    /// Accounts of threads, as far as they have not been used.
    pub(super) accounts: Vec<Account>,
    /// Processor time in loops that yield, of each thread, for which no sample was made yet.
    yields: HashMap<u32, u64>,
    /// Which thread had the lock of a file when a look last found a thread waiting for it.
    pub(super) blockers: HashMap<u32, u32>,
    /// What calls of processes were for, by their number and first argument, in this turn.
    pub(super) reasons: HashMap<(u32, u32, u64, u8), Reason>,
    /// No records tell of switches.
    pub(super) is_coarse: bool,
    /// The processor time for which a sample stands.
    pub(super) sample_ns: u64,
}

/// The longest time in a loop that yields that is told at once.
const LONGEST_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Saying {
    pub(super) at: u64,
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) event: memory::Event,
    pub(super) stack: Option<OwnStack>,
}

/// What a thread has told of the time of another, which holds the lock that it waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) at: u64,
    pub(super) waiter: u32,
    pub(super) holder: u32,
    pub(super) time: Time,
}

#[derive(Debug)]
pub(super) struct OwnStack {
    pub(super) frame: u64,
    pub(super) pointer: u64,
    pub(super) code: u64,
    pub(super) bytes: Vec<u8>,
}

/// A thread's wait for a condition, at the end of which it takes a mutex.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) process: u32,
    pub(super) condition: u64,
    pub(super) mutex: u64,
    pub(super) site: Site,
    pub(super) is_signalled: bool,
    /// When it ran after a signal.
    pub(super) woke: Option<u64>,
}

impl Told {
    /// Returns whether the thread itself tells of its time in loops that yield.
    pub(crate) fn tells_of_yields(&self, thread: u32) -> bool {
        self.yields.contains_key(&thread)
    }

    /// A thread has ended, and may have done so in a wait.
    pub(crate) fn ends(&mut self, thread: u32) {
        self.conditions.remove(&thread);
        self.holders.remove(&thread);
        self.yields.remove(&thread);
        self.blockers.remove(&thread);
        self.released_at.remove(&thread);
    }

    /// Returns how many samples there would be of a time in a loop that yields.
    pub(super) fn samples(&mut self, thread: u32, ns: u64) -> u64 {
        let left = self.yields.entry(thread).or_default();
        *left += ns;
        let samples = *left / self.sample_ns.max(1);
        *left %= self.sample_ns.max(1);
        samples
    }

    /// Takes what a thread has told until now. Programs can write anything into that memory.
    pub(super) fn take(&mut self, batch: Batch, now: u64) {
        let Batch { process, thread, events } = batch;
        let mut events = events.into_iter();
        while let Some(mut event) = events.next() {
            event.at = if event.what == memory::STACK { event.at } else { event.at.min(now) };
            match event.what {
                memory::GOT | memory::TAKES => event.other = event.other.min(event.at),
                memory::SLEPT => event.lock = event.lock.min(event.at),
                memory::YIELDS => event.lock = event.lock.min(LONGEST_NS),
                _ => {}
            }
            if event.what == memory::STACK {
                let length = event.thread as usize;
                let slots = length.div_ceil(size_of::<memory::Event>()).min(events.len());
                let mut bytes = Vec::with_capacity(slots * size_of::<memory::Event>());
                events.by_ref().take(slots).for_each(|slot| bytes.extend(slot.bytes()));
                bytes.truncate(length);
                let (frame, code, pointer) = (event.at, event.lock, event.other);
                self.stacks.insert((thread, event.site), OwnStack { frame, pointer, code, bytes });
                continue;
            }
            if event.what == memory::ACCOUNT {
                let (at, holder) = (event.at, event.thread);
                let time = Time { ran: event.lock, delayed: event.other };
                self.accounts.push(Account { at, waiter: thread, holder, time });
                continue;
            }
            let has_place = [memory::WAITS, memory::YIELDS, memory::WAKES, memory::SLEPT];
            let is_wait = has_place.contains(&event.what);
            let place = (thread, event.site);
            let stack = if is_wait { self.stacks.remove(&place) } else { None };
            self.events.push_back(Saying { at: event.at, process, thread, event, stack });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::Event;

    /// A program can write anything into the memory.
    #[test]
    fn what_is_told_is_not_of_the_future() {
        let all = [memory::GOT, memory::SLEPT, memory::YIELDS, memory::WAITS];
        let odd = |what| Event {
            what,
            at: u64::MAX,
            lock: u64::MAX,
            other: u64::MAX,
            ..Event::default()
        };
        let mut told = Told { sample_ns: 1, ..Told::default() };
        told.take(Batch { process: 7, thread: 8, events: all.map(odd).to_vec() }, 1000);
        assert!(told.events.iter().all(|one| one.at == 1000));
        assert_eq!((told.events[0].event.other, told.events[1].event.lock), (1000, 1000));
        assert_eq!(told.events[2].event.lock, LONGEST_NS);
    }

    /// A signal's handler may tell a place and wait elsewhere before the wait that it interrupts.
    #[test]
    fn a_stack_belongs_to_the_waits_of_its_place() {
        let stack = |site| Event {
            what: memory::STACK,
            lock: 100 + u64::from(site),
            site,
            ..Event::default()
        };
        let wait = |at, site| Event { what: memory::WAITS, at, site, ..Event::default() };
        let mut told = Told::default();
        let events = vec![stack(1), stack(2), wait(10, 2), wait(20, 1), wait(30, 1)];
        told.take(Batch { process: 7, thread: 8, events }, 1000);
        let code = |one: &Saying| one.stack.as_ref().map(|stack| stack.code);
        let codes: Vec<_> = told.events.iter().map(code).collect();
        assert_eq!(codes, [Some(102), Some(101), None]);
    }
}
