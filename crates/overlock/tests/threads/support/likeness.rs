//! Platforms on threads that are not [`Threads`]: they have its numbers, its futex and its clock,
//! but slots of their own. None of them is mended after `fork`.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use overlock::platform::{
    Bucket, CheapRelease, Costs, Cpu, MAX_CPUS, Platform, ReadModifyWrite, Slot, Threads,
};

/// How `Threads` releases.
pub(crate) type Sequences = <Threads as Platform>::Release;

/// Defines a platform by its name, whether it waits, how it releases, and the numbers of threads.
macro_rules! like_threads {
    ($(#[$doc:meta])* $name:ident, waits $waits:literal, releases by $release:ty) => {
        like_threads! {
            $(#[$doc])* $name, waits $waits, releases by $release, numbers Threads::cpu()
        }
    };
    ($(#[$doc:meta])* $name:ident, waits $waits:literal, releases by $release:ty,
        numbers $cpu:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name;

        // SAFETY: the cells are those of `core` (P0); numbers, halting, kicks and the clock are
        // those of `Threads`; slots and table are this platform's own, one slot for each number
        // (P7, P8).
        unsafe impl Platform for $name {
            type Byte = AtomicU8;
            type Half = AtomicU16;
            type Word = AtomicU32;
            type Release = $release;

            const WAITS: bool = $waits;

            fn nap(ns: u64) {
                Threads::nap(ns);
            }
            fn cpu() -> Option<Cpu> {
                $cpu
            }
            fn slot(cpu: Cpu) -> &'static Slot<Self::Word> {
                static SLOTS: [Slot<AtomicU32>; MAX_CPUS] = [const { Slot::new() }; MAX_CPUS];
                &SLOTS[cpu.index()]
            }
            fn waiters() -> &'static [Bucket<Self::Word>] {
                static BUCKETS: [Bucket<AtomicU32>; 64] = [const { Bucket::new() }; 64];
                &BUCKETS
            }
            fn wait(word: &Self::Word, expected: u32, deadline_ns: Option<u64>) {
                Threads::wait(word, expected, deadline_ns);
            }
            fn kick(word: *const Self::Word, cpu: Cpu) {
                Threads::kick(word, cpu);
            }
            fn now_ns() -> u64 {
                Threads::now_ns()
            }
            fn costs() -> Costs {
                Costs::DEFAULT.with_outside_wakes(0)
            }
        }
    };
}

std::thread_local! {
    static TORN: Cell<bool> = const { Cell::new(false) };
    static DWELL: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
}

/// From now on, nothing cuts off this thread's releases on [`Torn`].
pub(crate) fn tear() {
    TORN.set(true);
}

/// Does this between the look and the store of this thread's torn releases: wait for a waiter that
/// is sure to come, until it has halted.
pub(crate) fn dwell_by(wait: impl Fn() + 'static) {
    DWELL.set(Some(Box::new(wait)));
}

/// Releases by `Threads`' restartable sequences; but in threads that have called [`tear`], by a
/// look and a store that nothing cuts off, like a sequence that the kernel does not watch.
#[derive(Debug)]
pub(crate) struct TornRelease;

/// Stays between the look and the store for so long that a waiter joins the queue and halts, or for
/// a moment in which one may.
fn dwell() {
    DWELL.with_borrow(|wait| match wait {
        Some(wait) => wait(),
        None => Threads::nap(3_000_000),
    });
}

impl TornRelease {
    pub(crate) fn torn(word: &AtomicU32) -> bool {
        if word.load(Ordering::Relaxed) >> 16 != 0 {
            return false;
        }
        dwell();
        // ORDERING: Release, with the Acquire of the thread that takes the lock next.
        word.fetch_and(!0xff, Ordering::Release);
        true
    }
}

// SAFETY: the operations do what `Sequences`' do. In threads that have called `tear`, they break
// P11 on purpose: a waiter may sleep on, but no two threads ever hold one lock.
unsafe impl CheapRelease<AtomicU32, AtomicU16> for TornRelease {
    const EXISTS: bool = Sequences::EXISTS;

    fn set_lowest_bit(word: &AtomicU32) -> bool {
        Sequences::set_lowest_bit(word)
    }

    fn clear_low_byte(word: &AtomicU32) -> bool {
        match TORN.get() {
            true => Self::torn(word),
            false => Sequences::clear_low_byte(word),
        }
    }

    fn add_half(cell: &AtomicU16, n: u16, unless: u16) -> bool {
        if !TORN.get() {
            return Sequences::add_half(cell, n, unless);
        }
        if cell.load(Ordering::Relaxed) & unless != 0 {
            return false;
        }
        dwell();
        // ORDERING: Release, with the Acquire of the thread that is served next.
        cell.fetch_add(n, Ordering::Release);
        true
    }

    fn membarrier() -> bool {
        Sequences::membarrier()
    }
}

like_threads! {
    /// A platform whose threads may release by [`TornRelease`].
    Torn, waits true, releases by TornRelease
}

like_threads! {
    /// A platform whose locks are not mended in a forked child.
    Unmended, waits true, releases by ReadModifyWrite
}

like_threads! {
    /// A platform whose threads have a number each and only spin: queues without halts.
    Spinning, waits false, releases by ReadModifyWrite
}

like_threads! {
    /// A platform on which a kick finds a thread by its number, and no thread has one.
    Numberless, waits true, releases by ReadModifyWrite, numbers None
}

/// Threads that are found by address alone, and have neither numbers nor slots.
#[derive(Debug)]
pub(crate) struct AddressAlone;

// SAFETY: all that can be called is that of `Threads`.
unsafe impl Platform for AddressAlone {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;
    type Release = ReadModifyWrite;

    const WAITS: bool = true;
    const KICKS_BY_ADDRESS: bool = true;

    fn nap(_: u64) {
        panic!("a nap");
    }
    fn cpu() -> Option<Cpu> {
        panic!("a number");
    }
    fn slot(_: Cpu) -> &'static Slot<AtomicU32> {
        panic!("a slot");
    }
    fn waiters() -> &'static [Bucket<AtomicU32>] {
        panic!("the table of waiters");
    }
    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        Threads::wait(word, expected, deadline_ns);
    }
    fn kick(_: *const AtomicU32, _: Cpu) {
        panic!("a kick by number");
    }
    fn kick_any_of(word: *const AtomicU32, _: u32) -> bool {
        Threads::kick_any(word)
    }
    fn kick_every_of(word: *const AtomicU32, _: u32) -> bool {
        Threads::kick_every(word)
    }
    fn now_ns() -> u64 {
        Threads::now_ns()
    }
}
