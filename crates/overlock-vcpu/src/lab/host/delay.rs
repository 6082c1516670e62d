//! The time that the system takes from a vCPU that owns a processor: its thread is ready, but has
//! no CPU.
//!
//! The system counts the delay of the thread, which is more. A thread that gives its processor up
//! wakes the next owner and then goes to sleep; often the woken thread preempts it between the two,
//! and it stands in the system's queue, for no purpose, as long as the other runs. (Two threads on
//! one CPU that pass a turn of 300 µs by a futex: an involuntary switch every other turn, and a run
//! delay longer by one turn, on Linux 6.18.) No vCPU loses anything by that. So the delay counted
//! between giving a processor up and getting one again is excused, except for the time from the
//! grant of the processor until the thread runs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use overlock_bench::RunDelay;

/// The delays of one thread. Only this thread writes; any thread can ask for the sum.
#[derive(Debug, Default)]
pub(super) struct Delay {
    source: OnceLock<RunDelay>,
    /// The system's count when the thread began.
    first: AtomicU64,
    /// The part that does not concern the vCPU.
    excused: AtomicU64,
    /// The system's count when the thread gave up its processor, plus one; 0 while it has one.
    out: AtomicU64,
    /// The sum when the thread had done its work, plus one; 0 before.
    last: AtomicU64,
}

impl Delay {
    /// Starts counting for the calling thread, which the system numbers `thread`.
    pub(super) fn begin(&self, thread: i32) {
        if let Ok(source) = RunDelay::of(thread) {
            self.source.get_or_init(|| source);
            self.first.store(self.counted(), Relaxed);
        }
    }

    /// Records that the vCPU has no processor from now on.
    pub(super) fn out(&self) {
        self.out.store(self.counted() + 1, Relaxed);
    }

    /// Records that the vCPU has had a processor for `since_ns`, and that its thread runs now.
    pub(super) fn back(&self, since_ns: u64) {
        let out = self.out.swap(0, Relaxed).saturating_sub(1);
        let excused = self.counted().saturating_sub(out).saturating_sub(since_ns);
        self.excused.store(self.excused.load(Relaxed) + excused, Relaxed);
    }

    /// Records that the thread has done its work.
    pub(super) fn finish(&self) {
        self.last.store(self.sum() + 1, Relaxed);
    }

    /// Returns the nanoseconds so far in which the vCPU had a processor and its thread no CPU; 0
    /// where the system does not count.
    pub(super) fn sum(&self) -> u64 {
        if let last @ 1.. = self.last.load(Relaxed) {
            return last - 1;
        }
        let counted = match self.out.load(Relaxed) {
            0 => self.counted(),
            out => out - 1,
        };
        let excused = self.excused.load(Relaxed);
        counted.saturating_sub(self.first.load(Relaxed)).saturating_sub(excused)
    }

    fn counted(&self) -> u64 {
        self.source.get().and_then(RunDelay::ns).unwrap_or(0)
    }
}
