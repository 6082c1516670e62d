//! One suite for every lock: the crate's own conformance suite, on CPUs in place of threads.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use overlock::{ConstLock, RawLock};

use super::checks::{steps, tell};
use super::locks::{NAMES, UseLock, with_lock};
use crate::cpus;
use crate::kernel::{Kernel, everywhere};
use crate::plan::CommandLine;

struct Count(UnsafeCell<u64>);

// SAFETY: only holders of the lock under test touch it; a broken one loses updates, which is what
// the suite looks for. (A race on an aligned u64 tears nothing here; the accesses are volatile.)
unsafe impl Sync for Count {}

static COUNT: Count = Count(UnsafeCell::new(0));
static PLACE: AtomicU32 = AtomicU32::new(0);
static EACH: AtomicU64 = AtomicU64::new(0);

fn lock<L: ConstLock + 'static>() -> &'static L {
    const { assert!(size_of::<L>() <= 4 && align_of::<L>() <= 4) };
    // SAFETY: zeros are an unlocked lock of any kind, and the place is cleared between kinds.
    unsafe { &*(&raw const PLACE).cast() }
}

fn bump() {
    let count = COUNT.0.get();
    // SAFETY: a valid pointer; see `Sync` for the race of a broken subject.
    let seen = unsafe { count.read_volatile() };
    core::hint::spin_loop();
    // SAFETY: as above.
    unsafe { count.write_volatile(seen + 1) };
}

/// CPUs that count together lose no update. Every third time they try first.
fn excludes<K: Kernel, L: ConstLock + 'static>() -> bool {
    // SAFETY: no other CPU runs.
    unsafe { *COUNT.0.get() = 0 };
    everywhere::<K>(|cpu| {
        let lock = lock::<L>();
        for round in steps(cpu, EACH.load(Relaxed)) {
            if round % 3 != 0 || !lock.try_lock() {
                lock.lock();
            }
            bump();
            // SAFETY: just taken.
            unsafe { lock.unlock() };
        }
    });
    // SAFETY: all are done.
    unsafe { *COUNT.0.get() == EACH.load(Relaxed) * cpus::started() as u64 }
}

static TOOK: AtomicBool = AtomicBool::new(false);

/// Whether another CPU can take the lock now; this one, if there is no other.
fn elsewhere<K: Kernel, L: ConstLock + 'static>() -> bool {
    TOOK.store(false, Relaxed);
    everywhere::<K>(|cpu| {
        if cpu == 1 || cpus::started() == 1 {
            let took = lock::<L>().try_lock();
            TOOK.store(took, Relaxed);
            if took {
                // SAFETY: just taken.
                unsafe { lock::<L>().unlock() };
            }
        }
    });
    TOOK.load(Relaxed)
}

/// `try_lock` tells the truth.
fn tries_truly<K: Kernel, L: ConstLock + 'static>() -> bool {
    let lock = lock::<L>();
    let free = (0..1000).all(|_| {
        let took = lock.try_lock();
        if took {
            // SAFETY: just taken.
            unsafe { lock.unlock() };
        }
        took
    });
    lock.lock();
    let held = elsewhere::<K, L>();
    // SAFETY: taken above.
    unsafe { lock.unlock() };
    free && !held && elsewhere::<K, L>()
}

struct Ask<'a, K>(&'a str, PhantomData<K>);

impl<K: Kernel> UseLock for Ask<'_, K> {
    type Output = bool;

    fn with<L: ConstLock + 'static>(self) -> bool {
        PLACE.store(0, SeqCst);
        let name = self.0;
        let mut fine = tell(
            format_args!("conformance: {name} tells the truth in try_lock"),
            tries_truly::<K, L>(),
            "",
        );
        fine &= tell(format_args!("conformance: {name} excludes"), excludes::<K, L>(), "");
        fine & tell(format_args!("conformance: {name} ends as it began"), is_as_new(), "")
    }
}

/// Whether the lock's word says that it is free and has no waiters. (A ticket lock's has counted.)
fn is_as_new() -> bool {
    let word = PLACE.load(SeqCst);
    word & 0xffff == word >> 16 || word & 0xff == 0
}

/// A lock that excludes no CPU, which the suite must find.
struct NoLock(#[allow(dead_code, reason = "as large as a lock")] AtomicU32);

// SAFETY: none: it is wrong on purpose, and protects nothing that matters.
unsafe impl RawLock for NoLock {
    fn lock(&self) {}
    fn try_lock(&self) -> bool {
        true
    }
    unsafe fn unlock(&self) {}
    fn is_locked(&self) -> bool {
        false
    }
}

impl ConstLock for NoLock {
    const NEW: Self = Self(AtomicU32::new(0));
}

/// Checks all locks. Returns whether all are sound, and the one that excludes no CPU is found.
pub(super) fn check<K: Kernel>(plan: CommandLine<'_>) -> bool {
    EACH.store(plan.number("ops", 16_000) / cpus::started() as u64, Relaxed);
    let mut fine = true;
    for name in plan.list("locks", NAMES) {
        fine &= with_lock::<K, _>(name, Ask::<K>(name, PhantomData));
    }
    if cpus::started() > 1 {
        // Long enough for two CPUs to run at the same time, on however few processors.
        EACH.store(20_000, Relaxed);
        let found = (0..250).any(|_| !excludes::<K, NoLock>()) && !tries_truly::<K, NoLock>();
        fine &= tell("conformance: a lock that excludes no CPU is found", found, "");
    }
    fine
}
