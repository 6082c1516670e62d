//! Faulty locks, one for each oracle: a check that has never failed proves nothing.
//!
//! Each is a small lock of two words, the lock word and the number of sleepers, with one mistake
//! that has been made before in practice.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

use overlock::atomic::{Atomic, ConstAtomic};
use overlock::platform::{Bucket, Platform};
use overlock::{ConstLock, RawLock, RawTimedLock};

use crate::Property;
use crate::torture::kind::{Layout, Promise, Survives};
use crate::torture::lock_model::{LOCKED, NO_STEALING, STEALS, TAIL_SHIFT};
use crate::torture::machine::calls::{self, Word};
use crate::torture::platform::{ByAddress, Inject};
use crate::torture::subject::{self, Fair, HYBRID, Subject, UNFAIR};

type Here = Inject<ByAddress>;

/// The promise of a lock of which only mutual exclusion is expected.
const BARE: Promise = Promise { layout: Layout::Opaque, survives: Survives::Nobody, ..UNFAIR };
const FIFO: Promise = Promise { layout: Layout::Queue, in_order: true, ..BARE };
const BOUNDED: Promise = Promise { layout: Layout::Queue, max_bypass: HYBRID.max_bypass, ..BARE };
const STRICT: Promise = Promise { layout: Layout::Queue, passes_awake: Some(0), ..BARE };
const DISABLING: Promise = Promise { layout: Layout::Queue, disables_stealing: true, ..BARE };

pub(super) static SUBJECTS: &[Subject] = &[
    known_bad::<Noop>("broken-noop", &[Property::Exclusion], BARE),
    known_bad::<LostWakeup>("broken-lost-wakeup", &[Property::LostWakeup], BARE),
    known_bad::<Handshake>("broken-handshake", &[Property::Progress], UNFAIR),
    known_bad::<Barging>("broken-unfair-fifo", &[Property::Order], FIFO),
    known_bad::<Starving>("broken-bypass", &[Property::Bypass], BOUNDED),
    known_bad::<Starving>("broken-strict-order", &[Property::Bypass], STRICT),
    known_bad::<Unheeded>("broken-declaration", &[Property::Bypass], DISABLING),
    known_bad::<LateLook>("broken-touch-after-release", &[Property::Freed], BARE),
    known_bad::<Stampede<2>>("broken-stampede", &[Property::Kicks], BARE),
    known_bad::<Stampede<3>>("broken-third-kick", &[Property::Kicks], BOUNDED),
    known_bad::<Hasty>("broken-early-timeout", &[Property::Deadline], BARE),
    known_bad::<Deaf>("broken-late-timeout", &[Property::Deadline], BARE),
    known_bad::<Untidy>("broken-residue", &[Property::Residue], UNFAIR),
    known_bad::<Forgetful>("broken-table", &[Property::Residue], UNFAIR),
    known_bad::<Fragile>("broken-panic", &[Property::Panic], BARE),
];

const fn known_bad<M: Mistake>(
    name: &'static str,
    known_bad: &'static [Property],
    promise: Promise,
) -> Subject {
    Subject { known_bad, ..subject::timed::<ByAddress, Broken<M>>(name, promise) }
}

struct Words {
    lock: Word<u32>,
    sleepers: Word<u32>,
}

struct Broken<M: Mistake> {
    words: Words,
    mistake: PhantomData<M>,
}

/// How a lock goes wrong; the default methods are correct.
trait Mistake: Send + Sync + 'static {
    fn lock(words: &Words) {
        while !words.try_take() {
            words.sleep(None);
        }
    }

    fn lock_until(words: &Words, deadline_ns: u64) -> bool {
        while !words.try_take() {
            if Here::now_ns() >= deadline_ns {
                return words.try_take();
            }
            words.sleep(Some(deadline_ns));
        }
        true
    }

    fn unlock(words: &Words) {
        words.release();
        Here::kick_any(&raw const words.lock);
    }
}

impl Words {
    fn try_take(&self) -> bool {
        let seen = self.lock.load(SeqCst);
        seen & LOCKED == 0
            && self.lock.compare_exchange(seen, seen | LOCKED, SeqCst, SeqCst).is_ok()
    }

    fn release(&self) {
        self.lock.fetch_and(!LOCKED, SeqCst);
    }

    /// Halts while the lock is taken.
    fn sleep(&self, deadline_ns: Option<u64>) {
        self.sleepers.fetch_add(1, SeqCst);
        let seen = self.lock.load(SeqCst);
        if seen & LOCKED != 0 {
            Here::wait(&self.lock, seen, deadline_ns);
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }

    /// Enters this CPU as the last in the queue, unless the lock is free. Returns its code.
    fn join(&self, flags: u32) -> Option<u32> {
        let code = Here::cpu().map_or(0x7fff, |cpu| (cpu.index() as u32 + 1) << 2);
        let seen = self.lock.load(SeqCst);
        let new = seen & LOCKED | flags | code << TAIL_SHIFT;
        let joined =
            seen & LOCKED != 0 && self.lock.compare_exchange(seen, new, SeqCst, SeqCst).is_ok();
        joined.then_some(code)
    }

    /// Takes a free lock, and leaves the queue if it ends with `code`.
    fn take_from_queue(&self, code: u32) -> bool {
        let seen = self.lock.load(SeqCst);
        let rest = if seen >> TAIL_SHIFT == code { 0 } else { seen };
        seen & LOCKED == 0
            && self.lock.compare_exchange(seen, rest | LOCKED, SeqCst, SeqCst).is_ok()
    }
}

// SAFETY: this deliberately provides no mutual exclusion. Here only the words of the lock itself
// depend on it.
unsafe impl<M: Mistake> RawLock for Broken<M> {
    fn lock(&self) {
        M::lock(&self.words);
    }
    fn try_lock(&self) -> bool {
        self.words.lock.load(SeqCst) == 0 && self.words.try_take()
    }
    unsafe fn unlock(&self) {
        M::unlock(&self.words);
    }
    fn is_locked(&self) -> bool {
        self.words.lock.load(SeqCst) & LOCKED != 0
    }
}

// SAFETY: as above.
unsafe impl<M: Mistake> RawTimedLock for Broken<M> {
    fn try_lock_until(&self, deadline_ns: u64) -> bool {
        M::lock_until(&self.words, deadline_ns)
    }

    fn now_ns() -> u64 {
        calls::now_ns()
    }
}

impl<M: Mistake> Fair for Broken<M> {}

impl<M: Mistake> ConstLock for Broken<M> {
    const NEW: Self =
        Self { words: Words { lock: Word::ZERO, sleepers: Word::ZERO }, mistake: PhantomData };
}

struct Noop;
impl Mistake for Noop {
    fn lock(_: &Words) {}
    fn lock_until(_: &Words, _: u64) -> bool {
        true
    }
    fn unlock(_: &Words) {}
}

/// Checks for sleepers before it releases: a CPU may fall asleep in between.
struct LostWakeup;
impl Mistake for LostWakeup {
    fn unlock(words: &Words) {
        let anybody = words.sleepers.load(SeqCst) != 0;
        words.release();
        if anybody {
            Here::kick_any(&raw const words.lock);
        }
    }
}

/// Holds the lock while it waits for CPUs that are just arriving and may be away (Linux's queued
/// lock does so for the link of its successor).
struct Handshake;
impl Mistake for Handshake {
    fn lock(words: &Words) {
        words.sleepers.fetch_add(1, SeqCst);
        words.sleepers.fetch_sub(1, SeqCst);
        while !words.try_take() {
            Here::relax();
        }
        while words.sleepers.load(SeqCst) != 0 {
            Here::relax();
        }
    }
}

/// Has a queue, but the first of its waiters to try takes the lock.
struct Barging;
impl Mistake for Barging {
    fn lock(words: &Words) {
        let mut code = None;
        while !words.take_from_queue(code.unwrap_or(0)) {
            code = code.or_else(|| words.join(0));
            Here::relax();
        }
    }
}

/// Lets newcomers pass its one place in the queue without counting them.
struct Starving;
impl Mistake for Starving {
    fn lock(words: &Words) {
        pass_or_join(words, 0);
    }
}

/// Lets newcomers pass a waiter that has disabled stealing.
struct Unheeded;
impl Mistake for Unheeded {
    fn lock(words: &Words) {
        pass_or_join(words, NO_STEALING | STEALS);
    }
}

fn pass_or_join(words: &Words, flags: u32) {
    while !words.try_take() {
        if words.lock.load(SeqCst) >> TAIL_SHIFT != 0 {
            Here::relax();
        } else if let Some(code) = words.join(flags) {
            while !words.take_from_queue(code) {
                Here::nap(2_000);
            }
            return;
        }
    }
}

/// Checks for sleepers after it has released, when the lock may be gone (F4).
struct LateLook;
impl Mistake for LateLook {
    fn unlock(words: &Words) {
        words.release();
        if words.sleepers.load(SeqCst) != 0 {
            Here::kick_any(&raw const words.lock);
        }
    }
}

/// Kicks more CPUs than necessary.
struct Stampede<const KICKS: usize>;
impl<const KICKS: usize> Mistake for Stampede<KICKS> {
    fn unlock(words: &Words) {
        words.release();
        for _ in 0..KICKS {
            Here::kick_any(&raw const words.lock);
        }
    }
}

/// Gives up halfway to the deadline.
struct Hasty;
impl Mistake for Hasty {
    fn lock_until(words: &Words, deadline_ns: u64) -> bool {
        let half = Here::now_ns().midpoint(deadline_ns);
        while !words.try_take() {
            if Here::now_ns() >= half {
                return false;
            }
            Here::relax();
        }
        true
    }
}

struct Deaf;
impl Mistake for Deaf {
    fn lock_until(words: &Words, _: u64) -> bool {
        Self::lock(words);
        true
    }
}

/// Leaves a mark on a free word.
struct Untidy;
impl Mistake for Untidy {
    fn unlock(words: &Words) {
        words.lock.store(NO_STEALING, SeqCst);
        Here::kick_any(&raw const words.lock);
    }
}

/// Leaves an entry in the table of waiters, the last one of the last bucket.
struct Forgetful;
impl Mistake for Forgetful {
    fn unlock(words: &Words) {
        let entries = ptr::from_ref(Here::waiters().last().unwrap()).cast::<Word<u32>>();
        // SAFETY: the bucket begins with this many words, and lives as long as the run.
        let entry = unsafe { &*entries.add(Bucket::<Word<u32>>::ENTRIES - 1) };
        entry.store(1 << 16 | 4, SeqCst);
        words.release();
        Here::kick_any(&raw const words.lock);
    }
}

/// Assumes that it is never contended.
struct Fragile;
impl Mistake for Fragile {
    fn lock(words: &Words) {
        assert!(words.try_take(), "the lock is taken");
    }
}
