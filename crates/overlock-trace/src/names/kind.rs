//! What threads sleep for.

use crate::analysis::WaitStats;

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

/// Declares the kinds: the words for each, and what such a sleep is, if that does not depend on
/// what its threads do.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $words:literal, $class:expr;)*) => {
        /// The kind of thing that a thread sleeps for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        const KINDS: &[(Kind, &str, Option<Class>)] = &[$((Kind::$kind, $words, $class),)*];
    };
}

use Class::{Lock, Outside, Work};

kinds! {
    Mutex = "mutex", Some(Lock);
    /// A lock for many readers, by one of them or in a way that is not known.
    RwLock = "rwlock", Some(Lock);
    /// A lock for many readers, by a writer.
    Writer = "rwlock-write", Some(Lock);
    Spin = "spin lock", Some(Lock);
    /// A mutex that a thread takes again when it has been woken by a condition variable.
    Retake = "mutex after a condition", Some(Lock);
    Libc = "lock inside libc", Some(Lock);
    /// The locks of the C library's streams.
    Stdin = "stdin's lock", Some(Lock);
    Stdout = "stdout's lock", Some(Lock);
    Stderr = "stderr's lock", Some(Lock);
    Stream = "a stream's lock", Some(Lock);
    Loader = "the loader's lock", Some(Lock);
    Gil = "Python's GIL", Some(Lock);
    /// A lock of Python's own, by which its threads also wait for work and for each other's ends.
    PyLock = "Python lock", None;
    /// One that its holder may take again, which is never for work.
    PyRLock = "Python RLock", Some(Lock);
    Gvl = "Ruby's GVL", Some(Lock);
    /// A monitor of Java: `synchronized`.
    Monitor = "Java monitor", Some(Lock);
    /// A thread of Java parks: for a lock of `java.util.concurrent`, or for work.
    Park = "Java park", None;
    GoLock = "lock of Go's runtime", Some(Lock);
    Condvar = "condvar", Some(Work);
    Semaphore = "semaphore", None;
    Barrier = "barrier", Some(Work);
    /// The end of a thread.
    Join = "join", Some(Work);
    /// A thread of a runtime or a pool that has nothing to do.
    Idle = "idle", Some(Work);
    /// A futex whose use has no name that is known.
    Futex = "futex", None;
    FileLock = "file lock", Some(Outside);
    SysV = "SysV semaphore", Some(Outside);
    /// A count of what has happened, or of what may be taken.
    Eventfd = "eventfd", None;
    KernelLock = "kernel lock", Some(Outside);
    /// A disk, or another device.
    Disk = "disk", Some(Outside);
    /// A page that has to be read.
    Fault = "page fault", Some(Outside);
    Pipe = "pipe", Some(Work);
    /// A pipe into which the waiting program can write itself: work goes through it, or a token.
    OwnPipe = "pipe", None;
    Socket = "socket", Some(Work);
    Poll = "poll", Some(Work);
    /// Time: the thread sleeps by its own will.
    Timer = "timer", Some(Work);
    Child = "child process", Some(Work);
    Terminal = "terminal", Some(Work);
    /// Another thread stops it for a while, as a collector of garbage does.
    Stop = "stop of threads", Some(Outside);
    /// A signal, or a message of the system.
    Signal = "signal", Some(Work);
    Call = "system call", Some(Work);
    Unknown = "unknown", Some(Work);
}

impl Kind {
    /// Returns the kind with these words.
    pub(crate) fn named(words: &str) -> Self {
        KINDS.iter().find(|(_, name, _)| *name == words).map_or(Kind::Unknown, |one| one.0)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// Returns what such a sleep is; where the kind does not say, what its threads do does.
    pub(crate) fn class(self, row: &WaitStats) -> Class {
        let is_lock = match self {
            // Threads that tell each other to begin, by a semaphore each, share no lock.
            Kind::Semaphore => row.relays * 2 > row.waits,
            _ => row.relays_like_a_lock(),
        };
        self.names_class().unwrap_or(if is_lock { Class::Lock } else { Class::Work })
    }

    /// Returns what such a sleep is, if the kind says it.
    pub(crate) fn names_class(self) -> Option<Class> {
        KINDS[self as usize].2
    }

    /// Returns whether it is a lock of a language's runtime, which the program does not take
    /// itself.
    #[must_use]
    pub fn is_runtimes(self) -> bool {
        matches!(self, Kind::Gil | Kind::Gvl | Kind::GoLock | Kind::Libc | Kind::Loader)
            || self.is_streams()
    }

    #[must_use]
    pub fn is_streams(self) -> bool {
        (Kind::Stdin..=Kind::Stream).contains(&self)
    }

    /// Returns the kind with the number that `preload/layout.h` gives it.
    pub(crate) fn numbered(number: u8) -> Self {
        use Kind::{Barrier, Condvar, Join, Mutex, RwLock, Semaphore, Spin, Writer};
        let told = [Mutex, RwLock, Writer, Spin, Condvar, Semaphore, Barrier, Join];
        told.get(usize::from(number).wrapping_sub(1)).copied().unwrap_or(Kind::Futex)
    }
}
