// SPDX-License-Identifier: MIT OR Apache-2.0
//! What threads sleep for.

use crate::analysis::Row;

/// What a sleep means for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A lock of the program, of a library, or of a language's runtime.
    Lock,
    /// Something outside of the program that one thread has and others wait for: a file lock, a
    /// semaphore of the system, a lock in the kernel, a disk.
    Outside,
    /// Work, an event, time, another thread.
    Work,
}

/// The kind of thing that a thread sleeps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Mutex,
    /// A lock for many readers, by one of them or in a way that is not known.
    RwLock,
    /// A lock for many readers, by a writer.
    Writer,
    Spin,
    /// A mutex that a thread takes again when it has been woken by a condition variable.
    Retake,
    /// A lock inside of the C library.
    Libc,
    /// Python's interpreter lock.
    Gil,
    /// Ruby's interpreter lock.
    Gvl,
    /// A monitor of Java: `synchronized`.
    Monitor,
    /// A thread of Java parks: for a lock of `java.util.concurrent`, or for work.
    Park,
    /// A lock of Go's runtime.
    GoLock,
    Condvar,
    Semaphore,
    Barrier,
    /// The end of a thread.
    Join,
    /// A thread of a runtime or a pool that has nothing to do.
    Idle,
    /// A futex whose use has no name that is known.
    Futex,
    /// A lock on a file.
    FileLock,
    /// A semaphore of System V.
    SysV,
    Eventfd,
    /// A lock inside of the kernel.
    KernelLock,
    /// A disk, or another device.
    Disk,
    /// A page that has to be read.
    Fault,
    Pipe,
    Socket,
    Poll,
    /// Time: the thread sleeps by its own will.
    Timer,
    Child,
    Terminal,
    /// A signal, or a message of the system.
    Signal,
    Call,
    Unknown,
}

impl Kind {
    /// Returns the words for it, and what such a sleep is, if that does not depend on what its
    /// threads do.
    const fn describe(self) -> (&'static str, Option<Class>) {
        use Class::{Lock, Outside, Work};
        match self {
            Kind::Mutex => ("mutex", Some(Lock)),
            Kind::RwLock => ("rwlock", Some(Lock)),
            Kind::Writer => ("rwlock-write", Some(Lock)),
            Kind::Spin => ("spin lock", Some(Lock)),
            Kind::Retake => ("mutex after a condition", Some(Lock)),
            Kind::Libc => ("lock inside libc", Some(Lock)),
            Kind::Gil => ("Python's GIL", Some(Lock)),
            Kind::Gvl => ("Ruby's GVL", Some(Lock)),
            Kind::Monitor => ("Java monitor", Some(Lock)),
            Kind::Park => ("Java park", None),
            Kind::GoLock => ("lock of Go's runtime", Some(Lock)),
            Kind::Condvar => ("condvar", Some(Work)),
            Kind::Semaphore => ("semaphore", None),
            Kind::Barrier => ("barrier", Some(Work)),
            Kind::Join => ("join", Some(Work)),
            Kind::Idle => ("idle", Some(Work)),
            Kind::Futex => ("futex", None),
            Kind::FileLock => ("file lock", Some(Outside)),
            Kind::SysV => ("SysV semaphore", Some(Outside)),
            Kind::Eventfd => ("eventfd", Some(Outside)),
            Kind::KernelLock => ("kernel lock", Some(Outside)),
            Kind::Disk => ("disk", Some(Outside)),
            Kind::Fault => ("page fault", Some(Outside)),
            Kind::Pipe => ("pipe", Some(Work)),
            Kind::Socket => ("socket", Some(Work)),
            Kind::Poll => ("poll", Some(Work)),
            Kind::Timer => ("timer", Some(Work)),
            Kind::Child => ("child process", Some(Work)),
            Kind::Terminal => ("terminal", Some(Work)),
            Kind::Signal => ("signal", Some(Work)),
            Kind::Call => ("system call", Some(Work)),
            Kind::Unknown => ("unknown", Some(Work)),
        }
    }

    /// Returns the words for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.describe().0
    }

    /// Returns what such a sleep is; where the kind does not say, what its threads do does.
    pub(crate) fn class(self, row: &Row) -> Class {
        let relays = if row.relays_like_a_lock() { Class::Lock } else { Class::Work };
        self.names_class().unwrap_or(relays)
    }

    /// Returns what such a sleep is, if the kind says it.
    pub(crate) fn names_class(self) -> Option<Class> {
        self.describe().1
    }

    /// Returns whether it is a lock of a language's runtime, which the program does not take
    /// itself.
    #[must_use]
    pub fn is_runtimes(self) -> bool {
        matches!(self, Kind::Gil | Kind::Gvl | Kind::GoLock | Kind::Libc)
    }

    /// Returns the kind with the number that `preload/layout.h` gives it.
    pub(crate) fn numbered(number: u8) -> Self {
        match number {
            1 => Kind::Mutex,
            2 => Kind::RwLock,
            3 => Kind::Writer,
            4 => Kind::Spin,
            5 => Kind::Condvar,
            6 => Kind::Semaphore,
            7 => Kind::Barrier,
            8 => Kind::Join,
            _ => Kind::Futex,
        }
    }
}
