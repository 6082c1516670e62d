// SPDX-License-Identifier: MIT OR Apache-2.0
//! What threads wait for.

use overlock_trace::{Class, SiteReport};

/// The kind of thing that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A lock for one.
    Mutex,
    /// A lock for many readers, by one of them or in a way that is not known.
    RwLock,
    /// A lock for many readers, by a writer.
    Writer,
    /// A spin lock.
    Spin,
    /// A condition variable.
    Condvar,
    /// A semaphore.
    Semaphore,
    /// A barrier.
    Barrier,
    /// The end of a thread.
    Join,
    /// A futex whose use has no name that is known.
    Futex,
}

impl Kind {
    /// Returns the word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mutex => "mutex",
            Kind::RwLock => "rwlock",
            Kind::Writer => "rwlock-write",
            Kind::Spin => "spin lock",
            Kind::Condvar => "condvar",
            Kind::Semaphore => "semaphore",
            Kind::Barrier => "barrier",
            Kind::Join => "join",
            Kind::Futex => "futex",
        }
    }

    /// Returns what such a word is for; where the name does not say, what its waiters do does.
    pub(crate) fn class(self, site: &SiteReport) -> Class {
        let relays = if site.relays_like_a_lock() { Class::Lock } else { Class::Work };
        self.names_class().unwrap_or(relays)
    }

    /// Returns what such a word is for, if the name says it.
    pub(crate) fn names_class(self) -> Option<Class> {
        match self {
            Kind::Mutex | Kind::RwLock | Kind::Writer | Kind::Spin => Some(Class::Lock),
            Kind::Condvar | Kind::Barrier | Kind::Join => Some(Class::Work),
            Kind::Semaphore | Kind::Futex => None,
        }
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
