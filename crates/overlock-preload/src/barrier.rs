//! `pthread_barrier_t`: a barrier whose threads yield before they sleep, in the place of libc's.
//!
//! # State
//!
//! | byte | glibc | here | |
//! |---|---|---|---|
//! | 0 | `in` | a, s | how many have arrived in this round (31 bits); one of them may sleep (bit 31) |
//! | 4 | `current_round` | r | how many rounds have ended: the futex word, and the upper half of one word with a and s |
//! | 8 | `count` | the same | how many end a round |
//! | 12 | `shared` | the same | processes share it |
//! | 16 | `out` | i | how many threads are inside |
//!
//! libc initialises to zeros except for `count` and `shared`, which is our initial state too, so
//! initialisation stays libc's. Where it does anything else, all barriers are libc's
//! ([`is_known`]). What processes share is libc's too, untouched, and everything is under `none`.
//!
//! # Life of a round
//!
//! ```text
//!   a waiter                              the last to arrive
//!   ────────                              ──────────────────
//!   B1 i += 1                             B1 i += 1
//!   B2 a += 1                             B2 a = 0, s = 0 and r += 1, at once
//!      yields while r is its round           if s was 1: FUTEX_WAKE all
//!   B3 s = 1, if r is its round           B5 i -= 1
//!   B4 FUTEX_WAIT while r is its round
//!   B5 i -= 1
//! ```
//!
//! # Invariants
//!
//! 1. **A round has exactly `count` threads, one of them the last**, however many come: arriving
//!    and ending are one change of one word, and who comes after it belongs to the next round.
//! 2. **No wake-up is lost.** B3 succeeds only before the B2 that ends the round, which then finds
//!    s. The kernel compares r with its list of sleepers locked: either it finds r changed, or the
//!    waiter is in the list before the `FUTEX_WAKE` that follows that B2. A `FUTEX_WAKE` that comes
//!    late wakes threads of the next round in vain, and s is still 1 for them. (A bit that is not
//!    in the word of r would be taken from them by an end that comes late.)
//! 3. **Nothing touches the memory after the last B5**, and `destroy` returns after that. Who has
//!    come back from a round may destroy the barrier at once: B1 of all its threads has happened
//!    before. B4 and the `FUTEX_WAKE` lie before B5.
//!
//! # Orderings
//!
//! | access | order | pairs with |
//! |---|---|---|
//! | B2 of each thread | Release | Acquire of the B2 that ends the round |
//! | B2 that ends the round | Release | Acquire of each look at r |
//! | B5 | Release | Acquire of `destroy` |
//!
//! # Limits
//!
//! * A thread that is stopped in its round for exactly 2³² more sleeps through them.
//! * As under libc: a forked child has the arrivals of its parent's threads, but not the threads;
//!   there, or after a signal handler has left a wait, `destroy` waits for ever.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use libc::{PTHREAD_BARRIER_SERIAL_THREAD, c_int, pthread_barrier_t};

use crate::counters::{self, Event};
use crate::{choice, real};

mod ground;
mod rounds;

use rounds::Rounds;

/// A `pthread_barrier_t`.
#[repr(C)]
struct Barrier {
    state: AtomicU64,
    count: AtomicU32,
    shared: AtomicU32,
    inside: AtomicU32,
}

const _: () = assert!(size_of::<Barrier>() <= size_of::<pthread_barrier_t>());
const _: () = assert!(align_of::<Barrier>() <= align_of::<pthread_barrier_t>());
const _: () = assert!(core::mem::offset_of!(Barrier, inside) == 16);

impl Barrier {
    /// Views the barrier behind a pointer that the program passed.
    ///
    /// # Safety
    /// `barrier` points to an initialised barrier, and the reference is not used once that is gone.
    unsafe fn new<'a>(barrier: *mut pthread_barrier_t) -> &'a Self {
        // SAFETY: the caller's; size and alignment are asserted above, and every bit pattern is
        // valid.
        unsafe { &*barrier.cast::<Self>() }
    }

    fn is_libcs(&self) -> bool {
        choice::is_none() || self.shared.load(Relaxed) != 0 || !is_known()
    }

    fn rounds(&self) -> Rounds<'_> {
        let count = self.count.load(Relaxed);
        Rounds { state: &self.state, inside: &self.inside, count }
    }
}

/// Returns whether this libc initialises barriers as expected.
fn is_known() -> bool {
    /// 0: not known yet; 1: it does; 2: it does not.
    static ANSWER: AtomicU32 = AtomicU32::new(0);
    // Relaxed: who asks anew gets the same answer.
    match ANSWER.load(Relaxed) {
        0 => {
            let mut words = [u32::MAX; size_of::<pthread_barrier_t>() / 4];
            let mut barrier = core::mem::MaybeUninit::<pthread_barrier_t>::uninit();
            // SAFETY: both have this size, and any pattern is valid in either.
            unsafe { barrier.as_mut_ptr().cast::<[u32; 8]>().write(words) };
            // SAFETY: writable memory of the right size, and default attributes. No thread comes to
            // it, so nothing is left to destroy.
            let error = unsafe { real::barrier_init(barrier.as_mut_ptr(), core::ptr::null(), 3) };
            // SAFETY: all bytes were written above, or by libc.
            words = unsafe { barrier.as_ptr().cast::<[u32; 8]>().read() };
            let is_known = error == 0 && words[..5] == [0, 0, 3, 0, 0];
            ANSWER.store(if is_known { 1 } else { 2 }, Relaxed);
            is_known
        }
        answer => answer == 1,
    }
}

/// `pthread_barrier_wait`. No cancellation point, as in glibc.
///
/// # Safety
/// As for libc's function.
pub(crate) unsafe extern "C-unwind" fn wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's.
    let it = unsafe { Barrier::new(barrier) };
    if !it.is_libcs() {
        // Counted at once, because the program may end while the thread waits.
        let is_last = it.rounds().wait(|| counters::add(Event::BarrierWait));
        return if is_last { PTHREAD_BARRIER_SERIAL_THREAD } else { 0 };
    }
    let is_shared = it.shared.load(Relaxed) != 0;
    let event = if is_shared { Event::BarrierHandedToLibc } else { Event::BarrierWait };
    counters::add(event);
    // SAFETY: the caller's.
    let result = unsafe { real::barrier_wait(barrier) };
    if result != 0 {
        // The last to arrive has not waited.
        counters::take_back(event);
    }
    result
}

/// `pthread_barrier_destroy`: returns when all threads of past rounds have left.
///
/// # Safety
/// As for libc's function.
pub(crate) unsafe extern "C-unwind" fn destroy(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's.
    let it = unsafe { Barrier::new(barrier) };
    if it.is_libcs() {
        // SAFETY: the caller's.
        return unsafe { real::barrier_destroy(barrier) };
    }
    it.rounds().destroy();
    0
}
