//! Locks in interrupts (F5 to F8, F22): the same kinds of locks are taken by tasks, by handlers of
//! the timer, and by handlers of non-maskable interrupts.
//!
//! | lock | taken by | rule |
//! |---|---|---|
//! | `task` | tasks, with interrupts on; non-maskable interrupts try it | an NMI only ever *tries* a lock that others take (F22): its own CPU may hold it, or wait for it |
//! | `shared` | tasks with interrupts off, and ticks | a lock that handlers take is held with interrupts off |
//! | `nmi` | non-maskable interrupts | they may wait for each other; a wait returns at once (F8), so they spin |
//!
//! Each lock protects a count that is compared with how often it was taken.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use overlock::ConstLock;

use super::checks::{Alive, begin, tell};
use super::locks::{UseLock, with_lock};
use crate::cpus;
use crate::kernel::{Kernel, everywhere};
use crate::machine::{apic, clock, interrupts, io};
use crate::plan::CommandLine;

/// A lock, what it protects, and how often it was taken.
#[repr(align(128))]
struct Guarded {
    lock: AtomicU32,
    count: UnsafeCell<u64>,
    taken: AtomicU64,
}

// SAFETY: the count is touched by holders of the lock only, and when all are done.
unsafe impl Sync for Guarded {}

impl Guarded {
    const fn new() -> Self {
        Self { lock: AtomicU32::new(0), count: UnsafeCell::new(0), taken: AtomicU64::new(0) }
    }

    fn lock<L: ConstLock + 'static>(&self) -> &L {
        const { assert!(size_of::<L>() <= 4 && align_of::<L>() <= 4) };
        // SAFETY: zeros are an unlocked lock of any kind; cleared between kinds.
        unsafe { &*(&raw const self.lock).cast() }
    }

    /// What a holder does: counts, and releases.
    fn count_and_unlock<L: ConstLock + 'static>(&self) {
        // SAFETY: the caller holds the lock.
        unsafe {
            let count = self.count.get();
            count.write_volatile(count.read_volatile() + 1);
            self.lock::<L>().unlock();
        }
        self.taken.fetch_add(1, Relaxed);
    }

    fn clear(&self) {
        self.lock.store(0, SeqCst);
        self.taken.store(0, SeqCst);
        // SAFETY: no other CPU runs.
        unsafe { *self.count.get() = 0 };
    }

    fn is_whole(&self) -> bool {
        // SAFETY: all are done.
        unsafe { *self.count.get() == self.taken.load(SeqCst) }
    }
}

static TASK: Guarded = Guarded::new();
static SHARED: Guarded = Guarded::new();
static NMI: Guarded = Guarded::new();
static ENOUGH: AtomicU64 = AtomicU64::new(0);
/// Ticks in which a lock was taken, and how many are enough.
static TICKS: AtomicU64 = AtomicU64::new(0);
static ENOUGH_TICKS: AtomicU64 = AtomicU64::new(0);
static TICK_US: AtomicU32 = AtomicU32::new(0);

fn in_tick<L: ConstLock + 'static>() {
    TICKS.fetch_add(1, Relaxed);
    SHARED.lock::<L>().lock();
    SHARED.count_and_unlock::<L>();
}

fn in_nmi<L: ConstLock + 'static>() {
    if TASK.lock::<L>().try_lock() {
        TASK.count_and_unlock::<L>();
    }
    NMI.lock::<L>().lock();
    NMI.count_and_unlock::<L>();
}

/// Each CPU's loop, until the locks have been taken often enough.
fn task<K: Kernel, L: ConstLock + 'static>(cpu: usize) {
    K::tick_every_us(Some(TICK_US.load(Relaxed)));
    let mut turn = cpu as u64;
    let mut alive = Alive::begin();
    while TASK.taken.load(Relaxed) < ENOUGH.load(Relaxed)
        || TICKS.load(Relaxed) < ENOUGH_TICKS.load(Relaxed)
    {
        turn += 1;
        if cpu == 0 {
            alive.at(TASK.taken.load(Relaxed));
        }
        TASK.lock::<L>().lock();
        TASK.count_and_unlock::<L>();
        if turn.is_multiple_of(4) {
            io::without_interrupts(|| {
                SHARED.lock::<L>().lock();
                SHARED.count_and_unlock::<L>();
            });
        }
        if turn.is_multiple_of(64) {
            let other = cpus::of((cpu + turn as usize) % cpus::started());
            apic::interrupt_for_sure(other.apic.load(Relaxed));
        }
    }
    K::tick_every_us(None);
    // An interrupt that is still on its way comes in before the counts are compared.
    clock::spin_ns(2_000_000);
}

struct Nest<K>(PhantomData<K>);

impl<K: Kernel> UseLock for Nest<K> {
    type Output = bool;

    fn with<L: ConstLock + 'static>(self) -> bool {
        for guarded in [&TASK, &SHARED, &NMI] {
            guarded.clear();
        }
        TICKS.store(0, SeqCst);
        interrupts::on_tick(Some(in_tick::<L>));
        interrupts::on_nmi(Some(in_nmi::<L>));
        everywhere::<K>(task::<K, L>);
        interrupts::on_tick(None);
        interrupts::on_nmi(None);
        [&TASK, &SHARED, &NMI].into_iter().all(Guarded::is_whole)
    }
}

/// Runs every lock. Returns whether no count was lost.
pub(super) fn check<K: Kernel>(plan: CommandLine<'_>) -> bool {
    ENOUGH.store(plan.number("ops", 20_000), Relaxed);
    ENOUGH_TICKS.store(plan.number("ticks", 200), Relaxed);
    TICK_US.store(plan.number("tick", 1_000) as u32, Relaxed);
    let mut fine = true;
    for name in plan.list("locks", super::locks::NAMES) {
        begin(format_args!("nesting: {name} in interrupts"));
        let whole = with_lock::<K, _>(name, Nest::<K>(PhantomData));
        let [task, shared, nmi] = [&TASK, &SHARED, &NMI].map(|guarded| guarded.taken.load(SeqCst));
        let ticks = TICKS.load(SeqCst);
        let found = format_args!(
            "{task} by tasks, {shared} shared with ticks ({ticks} in them), {nmi} in NMIs"
        );
        fine &= tell(format_args!("nesting: {name} in interrupts"), whole, found);
    }
    fine
}
