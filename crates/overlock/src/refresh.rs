//! `Refresh`: a shared value that is costly to compute. A CPU that finds a computation under way
//! shares its result instead of repeating it (S5).
//!
//! Thirty-two vCPUs that ask for the time at once need one reading of the clock, not thirty-two in
//! turn. So the first to ask refreshes the value; the others wait for that refresh and share its
//! result. Whether such a result is good enough depends on *when* it was computed, and callers
//! differ in what they need:
//!
//! | call | waits for | freshness of the result |
//! |---|---|---|
//! | [`join`](Refresh::join) (S5's rule) | the refresh under way, if any | computed by a refresh that had not ended when the call began; that refresh may have read its source before the call, but by no more than the length of one refresh |
//! | [`fresh`](Refresh::fresh) | the refresh under way, and the next | computed by a refresh that began after the call |
//! | [`last`](Refresh::last) | no refresh | computed by the last refresh that had ended when the call began, however long ago, or by a later one |
//!
//! Computations run one at a time, and each sees what the one before it did. A caller that gets a
//! result sees what its computation did. "When the call began" is defined by what the caller can
//! know: a call publishes nothing to the computation that another CPU runs on its behalf. A caller
//! that writes something and then asks for a `fresh` value may get one that was computed without
//! that write (store buffering). For a clock, the effect is bounded by the time a store takes to
//! become visible.
//!
//! In S5's hypervisor a refresh takes 100 ns and its CPU is not taken away. Where the CPU can be
//! taken away, every `join` waits until it is back; readers that must not wait call `last`.
//!
//! # State
//!
//! One word, and two copies of the value:
//!
//! ```text
//!  31                            2         1         0
//! +--------------------------------+---------+--------+
//! |     refreshes ended (n)        | WAITERS |  BUSY  |        value[n % 2] is the result of refresh n
//! +--------------------------------+---------+--------+
//!
//!   (n,0,0) -> (n,0,1)    a refresh begins, into value[(n+1) % 2]
//!   (n,w,1) -> (n,1,1)    a waiter is about to halt until the refresh ends
//!   (n,w,1) -> (n+1,0,0)  the refresh ends, and wakes the waiters that halted
//! ```
//!
//! # Invariants
//!
//! * I1: only the CPU that set `BUSY` writes a copy, and never the one that `n` names.
//! * I2: a reader of copy `n % 2` that afterwards finds refresh `n + 1` ended and another one
//!   begun, or a later state, discards what it read and retries. (Two refreshes have gone by, so
//!   the system made progress.)
//! * I3: a waiter that halts has set `WAITERS` while `BUSY` was set; the end of that refresh wakes
//!   all waiters.
//!
//! # Orderings
//!
//! | site | operation | order | pairs with |
//! |---|---|---|---|
//! | O1 | the swap that ends a refresh | Release | O2: the copy is written before it is named |
//! | O2 | word load before reading a copy | Acquire | O1 |
//! | O3 | fence between `BUSY` and the first write of a copy | Release | O4: a CPU that reads any of these writes then sees `BUSY` |
//! | O4 | fence between reading a copy and the second load of the word | Acquire | O3 |
//! | O5 | the CAS to `BUSY` | Acquire | O1: refreshes follow one another, and so do the writes of a copy |
//! | O6 | the CAS to `WAITERS` | Release | O7: the waiter's entry is visible to the CPU that wakes it |
//! | O7 | fence after the end of a refresh that saw `WAITERS` | Acquire | O6 |
//!
//! # Sources
//!
//! X. Song et al., "x86/hvm/pmtimer: improving scalability of virtual time update" (S5; Xen 4.1,
//! commit 9e81df9a42). The two copies: M. Desnoyers, "latch" sequence counters (Linux kernel/time,
//! `raw_write_seqcount_latch`).

use core::marker::PhantomData;
use core::mem;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::atomic::{Atomic, ConstAtomic};
use crate::park;
use crate::platform::Platform;
use crate::spin::Spin;

const BUSY: u32 = 1;
const WAITERS: u32 = 2;
const ENDED: u32 = 4;

/// How long a caller spins for the end of a refresh before it halts: about half the cost of a halt
/// and a wake-up.
const SPIN_NS: u64 = 2_000;
/// How many 32-bit words a value can have.
const WORDS: usize = 4;

/// A value that fits in 128 bits, and so can be copied word by word.
pub trait Value: Copy {
    /// The value as words.
    fn to_words(self) -> [u32; WORDS];
    /// Rebuilds the value from its words.
    fn from_words(words: [u32; WORDS]) -> Self;
}

impl Value for u128 {
    fn to_words(self) -> [u32; WORDS] {
        [self as u32, (self >> 32) as u32, (self >> 64) as u32, (self >> 96) as u32]
    }
    fn from_words(words: [u32; WORDS]) -> Self {
        words.iter().rev().fold(0, |value, word| value << 32 | Self::from(*word))
    }
}

macro_rules! values {
    ($($int:ty),*) => {$(
        impl Value for $int {
            fn to_words(self) -> [u32; WORDS] {
                (self as u128).to_words()
            }
            fn from_words(words: [u32; WORDS]) -> Self {
                u128::from_words(words) as Self
            }
        }
    )*};
}

values!(u32, i32, u64, i64, usize, isize);

/// A shared value with one refresh at a time. See the [module documentation](self).
#[derive(Debug)]
pub struct Refresh<T: Value, P: Platform> {
    word: P::Word,
    copies: [[P::Word; WORDS]; 2],
    value: PhantomData<T>,
}

impl<T: Value, P: Platform> Refresh<T, P>
where
    P::Word: ConstAtomic<u32>,
{
    /// A value whose words are all zero, as if a refresh had just produced it.
    pub const fn zeroed() -> Self {
        let copies = [const { [const { P::Word::ZERO }; WORDS] }; 2];
        Self { word: P::Word::ZERO, copies, value: PhantomData }
    }
}

impl<T: Value, P: Platform> Refresh<T, P> {
    /// This value, as if a refresh had just produced it. `cell` makes cells that each hold zero.
    pub fn with(value: T, mut cell: impl FnMut() -> P::Word) -> Self {
        let word = cell();
        let copies = core::array::from_fn(|_| core::array::from_fn(|_| cell()));
        let new = Self { word, copies, value: PhantomData };
        new.write(0, value);
        new
    }

    /// Returns the result of the refresh under way, or runs one with `compute` if there is none:
    /// S5's rule.
    ///
    /// # Panics
    /// If `compute` panics. The value stays as it was, and other CPUs carry on.
    pub fn join(&self, compute: impl FnOnce() -> T) -> T {
        loop {
            let seen = self.word.load(Relaxed);
            if seen & BUSY != 0 {
                if self.wait_for_end(seen) {
                    return self.last();
                }
            } else if let Some(refreshing) = self.begin(seen) {
                return refreshing.end(compute());
            }
        }
    }

    /// Returns the result of a refresh that begins after this call, whether this CPU computes it
    /// with `compute` or another CPU does.
    ///
    /// # Panics
    /// If `compute` panics. The value stays as it was, and other CPUs carry on.
    pub fn fresh(&self, compute: impl FnOnce() -> T) -> T {
        let seen = self.word.load(Relaxed);
        if seen & BUSY != 0 {
            // That refresh began before this call, so its result won't do; but no other can begin
            // before it ends.
            self.wait_for_end(seen);
        }
        self.join(compute)
    }

    /// Returns the result of the last refresh that has ended. Never waits: the call returns even
    /// while another CPU is refreshing, and even if that CPU has been taken away.
    pub fn last(&self) -> T {
        loop {
            // ORDERING: Acquire, O2.
            let seen = self.word.load(Acquire);
            let words = core::array::from_fn(|i| self.copy(seen)[i].load(Relaxed));
            // ORDERING: Acquire, O4.
            P::fence(Acquire);
            let now = self.word.load(Relaxed);
            // The copy is overwritten once the refresh after the next one has begun (I2).
            let since = refreshes(now).wrapping_sub(refreshes(seen)) | (now & BUSY);
            if since < (ENDED | BUSY) {
                return T::from_words(words);
            }
        }
    }

    /// The copy that holds the last result when the state is `word`.
    fn copy(&self, word: u32) -> &[P::Word; WORDS] {
        &self.copies[(word / ENDED % 2) as usize]
    }

    fn write(&self, word: u32, value: T) {
        for (cell, word) in self.copy(word).iter().zip(value.to_words()) {
            cell.store(word, Relaxed);
        }
    }

    /// `(n,0,0) -> (n,0,1)`
    fn begin(&self, seen: u32) -> Option<Refreshing<'_, T, P>> {
        let busy = (seen & !WAITERS) | BUSY;
        // ORDERING: Acquire, O5.
        self.word.compare_exchange(seen, busy, Acquire, Relaxed).ok()?;
        // ORDERING: Release, O3.
        P::fence(Release);
        Some(Refreshing { shared: self, begun: seen })
    }

    /// Waits until the refresh that `seen` saw under way is over. Returns whether it produced a
    /// result.
    fn wait_for_end(&self, seen: u32) -> bool {
        let number = refreshes(seen);
        let under_way = |word: u32| word & BUSY != 0 && refreshes(word) == number;
        let mut spin = Spin::new(P::costs(), SPIN_NS);
        loop {
            let now = self.word.load(Relaxed);
            if !under_way(now) {
                return refreshes(now) != number;
            }
            if !spin.goes_on::<P>() {
                // ORDERING: Release, O6. (n,w,1) -> (n,1,1)
                let mark = || {
                    let mark = self.word.compare_exchange(now, now | WAITERS, Release, Relaxed);
                    mark.is_ok().then_some(now | WAITERS)
                };
                park::park::<P>(&self.word, park::Class::ONLY, None, mark);
            }
        }
    }
}

/// How many refreshes have ended when the state is `word`, times [`ENDED`].
const fn refreshes(word: u32) -> u32 {
    word & !(BUSY | WAITERS)
}

/// A refresh that this CPU is running. Dropping it ends the refresh without a result.
struct Refreshing<'a, T: Value, P: Platform> {
    shared: &'a Refresh<T, P>,
    begun: u32,
}

impl<T: Value, P: Platform> Refreshing<'_, T, P> {
    /// Ends the refresh with this result.
    fn end(self, value: T) -> T {
        let ended = self.begun.wrapping_add(ENDED);
        self.shared.write(ended, value);
        self.leave(ended);
        mem::forget(self);
        value
    }

    /// `(n,w,1) -> (n or n+1,0,0)`
    fn leave(&self, word: u32) {
        // ORDERING: Release, O1.
        if self.shared.word.swap(word, Release) & WAITERS != 0 {
            // The O7 fence is in `unpark_all`.
            park::unpark_all::<P>(&raw const self.shared.word, park::Class::ONLY);
        }
    }
}

impl<T: Value, P: Platform> Drop for Refreshing<'_, T, P> {
    fn drop(&mut self) {
        self.leave(self.begun);
    }
}
