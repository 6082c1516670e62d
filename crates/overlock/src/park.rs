//! Halting on a word that any number of CPUs may wait for: what [`TestAndSet`](crate::TestAndSet),
//! [`Refresh`](crate::Refresh) and [`RawRwLock`](crate::RawRwLock) do once their spin budget is
//! spent.
//!
//! Where the platform finds waiters by address, a CPU halts on the word itself. Elsewhere it halts
//! on a word of its own slot and leaves its name in the table of waiters.
//!
//! The caller's `mark` records in the word that a CPU is about to halt. It does so by an RMW with
//! at least `Release` order, and only after it has seen that there is something to wait for. The
//! CPU that ends the wait changes the word by an RMW, sees the mark, and calls [`unpark_one`] or
//! [`unpark_all`]. Both are RMWs of one word, so one comes first. If it is the end, `mark` sees it.
//! If it is `mark`, the end sees the mark: the table entry was written before it (`Release`) and is
//! found (the `Acquire` fence here), and a kick that precedes the halt is not lost (P3).
//!
//! # Limits
//!
//! Where waiters are not found by address, two words may share bucket and tag, but hardly ever the
//! tag in the state of a node, too: those are 32 bits beside the bucket's. If they do,
//! [`unpark_one`] may kick a waiter of the other word, and its own word's waiter sleeps until
//! another CPU marks that word. `Threads` and `Shared` find waiters by address.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::entered::Entered;
use crate::platform::Platform;
use crate::slot::NodeState;
use crate::waiters::{self, Key, NAP_NS};

/// One of several classes of waiters for one word, which are kicked apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Class(u32);

impl Class {
    /// The class of the waiters of a word that has only one.
    pub(crate) const ONLY: Self = Self(u32::MAX);

    /// Class number `index`, of at most four.
    pub(crate) const fn new(index: u8) -> Self {
        assert!(index < 4, "there are four classes");
        Self(1 << index)
    }

    /// The key of such waiters for a word of four bytes: for each class, that of another byte.
    fn key<W>(self, word: *const W) -> Key {
        Key::new(word.wrapping_byte_add(self.0.trailing_zeros() as usize % 4), 0)
    }
}

/// The state of a node whose CPU has halted for `key`.
fn halted(key: Key) -> NodeState {
    NodeState::parked(key.second_tag())
}

/// Halts once for `word`, as one of a class of waiters, unless `mark` returns `None`, which means
/// that there is nothing to wait for. Otherwise `mark` has made the halt visible and returns the
/// new value of the word. Returns whether the CPU halted; it may have woken up spuriously.
pub(crate) fn park<P: Platform>(
    word: &P::Word,
    class: Class,
    deadline_ns: Option<u64>,
    mark: impl FnOnce() -> Option<u32>,
) -> bool {
    if P::KICKS_BY_ADDRESS {
        let Some(expected) = mark() else { return false };
        P::wait_as(word, expected, deadline_ns, class.0);
        return true;
    }
    let key = class.key(&raw const *word);
    let entered = Entered::<P>::new();
    let kickable = entered.as_ref().filter(|entered| waiters::insert::<P>(key, entered.id()));
    if let Some(entered) = kickable {
        entered.node().state.store(halted(key), Relaxed);
    }
    let halts = mark().is_some();
    match kickable {
        Some(entered) if halts => entered.node().state.wait::<P>(halted(key), deadline_ns),
        None if halts => P::nap(NAP_NS),
        _ => {}
    }
    if let Some(entered) = kickable {
        waiters::remove::<P>(key, entered.id());
    }
    halts
}

/// Kicks one CPU of a class that halted for `word`. Only the address is used: the word's memory may
/// be gone. Returns whether there was one, which then looks at the word before it halts again;
/// false where that is unknown.
pub(crate) fn unpark_one<P: Platform>(word: *const P::Word, class: Class) -> bool {
    if P::KICKS_BY_ADDRESS {
        return P::kick_any_of(word, class.0);
    }
    kick_halted::<P>(word, class).next().is_some()
}

/// Kicks all CPUs of a class that halted for `word`, and returns whether there was one, as
/// [`unpark_one`].
pub(crate) fn unpark_all<P: Platform>(word: *const P::Word, class: Class) -> bool {
    if P::KICKS_BY_ADDRESS {
        return P::kick_every_of(word, class.0);
    }
    kick_halted::<P>(word, class).count() > 0
}

/// Kicks the CPUs of a class that have halted for `word`, one per iterator step.
fn kick_halted<P: Platform>(word: *const P::Word, class: Class) -> impl Iterator<Item = ()> {
    // ORDERING: Acquire, with the Release of the waiter's mark, which the caller has seen.
    P::fence(Acquire);
    let key = class.key(word);
    waiters::find::<P>(key).filter_map(move |waiter| {
        let state = &waiter.node::<P>().state;
        state.compare_exchange(halted(key), NodeState::UNPARKED, Relaxed).ok()?;
        state.kick::<P>(waiter.cpu());
        Some(())
    })
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    use core::ptr;
    use core::sync::atomic::AtomicU32;

    use super::*;
    use crate::one_cpu::one_cpu;

    one_cpu!(Alone, NOW_NS, || {});

    /// The waiter of another word comes first in the bucket, with the same tag.
    #[test]
    fn a_stranger_is_not_kicked_in_place_of_the_words_own_waiter() {
        let word = |index: usize| ptr::without_provenance::<AtomicU32>(4 * index);
        let key = |index| Key::new(word(index), 0);
        let [ours, other] = [1, 2].map(|_| Entered::<Alone>::new().expect("a CPU has four nodes"));
        let shares = |index: &usize| waiters::insert::<Alone>(key(*index), other.id());
        // Those entered for the other word are found for ours.
        let stranger = (2..1 << 22).find(|index| {
            assert!(shares(index));
            let is_found = waiters::find::<Alone>(key(1)).next().is_some();
            if !is_found {
                waiters::remove::<Alone>(key(*index), other.id());
            }
            is_found
        });
        let stranger = stranger.expect("some word shares bucket and tag");
        assert!(waiters::insert::<Alone>(key(1), ours.id()));
        other.node().state.store(halted(key(stranger)), Relaxed);
        ours.node().state.store(halted(key(1)), Relaxed);
        unpark_one::<Alone>(word(1), Class::ONLY);
        assert_eq!(ours.node().state.load(Relaxed), NodeState::UNPARKED);
        assert_eq!(other.node().state.load(Relaxed), halted(key(stranger)));
    }
}
