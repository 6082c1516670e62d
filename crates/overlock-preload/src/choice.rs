//! Which lock this process uses, and whether it is a forked child.
//!
//! Both are one choice among tables of functions (`tables.rs`), because every lock and unlock goes
//! through a table:
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

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use overlock::platform::report;

use crate::operations::Operations;
use crate::stamp::Whose;
use crate::unforked::{Unforked, Wiping};
use crate::{counters, thread};

/// The locks to choose from, by their names in `OVERLOCK_LOCK`; the first is the default.
pub(crate) const LOCKS: [&str; 5] = ["hybrid", "ticket", "queued", "test-and-set", "none"];

/// The number of libc's own locks among those, counted from 1.
const NONE: usize = LOCKS.len();

/// What a forked child must not inherit.
#[repr(C)]
pub(crate) struct Chosen {
    /// The table of functions in use, as an offset from the first.
    pub(crate) current: AtomicUsize,
    /// The number of forks between the process that was executed and this one; zero in a child that
    /// has not noticed yet that it is one.
    generation: AtomicU32,
    /// The number of this process: see [`process`].
    process: AtomicU32,
    /// The process in a stamp.
    stamp: AtomicU32,
    /// Whether a thread of a child is about to notice.
    noticing: AtomicBool,
}

/// The instance of this process.
pub(crate) static CHOSEN: Unforked<Chosen> = Unforked::new(Chosen {
    current: AtomicUsize::new(0),
    generation: AtomicU32::new(0),
    process: AtomicU32::new(0),
    stamp: AtomicU32::new(0),
    noticing: AtomicBool::new(false),
});

static WIPING: Wiping = Wiping::new();

/// The number of the lock, counted from 1, once decided. A forked child inherits it.
static CHOICE: AtomicU32 = AtomicU32::new(0);

/// The number of forks behind this process, or behind its youngest ancestor that noticed its own
/// fork.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// What the numbers of this process and its children are made of: see [`process`].
static SEED: AtomicU32 = AtomicU32::new(0);

/// Returns the number of the lock of this process, counted from 1, whether it is a child or not.
pub(crate) fn lock() -> usize {
    CHOICE.load(Relaxed) as usize
}

pub(crate) fn name() -> &'static str {
    lock().checked_sub(1).map_or("undecided", |lock| LOCKS[lock])
}

/// Returns where the table of this process is, as an offset from the first.
#[inline(always)]
pub(crate) fn table() -> usize {
    // Relaxed: the tables are constants.
    CHOSEN.current.load(Relaxed)
}

fn use_table(index: usize) {
    // ORDERING: Release → the Acquire in `generation`, `process` and `decide`.
    CHOSEN.current.store(index * size_of::<Operations>(), Release);
}

/// Returns whether this process keeps libc's own locks: `OVERLOCK_LOCK=none`. The fast paths don't
/// ask; they go through the table.
pub(crate) fn is_none() -> bool {
    ensure_decided();
    let current = table() / size_of::<Operations>();
    current == NONE || current == NONE + LOCKS.len()
}

/// Returns a number that no other process has which may see the same memory, and never zero.
///
/// The kernel's number of the process would not do: two containers number theirs alike, and a file
/// that is mapped outlives its processes. So it is added to random bits that the kernel passes to
/// each program: within a family of forks the sums differ, and between families they agree once in
/// 2³² pairs.
#[inline]
pub(crate) fn process() -> u32 {
    // ORDERING: Acquire ← the Release in `use_table`: the number is there.
    if CHOSEN.current.load(Acquire) == 0 {
        decide();
    }
    CHOSEN.process.load(Relaxed)
}

/// Returns this process as it is in a stamp: another than its ancestors, and seldom the same as a
/// process that has nothing to do with it.
#[inline]
pub(crate) fn stamp() -> Whose {
    process();
    Whose(CHOSEN.stamp.load(Relaxed))
}

fn number_process(forks: u32) {
    let number = SEED.load(Relaxed).wrapping_add(thread::kernels_process() as u32).max(1);
    CHOSEN.process.store(number, Relaxed);
    CHOSEN.stamp.store(Whose::new(number, forks).0, Relaxed);
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
    if CHOSEN.current.load(Acquire) == 0 {
        decide();
    }
    known_generation()
}

/// Returns the same as far as it is known: zero in a child that has not noticed yet that it is one.
#[inline]
pub(crate) fn known_generation() -> u32 {
    CHOSEN.generation.load(Relaxed)
}

/// Decides now, unless the decision was made before.
#[inline]
pub(crate) fn ensure_decided() {
    if CHOSEN.current.load(Relaxed) == 0 {
        decide();
    }
}

/// Makes the decision at the first operation of a process: which lock it uses, or, in a forked
/// child, only that it is a child. Returns false if the call comes out of the decision itself.
#[cold]
#[inline(never)]
pub(crate) fn decide() -> bool {
    // ORDERING: Acquire ← the Release below: with a choice, the first process has a table.
    match CHOICE.load(Acquire) {
        0 if thread::this().decides.replace(true) => return false,
        // A thread that decides at the same time reads the same environment and stores the same.
        0 => {
            let index = read_choice();
            WIPING.ask(&CHOSEN);
            SEED.store(seed(), Relaxed);
            number_process(0);
            use_table(index);
            // ORDERING: Release → the Acquire above.
            CHOICE.store(index as u32, Release);
            thread::this().decides.set(false);
        }
        _ if CHOSEN.current.load(Relaxed) != 0 => {}
        index if !CHOSEN.noticing.swap(true, Relaxed) => {
            let generation = FORKS.load(Relaxed).wrapping_add(1).max(1);
            FORKS.store(generation, Relaxed);
            CHOSEN.generation.store(generation, Relaxed);
            number_process(generation);
            thread::forget_tid();
            counters::reset(index);
            use_table(index as usize + LOCKS.len());
        }
        // ORDERING: Acquire ← the Release in `use_table`.
        _ => {
            while CHOSEN.current.load(Acquire) == 0 {
                core::hint::spin_loop();
            }
        }
    }
    true
}

/// Clears the choice, in a forked child's only thread, unless the kernel has.
pub(crate) fn clear_in_child() {
    if !WIPING.is_kernels() {
        CHOSEN.generation.store(0, Relaxed);
        CHOSEN.noticing.store(false, Relaxed);
        CHOSEN.current.store(0, Relaxed);
    }
}

/// Returns the number of the lock that `OVERLOCK_LOCK` names.
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
    match LOCKS.iter().position(|lock| lock.as_bytes() == name) {
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
