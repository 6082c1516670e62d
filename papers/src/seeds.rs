//! The locks of S1, S3 and S4 as they were published: what the published figures compare.
//!
//! They are written from the descriptions in the mails, to be measured beside ours, not to be used.
//! Each has a record for each of at most [`CPUS`](common::CPUS) CPUs, where Linux has tables for all locks, and
//! no interrupt takes one while another is waited for.

mod common;
mod queue;
mod ticket;
mod unfair;

pub(crate) use queue::Queue;
pub(crate) use ticket::Ticket;
pub(crate) use unfair::Unfair;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::thread;

    use overlock::platform::{Native, Threads};
    use overlock::{ConstLock, RawLock};

    use super::{Queue, Ticket, Unfair};

    struct Counter<L> {
        lock: L,
        count: AtomicU32,
    }

    const TURNS: u32 = 5_000;

    /// How many of the increments under `L` by more threads than CPUs are left. Each thread gives
    /// its CPU up in some sections, so that waiters halt and others steal.
    fn counted<L: ConstLock + 'static>() -> u32 {
        let counter = Box::new(Counter { lock: L::NEW, count: AtomicU32::new(0) });
        thread::scope(|scope| {
            for number in 0..6 {
                let counter = &*counter;
                scope.spawn(move || {
                    for turn in 0..TURNS {
                        counter.lock.lock();
                        let count = counter.count.load(Relaxed);
                        if (turn + number) % 64 == 0 {
                            thread::yield_now();
                        }
                        counter.count.store(count + 1, Relaxed);
                        // SAFETY: the lock was taken above.
                        unsafe { counter.lock.unlock() };
                    }
                });
            }
        });
        assert!(!counter.lock.is_locked());
        counter.count.load(Relaxed)
    }

    /// A lock that never excludes.
    struct Nothing;

    // SAFETY: none: it is broken on purpose, and only `counted` uses it, whose count it may spoil.
    unsafe impl RawLock for Nothing {
        fn lock(&self) {}
        fn try_lock(&self) -> bool {
            true
        }
        unsafe fn unlock(&self) {}
        fn is_locked(&self) -> bool {
            false
        }
    }

    impl ConstLock for Nothing {
        const NEW: Self = Self;
    }

    #[test]
    fn no_increment_under_a_published_lock_is_lost() {
        let all = 6 * TURNS;
        assert_eq!(counted::<Ticket<Threads>>(), all);
        assert_eq!(counted::<Queue<Threads, false, false>>(), all);
        assert_eq!(counted::<Queue<Threads, false, true>>(), all);
        assert_eq!(counted::<Queue<Threads, true, false>>(), all);
        assert_eq!(counted::<Unfair<Native>>(), all);
        assert!(counted::<Nothing>() < all, "the test would not notice a lock that is none");
    }
}
