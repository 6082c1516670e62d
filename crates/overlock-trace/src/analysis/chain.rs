//! Who ended a wait, what that thread did meanwhile, who ended that, and so on.

use super::state::{Site, State};

/// A thread of a chain, and what it did while the one before it waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// The thread; 0 if it is not known.
    pub thread: u32,
    /// What it did. If it waited for a word, and no other link follows, the word is one for which a
    /// thread before it waited, too: they wait in a circle.
    pub state: State,
    /// Where it was seen to run; 0 if that is not known.
    pub site: Site,
}

/// Some threads, each of which waited for the next, and for how long.
pub(super) type Part = (Vec<Link>, u64);

/// Returns what the first thread of a chain did.
pub(super) fn first(chain: &[Link]) -> State {
    match chain.first().map_or(State::Unknown, |link| link.state) {
        State::Waiting(..) => State::asleep(),
        state => state,
    }
}
