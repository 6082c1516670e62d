//! The counters of processes, in memory that they share with the command that started them.
//!
//! The command makes a file in memory (memfd) and names it in [`VARIABLE`]. Every process that
//! loads the library maps it and takes a [`Place`] of its own, so that what it has counted is there
//! however it ends: by `exit`, by `_exit`, by a signal, by `exec`, under another user, or after its
//! parent. Processes that find no place left share the last one: their counts are added up there.
//!
//! This file is part of the command, too. Both are built from the same sources ([`BUILD`]), and
//! [`Head::build`] refuses a library that is not, so the layout has no version.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The variable that names the memory: `DESCRIPTOR:PROCESS:TOKEN`, in decimal. The descriptor is
/// inherited; where it is not, it is that of the process, under `/proc`.
pub(crate) const VARIABLE: &str = "OVERLOCK_TALLY";

/// A hash of the sources of the library.
pub(crate) const BUILD: u64 = match u64::from_str_radix(env!("OVERLOCK_BUILD"), 16) {
    Ok(build) => build,
    Err(_) => panic!("the build script sets a hexadecimal number"),
};

/// How many processes have a place; the last one is shared.
pub(crate) const PLACES: usize = 256;

/// What the library counts, as `group.name`, in the order of its `Event`.
pub(crate) const NAMES: [&str; 15] = [
    "mutex.locks_contended",
    "mutex.timed",
    "mutex.handed_to_libc",
    "mutex.unlocked_free",
    "cond.waits",
    "cond.timed",
    "cond.wakes",
    "cond.handed_to_libc",
    "spin.locks_contended",
    "spin.slept",
    "rwlock.waits",
    "rwlock.handed_to_libc",
    "barrier.waits",
    "barrier.handed_to_libc",
    "unreplaced.semaphore_waits",
];

/// The counters of a place: the library's own, and those of the locks.
pub(crate) const COUNTERS: usize = NAMES.len() + overlock::counters::Event::ALL.len();

/// The number of copies of the counters, so that threads seldom write to the same cache line.
pub(crate) const SHARDS: usize = 16;

/// All of it.
#[repr(C)]
pub(crate) struct Tally {
    pub(crate) head: Head,
    pub(crate) places: [Place; PLACES],
}

/// What all processes look at first.
#[repr(C, align(64))]
pub(crate) struct Head {
    /// The number in the variable.
    pub(crate) token: AtomicU64,
    /// The library that is expected.
    pub(crate) build: AtomicU64,
    /// How many processes have asked for a place.
    pub(crate) claimed: AtomicU32,
    /// How many processes have loaded another library.
    pub(crate) strangers: AtomicU32,
}

/// The counters of a process.
#[repr(C, align(64))]
pub(crate) struct Place {
    /// The process as the kernel numbers it, or zero.
    pub(crate) pid: AtomicU32,
    /// The index of the lock among those of the library.
    pub(crate) lock: AtomicU32,
    /// The longest stall at a mutex, in nanoseconds.
    pub(crate) longest_ns: AtomicU64,
    /// The program's file, as it was called; cut, and ended by a zero if there is room.
    pub(crate) program: [AtomicU64; 30],
    shards: [Shard; SHARDS],
}

#[repr(C, align(64))]
struct Shard([AtomicU64; COUNTERS]);

#[allow(dead_code, reason = "only a test looks there")]
pub(crate) const FIRST_COUNTER: usize = core::mem::offset_of!(Place, shards);

impl Place {
    /// A place where nothing has been counted.
    #[allow(dead_code, reason = "the command makes none")]
    #[allow(clippy::declare_interior_mutable_const, reason = "it is a value to begin with")]
    pub(crate) const NEW: Self = Self {
        pid: AtomicU32::new(0),
        lock: AtomicU32::new(0),
        longest_ns: AtomicU64::new(0),
        program: [const { AtomicU64::new(0) }; 30],
        shards: [const { Shard([const { AtomicU64::new(0) }; COUNTERS]) }; SHARDS],
    };

    /// Adds to a counter, in one of the copies, wrapping around.
    #[allow(dead_code, reason = "the command only reads")]
    #[inline]
    pub(crate) fn add(&self, shard: usize, counter: usize, count: u64) {
        self.shards[shard % SHARDS].0[counter].fetch_add(count, Relaxed);
    }

    #[allow(dead_code, reason = "the command only reads")]
    pub(crate) fn clear(&self, counter: usize) {
        self.shards.iter().for_each(|shard| shard.0[counter].store(0, Relaxed));
    }

    /// Returns a counter, as of some moment between the call and its return.
    pub(crate) fn sum(&self, counter: usize) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.0[counter].load(Relaxed));
        counts.fold(0, u64::wrapping_add)
    }
}
