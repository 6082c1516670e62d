//! Locks of several kinds in one run. Their waiters share the nodes of their CPUs, so a late kick
//! for one lock may find its CPU waiting for another.
//!
//! Two subjects are faulty on purpose. They are the real locks, but what they write as a node's
//! state means something other than what the table in `slot/node.rs` says, as it once did.

use overlock::{Hybrid, Queued, TestAndSet, Ticket};

use super::shared;
use crate::Property;
use crate::torture::kind::Kind;
use crate::torture::platform::{ByNumber, Inject};
use crate::torture::subject::{HYBRID, Probe, QUEUED, Subject, TICKET, UNFAIR, bare};

type Here = Inject<ByNumber>;

const QUEUE: Kind = Kind::timed::<Queued<Here, Probe>>(QUEUED);

/// In the order in which scripts refer to them.
static KINDS: [Kind; 5] = [
    Kind::timed::<TestAndSet<Here, Probe>>(UNFAIR),
    Kind::plain::<Ticket<Here, Probe>>(TICKET),
    QUEUE,
    Kind::timed::<Hybrid<Here, Probe>>(HYBRID),
    shared::right::<ByNumber>(),
];

pub(super) static SUBJECTS: &[Subject] = &[mixed("mixed", &KINDS)];

pub(super) static BROKEN: &[Subject] = &[
    // A waiter is in an impossible state, which the queue asserts. Where assertions are not
    // compiled in, two waiters believe that they are the queue head: both are kicked, or the second
    // is served. Or no CPU kicks.
    Subject {
        known_bad: &[
            Property::Panic,
            Property::Kicks,
            Property::Order,
            Property::LostWakeup,
            Property::Progress,
        ],
        numbers: Some(equal),
        ..mixed("broken-equal-states", KINDS.split_at(4).0)
    },
    Subject {
        known_bad: &[Property::LostWakeup],
        numbers: Some(early),
        ..bare::<ByNumber>("broken-early-mark", QUEUE)
    },
];

const fn mixed(name: &'static str, mix: &'static [Kind]) -> Subject {
    Subject { mix, ..bare::<ByNumber>(name, QUEUE) }
}

/// `Ticket` uses a queue's numbers for awake and halted, so a late kick for a ticket mistakes a
/// waiter in a queue for its own. Found by review.
fn equal(state: u32) -> u32 {
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

/// A release that is about to kick writes that it has kicked (Q6 in `queue.rs`). If it is
/// interrupted first, no other CPU kicks, and its handler may wait behind that waiter. Found by
/// torture.
fn early(state: u32) -> u32 {
    const KICKING: u32 = 6;
    const KICKED: u32 = 4;
    if state & 0xffff == KICKING { KICKED } else { state }
}
