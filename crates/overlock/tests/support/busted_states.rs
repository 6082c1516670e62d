// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real locks on nodes whose states mean something other than the source says: faults that the
//! locks once had. Models with one kind of lock, or without an interrupt in the middle of a
//! release, do not show them.

use crate::support::mixed::{HYBRID, QUEUED, TICKET, interrupted_kick, late_kick};
use crate::support::models::{Depth, Report};
use crate::support::sites;
use crate::support::states::Numbers;

fn fails(explore: impl Fn() -> Report) -> String {
    sites::reset(None);
    explore().failure.expect("the model finds what is wrong with the states")
}

/// A late kick for a ticket mistakes a waiter that has halted in a queue for one of its own. The
/// waiter comes back in an impossible state and believes that it is the queue head. (What `park.rs`
/// writes also contains a tag of the word, so it is still distinct.)
#[test]
fn states_with_equal_numbers_are_found() {
    for second in [QUEUED, HYBRID] {
        let late = || late_kick([TICKET, second], 3, Numbers::Shared, 1, Depth::Bounded);
        let failure = fails(late);
        assert!(failure.contains("left != right") || !cfg!(debug_assertions), "{failure}");
    }
}

/// A release announces that it has kicked, but is interrupted before it does. Its handler then
/// waits behind the very waiter that it was about to kick.
#[test]
fn a_mark_before_the_kick_is_found() {
    for first in [QUEUED, HYBRID] {
        for second in [QUEUED, HYBRID] {
            let early = || interrupted_kick([first, second], Numbers::Early, 2, Depth::Bounded);
            let failure = fails(early);
            assert!(failure.contains("deadlock"), "{failure}");
        }
    }
}
