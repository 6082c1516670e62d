//! Read-write locks of vCPUs: ours, and two as others have described them, for comparison.
//!
//! # Sources
//! W. Long, "qrwlock: Introducing a queue read/write lock implementation", LKML 2013: that with
//! a queue, as described there. The one that only counts is the textbook's, whose readers go first.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use overlock::atomic::{Atomic, ConstAtomic};
use overlock::platform::Platform;
use overlock::{Queued, RawLock, RawRwLock};

use super::class::Locks;
use crate::Verbs;

pub(crate) trait ReadWrite: Send + Sync + 'static {
    const NEW: Self;
    fn read(&self);
    fn leave(&self);
    fn try_write(&self) -> bool;
    fn write(&self);
    fn leave_written(&self);
}

impl<P: Platform<Word: ConstAtomic<u32>>> ReadWrite for RawRwLock<P, Locks> {
    const NEW: Self = Self::new();
    fn read(&self) {
        self.lock_shared();
    }
    fn leave(&self) {
        // SAFETY: the caller holds it so.
        unsafe { self.unlock_shared() };
    }
    fn try_write(&self) -> bool {
        self.try_lock()
    }
    fn write(&self) {
        self.lock();
    }
    fn leave_written(&self) {
        // SAFETY: the caller holds it so.
        unsafe { self.unlock() };
    }
}

const WRITER: u32 = 1 << 0;
/// A writer waits, and newcomers queue behind it.
const WAITING: u32 = 1 << 1;
const READER: u32 = 1 << 8;

/// A word that counts readers; a writer waits until there are none.
pub(crate) struct Counting<W: Verbs> {
    word: W::Word,
    world: PhantomData<W>,
}

impl<W: Verbs> Counting<W> {
    /// Takes the lock to read, unless these bits are set.
    fn try_read(&self, unless: u32) -> bool {
        // ORDERING: Acquire, with the Release of `leave_written`.
        let is_in = self.word.fetch_add(READER, Acquire) & unless == 0;
        if !is_in {
            self.word.fetch_sub(READER, Relaxed);
        }
        is_in
    }

    fn spin_while(&self, held: u32) {
        while self.word.load(Relaxed) & held != 0 {
            W::relax();
        }
    }
}

impl<W: Verbs> ReadWrite for Counting<W> {
    const NEW: Self = Self { word: W::Word::ZERO, world: PhantomData };

    fn read(&self) {
        while !self.try_read(WRITER) {
            self.spin_while(WRITER);
        }
    }

    fn leave(&self) {
        // ORDERING: Release, with the Acquire of `try_write`.
        self.word.fetch_sub(READER, Release);
    }

    fn try_write(&self) -> bool {
        // ORDERING: Acquire, with the Releases of both releases.
        self.word.load(Relaxed) == 0
            && self.word.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok()
    }

    fn write(&self) {
        while !self.try_write() {
            self.spin_while(!0);
        }
    }

    fn leave_written(&self) {
        // ORDERING: Release, with the Acquires of both `try`.
        self.word.fetch_and(!WRITER, Release);
    }
}

/// The same word with a spin lock in which all that can't come in at once wait, each for its turn.
pub(crate) struct Queue<W: Verbs> {
    count: Counting<W>,
    queue: Queued<W::Native>,
}

impl<W: Verbs> ReadWrite for Queue<W> {
    const NEW: Self = Self { count: Counting::NEW, queue: Queued::new() };

    fn read(&self) {
        if self.count.try_read(WRITER | WAITING) {
            return;
        }
        self.queue.lock();
        // ORDERING: Acquire, here or in the look that finds no writer: with `leave_written`.
        self.count.word.fetch_add(READER, Acquire);
        while self.count.word.load(Acquire) & WRITER != 0 {
            W::relax();
        }
        // SAFETY: taken above.
        unsafe { self.queue.unlock() };
    }

    fn leave(&self) {
        self.count.leave();
    }

    fn try_write(&self) -> bool {
        self.count.try_write()
    }

    fn write(&self) {
        if self.try_write() {
            return;
        }
        self.queue.lock();
        self.count.word.fetch_or(WAITING, Relaxed);
        loop {
            self.count.spin_while(!WAITING);
            // ORDERING: Acquire, with the Releases of both releases.
            if self.count.word.compare_exchange(WAITING, WRITER, Acquire, Relaxed).is_ok() {
                break;
            }
        }
        // SAFETY: taken above.
        unsafe { self.queue.unlock() };
    }

    fn leave_written(&self) {
        self.count.leave_written();
    }
}

/// Something to do with a read-write lock whose type is known only by its name.
pub(crate) trait UseReadWrite {
    type Output;
    /// Does it with locks of type `L`.
    fn with<L: ReadWrite>(self) -> Self::Output;
}

/// Lets `user` use the read-write lock called `name`; `None` if there is no such lock.
pub(crate) fn with_read_write<W: Verbs, U: UseReadWrite>(name: &str, user: U) -> Option<U::Output> {
    Some(match name {
        "rwlock" => user.with::<RawRwLock<W::Aware, Locks>>(),
        "queue-rwlock" => user.with::<Queue<W>>(),
        "counting-rwlock" => user.with::<Counting<W>>(),
        _ => return None,
    })
}
