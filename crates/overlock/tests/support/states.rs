//! The states of a queue node: what a kick finds there, and states that are numbered wrongly on
//! purpose.
//!
//! The numbers are those of the table in `slot/node.rs`. If they change there, models no longer
//! reach what they must reach, and no longer find the wrong numbers.

use super::sites::{self, Kind, Role};

const WAITING: u32 = 0;
const HALTED: u32 = 1;
const HEAD_HALTED: u32 = 3;
const KICKED: u32 = 4;
const KICKING: u32 = 6;
const TICKET_RUNNING: u32 = 7;
const TICKET_HALTED: u32 = 8;
const UNPARKED: u32 = 9;
const PARKED: u32 = 10;

pub(crate) const MEETS_ANOTHER_KIND: &str = "a kick meets a halt for another kind of lock";
/// A release put its name on a waiter that another release was about to kick (Q6).
pub(crate) const TAKES_OVER: &str = "a kick is taken over";

/// The lower half. The upper half names a CPU, or the word that the CPU halts for.
const fn low(state: u32) -> u32 {
    state & 0xffff
}

/// How the states of a node are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// As in the source.
    Right,
    /// `Ticket` and `park.rs` use the numbers of the queue, as they once did.
    Shared,
    /// A release that is about to kick writes that it has kicked, as it once did (Q6).
    Early,
}

impl Numbers {
    /// The number that is written in place of `state`.
    pub(crate) const fn of(self, state: u32) -> u32 {
        match (self, low(state)) {
            (Self::Shared, TICKET_RUNNING | UNPARKED) => WAITING,
            (Self::Shared, TICKET_HALTED) => HALTED,
            (Self::Shared, PARKED) => state - PARKED + HALTED,
            (Self::Early, KICKING) => KICKED,
            _ => state,
        }
    }
}

/// The kind of lock for which a CPU has halted, or is about to.
const fn halted(state: u32) -> Option<Kind> {
    match low(state) {
        HALTED | HEAD_HALTED | KICKING => Some(Kind::Queue),
        TICKET_HALTED => Some(Kind::Ticket),
        PARKED => Some(Kind::Park),
        _ => None,
    }
}

/// Whether a kick can replace this state, which a CPU gives its own node.
pub(crate) const fn is_kickable(state: u32) -> bool {
    matches!(low(state), HEAD_HALTED | TICKET_HALTED | PARKED)
}

/// Notes what an access that found `state` has met there.
pub(crate) fn found(role: Role, state: u32) {
    if let (Role::Kicks(kind), Some(other)) = (role, halted(state))
        && kind != other
    {
        sites::reach(MEETS_ANOTHER_KIND);
    }
}

/// Notes what an access that changed a state has done.
pub(crate) fn changed(role: Role, old: u32, new: u32) {
    if role == Role::Kicks(Kind::Queue) && low(old) == KICKING && low(new) == KICKING {
        sites::reach(TAKES_OVER);
    }
}
