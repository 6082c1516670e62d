//! Waiters of the queue locks that give up behind others and come again.

use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use overlock::counters::Event;
use overlock::platform::{Platform, Threads};
use overlock::{ConstLock, Queued, RawLock, RawTimedLock};

use crate::support::oracle::ends_soon;

overlock::lock_class!(Strict);

/// How often the waiter gives up: more often than a thread has nodes.
const TIMES: u64 = 10;

fn unlock(lock: &impl RawLock) {
    // SAFETY: every caller holds the lock.
    unsafe { lock.unlock() };
}

fn wait_until(happened: impl Fn() -> bool) {
    while !happened() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// A thread tries again and again behind the queue head, while the lock is held. It always has a
/// node. Returns whether it was served before a thread that came after it.
fn keeps_its_place<L: ConstLock + RawTimedLock + 'static>(count: fn(Event) -> u64) -> bool {
    let _ends = ends_soon();
    let (lock, served) = (L::NEW, Mutex::new(Vec::new()));
    let (comes, came) = mpsc::channel();
    let waits = |name: &'static str, tries: u64| {
        for _ in 0..tries {
            assert!(!lock.try_lock_until(Threads::now_ns() + 1_000_000), "the lock is held");
        }
        comes.send(count(Event::PvWaitNode)).unwrap();
        lock.lock();
        served.lock().unwrap().push(name);
        unlock(&lock);
    };
    let [halted, gave_up] = [Event::PvWaitHead, Event::LockTimeout].map(count);
    lock.lock();
    thread::scope(|scope| {
        scope.spawn(|| waits("head", 0));
        wait_until(|| count(Event::PvWaitHead) > halted);
        came.recv().unwrap();
        for (name, tries) in [("comes again", TIMES), ("comes last", 0)] {
            let waits = &waits;
            scope.spawn(move || waits(name, tries));
            let before = came.recv().unwrap();
            wait_until(|| count(Event::PvWaitNode) > before || count(Event::LockNoNode) > 0);
            assert_eq!(count(Event::LockNoNode), 0, "the thread has run out of nodes");
        }
        assert_eq!(count(Event::LockTimeout) - gave_up, TIMES);
        unlock(&lock);
    });
    let served = served.into_inner().unwrap();
    assert_eq!(served.len(), 3);
    served == ["head", "comes again", "comes last"]
}

#[test]
fn a_waiter_that_gives_up_and_comes_again_keeps_its_place_and_its_nodes() {
    // A waiter that gets no processor for some milliseconds is passed: the order may be another one
    // on a busy machine, but not each time.
    let mut often = 0..20;
    let strict = |event| Strict::counters().get(event);
    assert!(often.any(|_| keeps_its_place::<Queued<Threads, Strict>>(strict)));
}
