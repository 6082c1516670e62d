// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a source tells the analysis.

/// A place in a program that the source can name, such as a stack of return addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site(pub u32);

/// Why a thread sleeps, as a number that the source can explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(pub u32);

/// Set in the address of a word by which threads of several processes may wait for each other. It
/// is then one word to all of them, as where a server's children have inherited their memory.
pub const SHARED: u64 = 1 << 63;

/// One thing that a thread did. Events arrive in the order of time, but what a thread did without a
/// processor may be told when it gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of any clock that does not jump.
    pub at_ns: u64,
    /// The thread, by a number that is unique in the system.
    pub thread: u32,
    /// What it did.
    pub what: What,
}

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It came into being, or came into view, in a process.
    Born {
        /// The process, by a number that is unique in the system.
        process: u32,
        /// Whether it is known to run at this moment.
        runs: bool,
    },
    /// It ended.
    Exit,
    /// It got a processor.
    In,
    /// It lost its processor.
    Out(Off),
    /// Another thread, or the kernel in the context of `by`, made it able to run.
    Woken {
        /// The thread that was running when it happened.
        by: u32,
    },
    /// It entered a wait on a word of memory.
    Wait {
        /// The word's address.
        lock: u64,
        /// Where.
        site: Site,
    },
    /// It left the wait.
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
        /// Whether it is known to have had a read-write lock as one of its readers.
        by_reader: bool,
    },
    /// The call that wakes has ended.
    WakeEnd,
    /// The lock's own memory names this thread as its holder at this moment.
    Owns {
        /// The word's address.
        lock: u64,
    },
    /// It is asleep, if events have said so, and for this reason, as is known only now.
    Sleeps(Reason),
    /// Its last sleep was for this reason, as is known only now. What was split by it already stays
    /// as it is.
    Slept(Reason),
    /// It was seen at a place by a sample of a processor's clock.
    Sample {
        /// Where.
        site: Site,
        /// Whether the code there is a loop that waits.
        spins: bool,
    },
}

/// How a thread lost its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// It could run on, but has no processor.
    Preempted,
    /// It could run on, but its group has spent its quota of processor time.
    Throttled,
    /// It sleeps.
    Blocked(Reason),
}
