//! What programs of calls consist of.

pub(crate) type Thread = usize;
pub(crate) type Lock = usize;

/// What a lock is. Each test has some of them.
#[allow(dead_code, reason = "the tests of two crates share this file")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Mutex,
    Fair,
    Reentrant,
    /// Its holder may not ask for it again.
    ErrorCheck,
    /// Readers do not pass a writer that waits for other readers.
    Rw,
    /// The same of pthread.
    WritersFirst,
    /// Readers pass writers that wait: pthread's default.
    ReadersFirst,
}

impl Kind {
    pub(crate) fn is_rw(self) -> bool {
        matches!(self, Self::Rw | Self::WritersFirst | Self::ReadersFirst)
    }

    /// Whether a holder that waits for it once more is told so.
    pub(crate) fn knows_holder(self) -> bool {
        matches!(self, Self::ErrorCheck | Self::WritersFirst | Self::ReadersFirst)
    }

    /// Whether a release by another thread than the holder is an error.
    pub(crate) fn knows_releaser(self) -> bool {
        matches!(self, Self::ErrorCheck | Self::Reentrant)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mode {
    Read,
    Upgradable,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Want {
    Read,
    Recursive,
    Upgradable,
    Write,
    Upgrade,
}

impl Want {
    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::Read | Self::Recursive => Mode::Read,
            Self::Upgradable => Mode::Upgradable,
            Self::Write | Self::Upgrade => Mode::Write,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum By {
    Ever,
    /// It is a call that does not wait.
    Try,
    /// Its deadline has passed already.
    Past,
    /// Its deadline passes before the next call.
    Soon,
    /// Its deadline passes some calls later.
    Later,
    /// Its deadline is an hour away.
    Hour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Returns,
    Panics,
    /// It runs until [`Call::Leave`].
    Stays,
}

/// What a thread is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Acquire(Lock, Want, By),
    Release(Lock, Mode, bool),
    Downgrade(Lock, Mode, Mode),
    /// Releases a lock, and takes it again; a writer does after one that waits.
    Bump(Lock, Mode),
    IsLocked(Lock),
    IsLockedExclusive(Lock),
    /// So many more read locks at once, none of which waits, and their releases.
    ManyReads(Lock, usize),
    /// What the thread holds is another thread's to release.
    Give(Thread, Lock, Mode),
    /// The two locks trade places.
    Swap,
    Wait(Lock, By),
    NotifyOne,
    NotifyAll,
    Once(bool, End),
    Leave(End),
    OnceState,
    /// Of two threads.
    Barrier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Done,
    /// False, none, or an error that says so.
    Refused,
    Count(usize),
    /// An error of the program.
    Wrong,
    Panicked,
    /// A closure runs, and stays.
    Entered,
}
