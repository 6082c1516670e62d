// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks of several kinds in one run. Their waiters share the nodes of their CPUs, so a late kick
//! for one lock may find its CPU waiting for another.
//!
//! Two subjects are faulty on purpose. They are the real locks, but what they write as a node's
//! state means something other than what the table in `slot/node.rs` says, as it once did.

use overlock::{Hybrid, Queued, TestAndSet, Ticket};

use super::shared;
use crate::Oracle;
use crate::torture::cell::Numbers;
use crate::torture::kind::Kind;
use crate::torture::platform::{ByNumber, Inject, Misnumbered, Waiting};
use crate::torture::subject::{HYBRID, Probe, QUEUED, Subject, TICKET, UNFAIR, bare, timed};

const fn locks<W: Waiting>() -> [Kind; 4] {
    [
        Kind::timed::<TestAndSet<Inject<W>, Probe>>(UNFAIR),
        Kind::plain::<Ticket<Inject<W>, Probe>>(TICKET),
        Kind::timed::<Queued<Inject<W>, Probe>>(QUEUED),
        Kind::timed::<Hybrid<Inject<W>, Probe>>(HYBRID),
    ]
}

const fn all<W: Waiting>() -> [Kind; 5] {
    let [test_and_set, ticket, queued, hybrid] = locks::<W>();
    [test_and_set, ticket, queued, hybrid, shared::right::<W>()]
}

/// In the order in which scripts refer to them.
static KINDS: [Kind; 5] = all::<ByNumber>();
static EQUAL: [Kind; 4] = locks::<Misnumbered<Equal>>();

pub(super) static SUBJECTS: &[Subject] = &[mixed::<ByNumber>("mixed", &KINDS)];

pub(super) static BROKEN: &[Subject] = &[
    // A waiter is in an impossible state, which the queue asserts. Where assertions are not
    // compiled in, two waiters believe that they are the queue head: both are kicked, or the second
    // is served. Or no CPU kicks.
    Subject {
        known_bad: &[
            Oracle::Panic,
            Oracle::Kicks,
            Oracle::Order,
            Oracle::LostWakeup,
            Oracle::Progress,
        ],
        ..mixed::<Misnumbered<Equal>>("broken-equal-states", &EQUAL)
    },
    Subject { known_bad: &[Oracle::LostWakeup], ..queued::<Early>("broken-early-mark") },
];

const fn mixed<W: Waiting>(name: &'static str, mix: &'static [Kind]) -> Subject {
    Subject { mix, ..bare::<W>(name, Kind::timed::<Queued<Inject<W>, Probe>>(QUEUED)) }
}

const fn queued<N: Numbers>(name: &'static str) -> Subject {
    timed::<Misnumbered<N>, Queued<Inject<Misnumbered<N>>, Probe>>(name, QUEUED)
}

/// `Ticket` uses a queue's numbers for awake and halted, so a late kick for a ticket mistakes a
/// waiter in a queue for its own. Found by review.
#[derive(Debug)]
struct Equal;

impl Numbers for Equal {
    fn of(state: u32) -> u32 {
        const TICKET_RUNNING: u32 = 7;
        const TICKET_HALTED: u32 = 8;
        const WAITING: u32 = 0;
        const HALTED: u32 = 1;
        match state {
            TICKET_RUNNING => WAITING,
            TICKET_HALTED => HALTED,
            other => other,
        }
    }
}

/// A release that is about to kick writes that it has kicked (Q6 in `queue.rs`). If it is
/// interrupted first, no other CPU kicks, and its handler may wait behind that waiter. Found by
/// torture.
#[derive(Debug)]
struct Early;

impl Numbers for Early {
    fn of(state: u32) -> u32 {
        const KICKING: u32 = 6;
        const KICKED: u32 = 4;
        if state & 0xffff == KICKING { KICKED } else { state }
    }
}
