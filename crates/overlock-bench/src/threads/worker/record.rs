//! What a thread leaves for the coordinator.

use crate::threads::timeline::Log;
use crate::threads::watch::Progress;
use overlock_results::stats::Histogram;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};

/// A thread's word, on its own cache line: the coordinator reads it, rarely.
#[derive(Default)]
#[repr(align(128))]
struct Word(AtomicU64);

#[derive(Default)]
#[repr(align(128))]
pub(super) struct Record {
    word: Word,
    pub(super) finished: AtomicBool,
    pub(super) longest: AtomicU64,
    pub(super) longest_write: AtomicU64,
    /// Updates that it has made, where some operations only read.
    pub(super) written: AtomicU64,
    /// Updates that it saw being made while it read.
    pub(super) torn: AtomicU64,
    /// The kernel's number of the thread.
    pub(super) tid: AtomicI32,
    pub(super) waits: Histogram,
    pub(super) log: Log,
}

impl Record {
    pub(super) fn new(log: Log) -> Self {
        Record { log, ..Record::default() }
    }

    #[inline]
    pub(super) fn set(&self, progress: Progress) {
        self.word.0.store(progress.0, Relaxed);
    }

    pub(super) fn progress(&self) -> Progress {
        Progress(self.word.0.load(Relaxed))
    }

    pub(super) fn has_come(&self) -> bool {
        self.progress() != Progress::running(0)
    }

    pub(super) fn has_finished(&self) -> bool {
        // ORDERING: Acquire → the store at the end of `work_loop`.
        self.finished.load(Acquire)
    }

    #[cold]
    pub(super) fn record(&self, ticks: u64, writes: bool) {
        self.waits.record(ticks);
        if ticks > self.longest.load(Relaxed) {
            self.longest.store(ticks, Relaxed);
        }
        if writes && ticks > self.longest_write.load(Relaxed) {
            self.longest_write.store(ticks, Relaxed);
        }
    }
}
