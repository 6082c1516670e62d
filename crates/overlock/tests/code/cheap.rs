// The rest of the examples of `CheapRelease::EXISTS`: a platform of one CPU that says that it has
// cheap releases. `WAITS` is what they begin with.
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use overlock::platform::{CheapRelease, Platform, Bucket, Cpu, Slot};
use overlock::{Hybrid, RawLock, Ticket};

struct Cheap;

// SAFETY: the defaults; no operation stores in two steps.
unsafe impl CheapRelease<AtomicU32, AtomicU16> for Cheap {
    const EXISTS: bool = true;
}

struct Mine;

static SLOT: Slot<AtomicU32> = Slot::new();
static BUCKETS: [Bucket<AtomicU32>; 1] = [Bucket::new()];

// SAFETY: the cells and the fence are those of `core`, and the only CPU never waits.
unsafe impl Platform for Mine {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;
    type Release = Cheap;

    const WAITS: bool = WAITS;

    fn relax() {}
    fn cpu() -> Option<Cpu> {
        Cpu::new(0)
    }
    fn slot(_: Cpu) -> &'static Slot<AtomicU32> {
        &SLOT
    }
    fn waiters() -> &'static [Bucket<AtomicU32>] {
        &BUCKETS
    }
    fn wait(_: &AtomicU32, _: u32, _: Option<u64>) {}
    fn kick(_: *const AtomicU32, _: Cpu) {}
    fn now_ns() -> u64 {
        0
    }
}

fn pair(lock: &impl RawLock) {
    lock.lock();
    // SAFETY: the line above took the lock.
    unsafe { lock.unlock() };
    assert!(!lock.is_locked());
}
