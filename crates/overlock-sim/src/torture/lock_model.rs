//! What the oracles know about one lock: its holder, its waiters in their order, and its promises.

use std::collections::VecDeque;

use crate::torture::kind::{Kind, Layout, LockVerbs};

pub(crate) const LOCKED: u32 = 1 << 0;
pub(crate) const STEALS: u32 = 0xfff << 1;
pub(crate) const HALTED: u32 = 1 << 13;
pub(crate) const NO_STEALING: u32 = 1 << 14;
pub(crate) const TAIL_SHIFT: u32 = 17;

/// The tail of the queue in a word, or zero: codes below four are notes, and name no node.
pub(crate) const fn tail(word: u32) -> u32 {
    let code = word >> TAIL_SHIFT;
    if code < 4 { 0 } else { code }
}

/// Whether a word names neither holder nor waiters.
pub(crate) const fn is_at_rest(word: u32) -> bool {
    word == 0
}

/// Whether this access to a queue node takes back a place that its CPU had given up: from
/// `GIVEN_UP`, with a count in the upper half, to `WAITING`.
pub(crate) fn comes_again(old: u32, new: Option<u32>) -> bool {
    const GIVEN_UP: u32 = 5;
    new == Some(0) && old & 0xffff == GIVEN_UP && old >> 16 != 0
}

/// How far a queue head has got, by its lock's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Awake,
    /// It is halted for the first time, or has not disabled stealing since.
    Halted,
    /// It has disabled stealing after it was halted.
    Back,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) cpu: usize,
    /// Whether it gave up and may take its place back, as long as no waiter behind it is served.
    pub(crate) left: bool,
    /// Whether a waiter behind it passed it because it had given up.
    pub(crate) skipped: bool,
    /// Its ticket, where it has drawn one.
    pub(crate) ticket: u32,
}

pub(crate) struct LockModel {
    pub(crate) kind: &'static Kind,
    pub(crate) verbs: &'static dyn LockVerbs,
    /// How many locks have lain in this memory before.
    pub(crate) generation: u32,
    pub(crate) freed: bool,
    /// The CPU that frees the lock once it has released it.
    pub(crate) closing: Option<usize>,
    /// How many CPUs use the lock and have not yet reported that they are done with it.
    pub(crate) users: u32,
    pub(crate) owner: Option<usize>,
    pub(crate) queue: VecDeque<Waiter>,
    /// How often the queue head has been passed.
    pub(crate) passed: u32,
    pub(crate) head: Head,
    /// Whether a waiter has given up since the queue was empty. Which waiter is the head can then
    /// not be told exactly.
    pub(crate) gave_up: bool,
    pub(crate) word: u32,
    /// The CPU that took it, and when, according to its word.
    pub(crate) taker: Option<(usize, u64)>,
    /// How often it has been taken; not counted where each waiter in the queue waits for a ticket
    /// of its own.
    pub(crate) takes: u64,
    /// How many times in a row the lock had not been taken although some CPU should have taken it.
    pub(crate) owed: u64,
    /// For a shared value, the newest refresh that has begun.
    pub(crate) begun: u32,
    /// For a shared value, the newest refresh whose result some CPU has got.
    pub(crate) known: u32,
    /// For a read-write lock, the CPUs that read it, once for each time they have taken it.
    pub(crate) readers: Vec<usize>,
    pub(crate) upgradable: Option<usize>,
    /// For a monitor, how many tokens there are to take.
    pub(crate) tokens: u32,
    /// How many CPUs have given tokens and are yet to notify, or are about to.
    pub(crate) notifiers: u32,
}

impl LockModel {
    pub(crate) fn new(kind: &'static Kind, verbs: &'static dyn LockVerbs) -> Self {
        Self {
            kind,
            verbs,
            generation: 0,
            freed: false,
            closing: None,
            users: 0,
            owner: None,
            queue: VecDeque::new(),
            passed: 0,
            head: Head::Awake,
            gave_up: false,
            word: 0,
            taker: None,
            takes: 0,
            owed: 0,
            begun: 0,
            known: 0,
            readers: Vec::new(),
            upgradable: None,
            tokens: 0,
            notifiers: 0,
        }
    }

    /// Whether no CPU holds the lock by right, according to its words.
    pub(crate) fn is_free(&self) -> bool {
        match self.kind.promise.layout {
            Layout::Opaque | Layout::ReadWrite | Layout::Monitor => true,
            Layout::Bit | Layout::Queue => self.word & LOCKED == 0,
            // Bit 0 of the ticket served is a flag.
            Layout::Ticket => {
                self.queue.front().is_some_and(|first| first.ticket == self.word & !1)
            }
        }
    }

    /// The queue head, if any.
    pub(crate) fn first(&self) -> Option<usize> {
        self.queue.iter().find(|waiter| !waiter.skipped && !waiter.left).map(|waiter| waiter.cpu)
    }

    pub(crate) fn place(&self, cpu: usize) -> Option<usize> {
        self.queue.iter().position(|waiter| waiter.cpu == cpu && !waiter.left)
    }

    pub(crate) fn left_place(&self, cpu: usize) -> Option<usize> {
        self.queue.iter().position(|waiter| waiter.cpu == cpu && waiter.left)
    }

    /// The word of a lock with a queue has changed.
    pub(crate) fn word_changes(&mut self, old: u32, new: u32) {
        self.word = new;
        let set = new & !old;
        if tail(new) == 0 {
            // Whoever gave up has been skipped.
            self.queue.retain(|waiter| !waiter.left);
            self.gave_up = false;
            self.head = Head::Awake;
        }
        match self.head {
            Head::Awake if set & HALTED != 0 => self.head = Head::Halted,
            Head::Halted if set & NO_STEALING != 0 => self.head = Head::Back,
            _ => {}
        }
    }
}
