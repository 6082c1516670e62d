//! Read-write locks and shared refreshes, on CPUs in place of threads.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use overlock::refresh::Refresh;
use overlock::{RawLock as _, RawRwLock};

use super::checks::{steps, tell};
use super::locks::Counted;
use crate::cpus;
use crate::kernel::{Kernel, everywhere};
use crate::plan::CommandLine;

/// Two numbers that are the same unless a writer is changing them.
struct Pair(UnsafeCell<[u64; 2]>);

// SAFETY: holders of the lock under test touch it; where the suite breaks that on purpose, a race
// on an aligned u64 tears nothing here, and the accesses are volatile.
unsafe impl Sync for Pair {}

static PAIR: Pair = Pair(UnsafeCell::new([0; 2]));
static EACH: AtomicU64 = AtomicU64::new(0);
/// Whether a reader has seen half of a change.
static HALF: AtomicBool = AtomicBool::new(false);
/// Whether writers take the lock for reading, by a fault that must be found.
static FAULTY: AtomicBool = AtomicBool::new(false);

/// Room for the objects: a `static` can't have the kernel's platform as a parameter.
static LOCK: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
static SHARED: [AtomicU32; 9] = [const { AtomicU32::new(0) }; 9];

type Lock<K> = RawRwLock<<K as Kernel>::Aware, Counted>;
type Shared<K> = Refresh<u64, <K as Kernel>::Aware>;

fn lock<K: Kernel>() -> &'static Lock<K> {
    const { assert!(size_of::<Lock<K>>() <= size_of_val(&LOCK) && align_of::<Lock<K>>() <= 4) };
    // SAFETY: zeros are an unlocked lock, in room for it that nothing else uses.
    unsafe { &*(&raw const LOCK).cast() }
}

fn shared<K: Kernel>() -> &'static Shared<K> {
    const { assert!(size_of::<Shared<K>>() <= size_of_val(&SHARED)) };
    const { assert!(align_of::<Shared<K>>() <= 4) };
    // SAFETY: zeros are what a refresh of zero has left, in room for it that nothing else uses.
    unsafe { &*(&raw const SHARED).cast() }
}

fn one_of(which: usize) -> *mut u64 {
    // SAFETY: below two.
    unsafe { PAIR.0.get().cast::<u64>().add(which) }
}

fn write<K: Kernel>() {
    let is_faulty = FAULTY.load(Relaxed);
    if is_faulty {
        lock::<K>().lock_shared()
    } else {
        lock::<K>().lock()
    }
    for which in 0..2 {
        // SAFETY: a valid pointer; see `Sync` for the race of a faulty writer.
        unsafe { one_of(which).write_volatile(one_of(which).read_volatile() + 1) };
        core::hint::spin_loop();
    }
    // SAFETY: taken above, in this way.
    unsafe { if is_faulty { lock::<K>().unlock_shared() } else { lock::<K>().unlock() } };
}

fn read<K: Kernel>() {
    lock::<K>().lock_shared();
    // SAFETY: valid pointers; see `Sync` for the race with a faulty writer.
    let [one, other] = [0, 1].map(|which| unsafe { one_of(which).read_volatile() });
    if one != other {
        HALF.store(true, Relaxed);
    }
    // SAFETY: taken above.
    unsafe { lock::<K>().unlock_shared() };
}

/// CPUs that write every fourth time lose no update, and no reader sees half of one.
fn excludes<K: Kernel>() -> bool {
    HALF.store(false, Relaxed);
    // SAFETY: no other CPU runs.
    unsafe { *PAIR.0.get() = [0; 2] };
    everywhere::<K>(|cpu| {
        for round in steps(cpu, EACH.load(Relaxed)) {
            if round % 4 == 0 { write::<K>() } else { read::<K>() }
        }
    });
    let writes = EACH.load(Relaxed).div_ceil(4) * cpus::started() as u64;
    // SAFETY: all are done.
    let pair = unsafe { *PAIR.0.get() };
    pair == [writes; 2] && !HALF.load(Relaxed)
}

/// What another CPU could do: read (1), write (2).
static COULD: AtomicU32 = AtomicU32::new(0);

/// Lets another CPU try to read and to write; this one, if there is no other.
fn elsewhere<K: Kernel>() -> u32 {
    COULD.store(0, Relaxed);
    everywhere::<K>(|cpu| {
        if cpu == 1 || cpus::started() == 1 {
            if lock::<K>().try_lock_shared() {
                COULD.fetch_or(1, Relaxed);
                // SAFETY: just taken.
                unsafe { lock::<K>().unlock_shared() };
            }
            if lock::<K>().try_lock() {
                COULD.fetch_or(2, Relaxed);
                // SAFETY: just taken.
                unsafe { lock::<K>().unlock() };
            }
        }
    });
    COULD.load(Relaxed)
}

/// Readers share the lock, a writer does not.
fn shares<K: Kernel>() -> bool {
    let free = elsewhere::<K>();
    lock::<K>().lock_shared();
    let read = elsewhere::<K>();
    // SAFETY: taken above.
    unsafe { lock::<K>().unlock_shared() };
    lock::<K>().lock();
    let written = elsewhere::<K>();
    // SAFETY: taken above.
    unsafe { lock::<K>().unlock() };
    [free, read, written] == [3, 1, 0]
}

/// What is refreshed: a number that grows with every computation.
static SOURCE: AtomicU64 = AtomicU64::new(0);
/// How many CPUs compute.
static COMPUTING: AtomicU32 = AtomicU32::new(0);
/// Whether two computed at once, or a result was older than its question.
static WRONG: AtomicBool = AtomicBool::new(false);

fn compute() -> u64 {
    if COMPUTING.fetch_add(1, Relaxed) != 0 {
        WRONG.store(true, Relaxed);
    }
    let value = SOURCE.fetch_add(1, Relaxed) + 1;
    COMPUTING.fetch_sub(1, Relaxed);
    value
}

/// Each CPU that asks for a fresh value gets one that was computed after it has asked, by one CPU
/// at a time, and values never go back. With the fault, it asks for the last value.
fn refreshes<K: Kernel>() -> bool {
    WRONG.store(false, Relaxed);
    everywhere::<K>(|cpu| {
        let mut newest = 0;
        for _ in steps(cpu, EACH.load(Relaxed)) {
            let before = SOURCE.load(Relaxed);
            let joined = shared::<K>().join(compute);
            let before_fresh = SOURCE.load(Relaxed);
            let is_faulty = FAULTY.load(Relaxed);
            let fresh = if is_faulty { shared::<K>().last() } else { shared::<K>().fresh(compute) };
            if joined < newest || joined < before || fresh < joined || fresh <= before_fresh {
                WRONG.store(true, Relaxed);
            }
            newest = fresh;
        }
    });
    !WRONG.load(Relaxed)
}

/// Checks both. Returns whether they are sound, and faults are found.
pub(super) fn check<K: Kernel>(plan: CommandLine<'_>) -> bool {
    EACH.store(plan.number("ops", 16_000) / cpus::started() as u64, Relaxed);
    let mut fine = tell("conformance: readers share a read-write lock", shares::<K>(), "");
    fine &= tell("conformance: a writer excludes readers and writers", excludes::<K>(), "");
    fine &= tell("conformance: a fresh value is fresh", refreshes::<K>(), "");
    FAULTY.store(true, Relaxed);
    fine &= tell("conformance: a stale value is found", !refreshes::<K>(), "");
    if cpus::started() > 1 {
        // Long enough for two CPUs to run at the same time, on however few processors.
        EACH.store(20_000, Relaxed);
        let found = (0..250).any(|_| !excludes::<K>());
        fine &= tell("conformance: writers that only read are found", found, "");
    }
    FAULTY.store(false, Relaxed);
    fine
}
