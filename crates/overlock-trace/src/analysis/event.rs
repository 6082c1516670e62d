//! What a source tells the analysis.

use super::state::{Reason, Site, State};

/// Set in the address of a word by which threads of several processes may wait for each other. It
/// is then one word to all of them, as where a server's children have inherited their memory.
pub const SHARED: u64 = 1 << 63;

/// One thing that a thread did. Events arrive in the order of time, but what a thread did without a
/// processor may be told when it gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Nanoseconds of any clock that does not jump.
    pub at_ns: u64,
    /// The thread, by a number that is unique in the system.
    pub thread: u32,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It came into being, or came into view, in a process.
    Born {
        /// The process, by a number that is unique in the system.
        process: u32,
        /// Whether it is known to run at this moment.
        runs: bool,
    },
    Exit,
    In,
    /// It lost its processor, and is in this state.
    Out(State),
    /// It was made able to run, at a place of the thread that did so, if that is known.
    Woken {
        /// That thread, or 0 for the kernel itself: a timer, a device.
        by: u32,
        site: Site,
    },
    /// It entered a wait on a word of memory.
    Wait {
        /// The word's address.
        lock: u64,
        site: Site,
        /// Whether the word is known to be a lock, which its waiters sleep for until they have it.
        is_lock: bool,
    },
    /// Whether it has kept the mutex that it waits with since its last wait for the same condition.
    Keeps(bool),
    WaitEnd,
    /// It left the wait, and has what it waited for. Such a wait counts even if it did not sleep.
    Got,
    /// It has taken a lock, without a wait, that other threads wait for.
    Takes {
        /// The word's address.
        lock: u64,
    },
    /// It is about to wake waiters of a word: if this is a lock, it has just released it.
    Wake {
        /// The word's address.
        lock: u64,
        how: Wakes,
    },
    /// The call that wakes has ended.
    WakeEnd,
    /// The lock's own memory names this thread as its holder at this moment.
    Owns {
        /// The word's address.
        lock: u64,
        /// Whether all locks have been asked that were to be: chains of them can be followed.
        is_all: bool,
    },
    /// A look at the memory of a lock that threads wait for has found it free, or not.
    Seen {
        /// The word's address.
        lock: u64,
        is_free: bool,
    },
    /// A look at it has found it asleep, if events have said so, for this reason and at this place.
    /// A look comes so often, in nanoseconds, that it stands for all sleeps in between; 0 if the
    /// sleep was told of, and not found.
    Sleeps(Reason, Site, u64),
    /// A look has found that it sleeps for what this thread has.
    SleepsFor(u32),
    /// It has slept since some time, or did so last, for this reason and at this place, as is known
    /// only now, and for that thread, or for 0. What was split by that already stays as it is.
    Slept {
        since: Option<u64>,
        reason: Reason,
        site: Site,
        by: u32,
    },
    /// It was seen at a place by a sample of a processor's clock.
    Sample {
        site: Site,
        /// Whether the code there is a loop that waits.
        spins: bool,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// The thread is known to have had a read-write lock as one of its readers.
    pub by_reader: bool,
    /// All waiters are woken, and not one.
    pub all: bool,
    pub site: Site,
}
