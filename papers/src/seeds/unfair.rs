//! S4's unfair lock: what a guest of KVM uses without paravirtual locks.
//!
//! A waiter spins until it sees the lock free, and then tries to take it; it never halts.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use overlock::atomic::{Atomic, ConstAtomic};
use overlock::platform::Platform;
use overlock::{ConstLock, RawLock};

pub(crate) struct Unfair<P: Platform> {
    taken: P::Word,
}

impl<P: Platform<Word: ConstAtomic<u32>>> ConstLock for Unfair<P> {
    const NEW: Self = Self { taken: P::Word::ZERO };
}

// SAFETY: one compare-exchange takes the word from 0 to 1, and only the holder takes it back.
unsafe impl<P: Platform> RawLock for Unfair<P> {
    fn lock(&self) {
        while !self.try_lock() {
            while self.is_locked() {
                P::relax();
            }
        }
    }

    fn try_lock(&self) -> bool {
        // ORDERING: Acquire, with the Release of `unlock`.
        self.taken.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    unsafe fn unlock(&self) {
        // ORDERING: Release, with the Acquire of `try_lock`.
        self.taken.store(0, Release);
    }

    fn is_locked(&self) -> bool {
        self.taken.load(Relaxed) != 0
    }
}
