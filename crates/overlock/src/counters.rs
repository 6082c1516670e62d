//! Event counters, named after Linux's lock events (kernel/locking/lock_events_list.h).
//!
//! A lock belongs to a [`Class`]: a type that decides where its events are counted. [`Uncounted`]
//! is the default: it has no size and generates no code. [`lock_class!`](crate::lock_class) makes a
//! class with counters of its own.
//!
//! The uncontended path counts nothing. On the other paths, counting an event is one relaxed
//! addition to a word in one of several cache lines. The address of the caller's stack chooses the
//! line, so CPUs seldom share one.

use core::sync::atomic::Ordering::Relaxed;
// Where no instruction adds 64 bits, a count is as wide as an address, and wraps around.
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64 as Count;
#[cfg(not(target_has_atomic = "64"))]
use core::sync::atomic::AtomicUsize as Count;

macro_rules! events {
    ($($(#[$about:meta])* $event:ident = $name:literal,)*) => {
        /// Something that happens inside a lock.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Event { $($(#[$about])* $event,)* }

        impl Event {
            /// All events, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$event),*];

            /// The event's name: where Linux has the event, the name it prints in debugfs
            /// `lock_event_counts`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$event => $name,)* }
            }
        }
    };
}

events! {
    /// An acquisition that one atomic operation could not complete.
    LockSlowpath = "lock_slowpath",
    /// A queue node of the second nesting level was used.
    LockUseNode2 = "lock_use_node2",
    /// A queue node of the third nesting level was used.
    LockUseNode3 = "lock_use_node3",
    /// A queue node of the fourth nesting level was used.
    LockUseNode4 = "lock_use_node4",
    /// No queue node was free: the CPU waited for the lock without one.
    LockNoNode = "lock_no_node",
    /// An acquisition by the queue head, in its turn.
    LockQueued = "lock_queued",
    /// An acquisition past the queue, or just before joining it, by the slow path.
    PvLockStealing = "pv_lock_stealing",
    /// The queue head halted.
    PvWaitHead = "pv_wait_head",
    /// A waiter behind the queue head halted.
    PvWaitNode = "pv_wait_node",
    /// A waiter halted again after a kick that did not bring it the lock.
    PvWaitAgain = "pv_wait_again",
    /// A waiter woke up without having been kicked.
    PvSpuriousWakeup = "pv_spurious_wakeup",
    /// A release that kicked a halted waiter.
    PvKickUnlock = "pv_kick_unlock",
    /// A waiter that ran again after a kick.
    PvKickWake = "pv_kick_wake",
    /// The queue head yielded its processor between two rounds of spinning.
    PvYield = "pv_yield",
    /// The table of halted waiters was full, so the waiter did not halt for long.
    PvHashFull = "pv_hash_full",
    /// A timed acquisition that gave up.
    LockTimeout = "lock_timeout",
}

/// Where the events of a set of locks are counted.
pub trait Class: Send + Sync + 'static {
    /// Counts one event. Called in slow paths only.
    fn count(event: Event);
}

/// The class of locks that count nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uncounted;

impl Class for Uncounted {
    #[inline(always)]
    fn count(_event: Event) {}
}

const SHARDS: usize = 16;

/// The counters of one class: see [`lock_class!`](crate::lock_class).
#[derive(Debug)]
pub struct Counters {
    shards: [Shard; SHARDS],
}

#[derive(Debug)]
#[repr(align(64))]
struct Shard([Count; Event::ALL.len()]);

impl Counters {
    /// Counters that have counted nothing.
    #[expect(clippy::new_without_default, reason = "made in a static, never by default")]
    pub const fn new() -> Self {
        Self { shards: [const { Shard([const { Count::new(0) }; Event::ALL.len()]) }; SHARDS] }
    }

    /// Counts one event.
    #[inline]
    pub fn add(&self, event: Event) {
        // The stacks of different CPUs lie at least several pages apart. Any choice is correct;
        // sharing a shard is only slower.
        let here = 0_u8;
        let shard = (core::ptr::from_ref(&here).addr() >> 14) % SHARDS;
        self.shards[shard].0[event as usize].fetch_add(1, Relaxed);
    }

    /// How often an event has happened, as of some moment between the call and its return.
    #[allow(clippy::unnecessary_cast, reason = "a count has 32 bits elsewhere")]
    pub fn get(&self, event: Event) -> u64 {
        self.shards.iter().map(|shard| shard.0[event as usize].load(Relaxed) as u64).sum()
    }

    /// All events with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Event, u64)> + '_ {
        Event::ALL.iter().map(|event| (*event, self.get(*event)))
    }
}

/// Makes a class of locks with counters of its own.
///
/// ```
/// # #[cfg(feature = "threads")] {
/// use overlock::{Hybrid, Mutex, counters::Event, platform::Threads};
///
/// overlock::lock_class!(pub BufferPool);
/// static POOL: Mutex<u32, Hybrid<Threads, BufferPool>> = Mutex::new(0);
///
/// *POOL.lock() += 1;
/// assert_eq!(BufferPool::counters().get(Event::LockSlowpath), 0);
/// # }
/// ```
#[macro_export]
macro_rules! lock_class {
    ($(#[$attr:meta])* $vis:vis $name:ident) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, Default)]
        $vis struct $name;

        impl $name {
            /// The counters of this class.
            $vis fn counters() -> &'static $crate::counters::Counters {
                static COUNTERS: $crate::counters::Counters = $crate::counters::Counters::new();
                &COUNTERS
            }
        }

        impl $crate::counters::Class for $name {
            #[inline]
            fn count(event: $crate::counters::Event) {
                Self::counters().add(event);
            }
        }
    };
}
