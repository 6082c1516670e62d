//! `Threads`: an OS thread is a CPU, and a futex is its halt. Linux.
//!
//! | clause | answer |
//! |---|---|
//! | P0 | The cells and the fence of `core::sync::atomic`. On x86-64, assembly takes and releases uncontended locks; [`rseq`] says at each instruction why it is such an access. |
//! | P1, P3 | `FUTEX_WAIT` compares the word under the kernel's bucket lock; a waker that changed the word before `FUTEX_WAKE` can't fall between. |
//! | P2 | Signals wake a thread early, and so do wakes meant for an earlier user of the address. |
//! | P4 | Waking an address that has no waiters returns 0. |
//! | P6 | The processor's pause instruction. |
//! | P7, P8 | A slot for each live thread, taken on its first contended lock operation and returned when the thread has exited ([`registry`]). 8,191 slots; a thread beyond that has no number, and naps where it can't halt on the lock's own word. |
//! | P9 | `CLOCK_MONOTONIC` ([`clock`]). |
//! | P10 | [`Threads::set_waiting`] switches waiting off. |
//! | P11 | Restartable sequences, cut off by `membarrier`, where the system has both ([`rseq`]). |
//! | P13 | The number of forks behind the process, counted by a fork handler ([`registry`]). |
//!
//! # Whether threads wait (P10)
//!
//! Waiting is on until it is switched off; it can't be switched off once a thread may halt, because
//! a release would then forget to kick that thread.
//!
//! ```text
//!   ON -- set(false) --> OFF
//!    |
//!    | fix: the first thread takes a number, or is about to halt
//!    v
//!   FIXED (on)
//! ```
//!
//! Where a waiter leaves its number behind, it takes that number first and asks afterwards. A
//! waiter that halts on the lock's own word ([`park`](crate::park)) needs no number, so halting
//! fixes the answer, too, and where waiting has been switched off it returns at once. So a thread
//! that has halted has fixed the answer, and a CPU that finds waiting off knows that no thread ever
//! halts. All accesses are to one word, so `Relaxed` suffices.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};

use super::{Costs, Platform};
use crate::slot::{Cpu, Slot};
use crate::waiters::bucket::Bucket;
pub(super) use rseq::Sequences;

pub mod clock;
pub(super) mod errno;
pub(super) mod futex;
pub mod maps;
mod registry;
pub mod report;
#[cfg(all(
    target_arch = "x86_64",
    target_pointer_width = "64",
    target_os = "linux",
    target_env = "gnu",
    not(any(miri, overlock_portable))
))]
mod rseq;
#[cfg(not(all(
    target_arch = "x86_64",
    target_pointer_width = "64",
    target_os = "linux",
    target_env = "gnu",
    not(any(miri, overlock_portable))
)))]
#[path = "threads/portable.rs"]
mod rseq;
pub mod syscall;
mod vdso;

/// The answer to P10.
struct Waiting(AtomicU8);

const ON: u8 = 0;
const OFF: u8 = 1;
const FIXED: u8 = 2;

/// The answer for this process.
static WAITING: Waiting = Waiting(AtomicU8::new(ON));

impl Waiting {
    /// Fixes the answer if waiting is on: a thread may halt from here on. Returns whether threads
    /// wait.
    fn fix(&self) -> bool {
        // The load keeps halts, of which there are many, from writing a word that all CPUs read.
        match self.0.load(Relaxed) {
            ON => self.0.compare_exchange(ON, FIXED, Relaxed, Relaxed) != Err(OFF),
            state => state == FIXED,
        }
    }

    /// Switches waiting off if `on` is false. Returns whether `on` is in effect from here on.
    fn set(&self, on: bool) -> bool {
        if on {
            return self.0.load(Relaxed) != OFF;
        }
        matches!(self.0.compare_exchange(ON, OFF, Relaxed, Relaxed), Ok(_) | Err(OFF))
    }
}

/// OS threads that may lose their processor at any instruction; they halt in a futex.
///
/// For locks within one process. See the [platform contract](super).
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads;

impl Threads {
    /// Switches waiting off for all locks of this platform: with `false` they only spin, as on
    /// [`Native`](super::Native).
    ///
    /// This is S1's `nopvspin` for threads, and right where every thread has a core of its own.
    /// Call it before the first lock is used: once a thread has waited, waiting can't be switched
    /// off, and once it is off it can't be switched on again. Returns whether `on` is in effect
    /// from here on.
    #[must_use = "waiting may no longer be switched"]
    pub fn set_waiting(on: bool) -> bool {
        WAITING.set(on)
    }

    /// Whether this process releases uncontended locks by a restartable sequence instead of an
    /// atomic read-modify-write. Once this is true, it stays true.
    pub fn has_restartable_sequences() -> bool {
        rseq::is_armed()
    }

    /// Leaves the restartable sequences of this process unarmed, so that nothing here ever calls
    /// `membarrier`: for a library whose program may forbid itself that call. It must run before
    /// the constructors of this crate; sequences that are already armed stay armed.
    #[doc(hidden)]
    pub extern "C" fn forbid_restartable_sequences() {
        rseq::forbid();
    }
}

// SAFETY: the table above answers the contract clause by clause.
unsafe impl Platform for Threads {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;

    const WAITS: bool = true;
    const KICKS_BY_ADDRESS: bool = true;

    type Release = Sequences;

    fn costs() -> Costs {
        let halts =
            registry::numbered().is_some_and(|cpu| registry::halts_at_once(cpu).load(Relaxed));
        Costs { spins: !halts, ..Costs::DEFAULT }
    }

    fn without_spinning(take: impl FnOnce()) {
        /// The thread spins again from here on, also if `take` panics.
        struct Spins(Cpu);

        impl Drop for Spins {
            fn drop(&mut self) {
                registry::halts_at_once(self.0).store(false, Relaxed);
            }
        }

        let Some(cpu) = Self::cpu() else { return take() };
        registry::halts_at_once(cpu).store(true, Relaxed);
        let _spins = Spins(cpu);
        take();
    }

    #[inline(always)]
    fn waits() -> bool {
        WAITING.0.load(Relaxed) != OFF
    }

    /// As by default; it stands here too because who follows a call reads this file anyway.
    #[inline(always)]
    fn relax() {
        core::hint::spin_loop();
    }

    fn nap(ns: u64) {
        futex::nap(ns);
    }

    fn cpu() -> Option<Cpu> {
        registry::current().inspect(|_| {
            WAITING.fix();
        })
    }

    fn slot(cpu: Cpu) -> &'static Slot<AtomicU32> {
        registry::slot(cpu)
    }

    #[inline]
    fn in_vain() -> Option<&'static AtomicU32> {
        // Threads that have waited for long have a number.
        Some(Self::slot(registry::numbered()?).in_vain())
    }

    fn waiters() -> &'static [Bucket<AtomicU32>] {
        &registry::BUCKETS
    }

    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        Self::wait_as(word, expected, deadline_ns, u32::MAX);
    }

    fn wait_as(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>, classes: u32) {
        if WAITING.fix() {
            futex::wait_as(word, expected, deadline_ns, classes, futex::Scope::Private);
        } else {
            // Waiting was switched off while this thread was about to halt.
            Self::relax();
        }
    }

    fn kick(word: *const AtomicU32, _cpu: Cpu) {
        Self::kick_any(word);
    }

    fn generation() -> u32 {
        registry::forks()
    }

    fn kick_any_of(word: *const AtomicU32, classes: u32) -> bool {
        futex::wake_of(word, 1, classes, futex::Scope::Private)
    }

    fn kick_every_of(word: *const AtomicU32, classes: u32) -> bool {
        futex::wake_of(word, i32::MAX, classes, futex::Scope::Private)
    }

    #[inline]
    fn now_ns() -> u64 {
        clock::now_on(libc::CLOCK_MONOTONIC)
    }
}
