// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lock this process uses, and whether it is a forked child.
//!
//! Both are one choice among tables of functions, because every lock and unlock goes through a
//! table:
//!
//! ```text
//!   UNDECIDED ──first lock operation,──▶ hybrid │ ticket │ queued │ test-and-set │ none
//!       ▲       or the constructor          │
//!       └── fork, in the child (unforked.rs) ──┘      and then the lock's table for children
//! ```
//!
//! The decision is lazy: constructors of other libraries and memory allocators can lock before our
//! own constructor runs. It is made once, before the first lock is taken, because two algorithms
//! must never share a lock word.

use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use libc::c_int;
use overlock::platform::report;

use crate::mutex::Mutex;
use crate::unforked::{self, UNFORKED};
use crate::{counters, numbers, thread, word};

/// The operations on the lock word of a mutex. The functions return 0 or an error number. A thread
/// that is cancelled while it waits at the gate is unwound through them.
pub(crate) struct Operations {
    /// The name of the lock, as in `OVERLOCK_LOCK`.
    pub(crate) name: &'static str,
    /// Takes the lock.
    pub(crate) lock: extern "C-unwind" fn(&Mutex) -> c_int,
    /// Takes the lock if it is free, or returns `EBUSY`.
    pub(crate) try_lock: extern "C" fn(&Mutex) -> c_int,
    /// Takes the lock, or returns `ETIMEDOUT` once `CLOCK_MONOTONIC` has reached this time in
    /// nanoseconds.
    pub(crate) lock_until: extern "C-unwind" fn(&Mutex, u64) -> c_int,
    /// Releases the lock. The caller holds it, or is entitled to release it for the holder.
    pub(crate) unlock: unsafe extern "C" fn(&Mutex) -> c_int,
}

/// The table before the decision: each function decides and starts again.
pub(crate) const UNDECIDED: Operations = {
    extern "C-unwind" fn lock(mutex: &Mutex) -> c_int {
        (decide().lock)(mutex)
    }
    extern "C" fn try_lock(mutex: &Mutex) -> c_int {
        (decide().try_lock)(mutex)
    }
    extern "C-unwind" fn lock_until(mutex: &Mutex, deadline_ns: u64) -> c_int {
        (decide().lock_until)(mutex, deadline_ns)
    }
    unsafe extern "C" fn unlock(mutex: &Mutex) -> c_int {
        // SAFETY: the caller's.
        unsafe { (decide().unlock)(mutex) }
    }
    Operations { name: "undecided", lock, try_lock, lock_until, unlock }
};

/// The table for calls that the decision itself leads to, because a library stands in for a
/// function of libc's that reads the environment, say, and takes a mutex. It does nothing: a
/// process decides before it has a second thread.
const EARLY: Operations = {
    extern "C-unwind" fn lock(_: &Mutex) -> c_int {
        0
    }
    extern "C" fn try_lock(_: &Mutex) -> c_int {
        0
    }
    extern "C-unwind" fn lock_until(_: &Mutex, _deadline_ns: u64) -> c_int {
        0
    }
    unsafe extern "C" fn unlock(_: &Mutex) -> c_int {
        0
    }
    Operations { name: "undecided", lock, try_lock, lock_until, unlock }
};

/// The index of the lock in `word::TABLES`, once decided. A forked child inherits it.
static CHOICE: AtomicU32 = AtomicU32::new(0);

/// The number of forks behind this process, or behind its youngest ancestor that noticed its own
/// fork.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// What the numbers of this process and its children are made of: see [`process`].
static SEED: AtomicU32 = AtomicU32::new(0);

/// Numbers of processes are less than this, so that a stamp has room for more (`word.rs`).
const PROCESSES: u32 = 1 << 30;

/// Returns the index of the lock of this process, whether it is a child or not.
pub(crate) fn lock() -> usize {
    CHOICE.load(Relaxed) as usize
}

/// Returns the table of this process.
#[inline(always)]
pub(crate) fn operations() -> &'static Operations {
    let first = (&raw const word::TABLES).cast::<Operations>();
    // Relaxed: the tables are constants.
    // SAFETY: the distance is zero or what `use_table` has stored: that of one of the tables, which
    // live for ever.
    unsafe { &*first.byte_add(UNFORKED.current.load(Relaxed)) }
}

fn use_table(index: usize) {
    // ORDERING: Release → the Acquire in `generation` and `decide`.
    UNFORKED.current.store(index * size_of::<Operations>(), Release);
}

/// Returns whether this process keeps libc's own locks: `OVERLOCK_LOCK=none`. The fast paths don't
/// ask; they go through the table.
pub(crate) fn is_none() -> bool {
    ensure_decided();
    let table = |index: usize| index * size_of::<Operations>();
    let current = UNFORKED.current.load(Relaxed);
    current == table(word::NONE) || current == table(word::NONE + word::LOCKS)
}

/// Returns a number that no other process has which may see the same memory, and never zero.
///
/// The kernel's number of the process would not do: two containers number theirs alike, and a file
/// that is mapped outlives its processes. So it is added to random bits that the kernel passes to
/// each program: within a family of forks the sums differ, and between families they agree once in
/// 2³⁰ pairs.
#[inline]
pub(crate) fn process() -> u32 {
    // ORDERING: Acquire ← the Release in `use_table`: the number is there.
    if UNFORKED.current.load(Acquire) == 0 {
        decide();
    }
    UNFORKED.process.load(Relaxed)
}

/// Makes the number of this process.
fn number_of_process() -> u32 {
    (SEED.load(Relaxed).wrapping_add(numbers::process() as u32) % PROCESSES).max(1)
}

/// Returns random bits of this program's start.
fn seed() -> u32 {
    // SAFETY: reads a value that the kernel has passed.
    let at = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    if at == 0 {
        return 0;
    }
    // SAFETY: the kernel has stored 16 bytes there, on the first thread's stack.
    unsafe { core::ptr::with_exposed_provenance::<u32>(at).read_unaligned() }
}

/// Returns the number of forks behind this process.
#[inline]
pub(crate) fn generation() -> u32 {
    // ORDERING: Acquire ← the Release in `use_table`: the generation is there.
    if UNFORKED.current.load(Acquire) == 0 {
        decide();
    }
    UNFORKED.generation.load(Relaxed)
}

/// Decides now, unless the decision was made before.
#[inline]
pub(crate) fn ensure_decided() {
    if UNFORKED.current.load(Relaxed) == 0 {
        decide();
    }
}

/// Makes the decision at the first operation of a process: which lock it uses, or, in a forked
/// child, only that it is a child.
#[cold]
#[inline(never)]
fn decide() -> &'static Operations {
    // ORDERING: Acquire ← the Release below: with a choice, the first process has a table.
    match CHOICE.load(Acquire) {
        0 if thread::this().decides.replace(true) => return &EARLY,
        // A thread that decides at the same time reads the same environment and stores the same.
        0 => {
            let index = read_choice();
            unforked::wipe_on_fork();
            SEED.store(seed(), Relaxed);
            UNFORKED.process.store(number_of_process(), Relaxed);
            use_table(index);
            // ORDERING: Release → the Acquire above.
            CHOICE.store(index as u32, Release);
            thread::this().decides.set(false);
        }
        _ if UNFORKED.current.load(Relaxed) != 0 => {}
        index if !UNFORKED.noticing.swap(true, Relaxed) => {
            let generation = FORKS.load(Relaxed).wrapping_add(1).max(1);
            FORKS.store(generation, Relaxed);
            UNFORKED.generation.store(generation, Relaxed);
            UNFORKED.process.store(number_of_process(), Relaxed);
            thread::forget_tid();
            counters::reset();
            use_table(index as usize + word::LOCKS);
        }
        // ORDERING: Acquire ← the Release in `use_table`.
        _ => {
            while UNFORKED.current.load(Acquire) == 0 {
                core::hint::spin_loop();
            }
        }
    }
    operations()
}

/// Returns the index in `word::TABLES` of the lock that `OVERLOCK_LOCK` names.
///
/// A name that is not a lock ends the process with status 2. At this point the program has not run
/// a line of its own `main`, so nothing is lost; continuing with some default would let a typing
/// error pass for a measurement.
fn read_choice() -> usize {
    let name = match report::environment(c"OVERLOCK_LOCK") {
        None => return 1,
        Some(name) if name.is_empty() => return 1,
        Some(name) => name.to_bytes(),
    };
    let locks = &word::TABLES[1..=word::LOCKS];
    match locks.iter().position(|table| table.name.as_bytes() == name) {
        Some(index) => index + 1,
        None => refuse(name),
    }
}

fn refuse(name: &[u8]) -> ! {
    report::write(&[
        b"overlock: OVERLOCK_LOCK=",
        name,
        b" is not a lock; choose hybrid, ticket, queued, test-and-set or none\n",
    ]);
    // SAFETY: ends the process at once, without running code of the program.
    unsafe { libc::_exit(2) }
}
