//! The lock word of a mutex, under the algorithm that this process has chosen.
//!
//! For each algorithm there are two tables of functions ([`Operations`]): one for a process that
//! was executed, and one for a child that was forked. The functions of the first are the lock's own
//! inlined fast path, and a call for the rest.
//!
//! # Unlocking twice
//!
//! libc's unlock is one exchange: threads that unlock a mutex at the same moment, by an error of
//! the program, leave it free. Our unlock takes two steps, the holder's record and the word, and
//! several threads can pass the first at once. So the second releases only what is held:
//!
//! * A queue lock's word shows whether it is held, and its release is a compare-exchange. A late
//!   thread may erase a later holder than it saw, on weakly ordered machines even after it found
//!   the word free. So an unlock that finds no holder on record looks at the word, too.
//! * A ticket lock must not be released for a waiter that is served and has not noticed. The thread
//!   that takes the word records its ticket in the mutex; no other thread changes that, and a
//!   release ends the turn of this ticket only. It does not need the holder's record.
//! * Test-and-set has one state without a holder, to which any release leads.
//!
//! As under libc, an unlock that comes late releases a mutex that another thread holds by then.
//!
//! # After a fork
//!
//! The child must not repair the memory of a lock that it does not use: that memory may be shared
//! with the parent, or gone. So each word is cleaned when the child first uses it, if the stamp
//! counts waiters of another process ([`stamp`](crate::stamp)).
//!
//! The word does not tell whether that lock is held, because it may name a waiter that was about to
//! take it. The mutex records its holder (`holder`, in `mutex.rs`) from after the holder has taken
//! the word until before it releases it. The child's copy of a thread is the state that the thread
//! had reached at some moment; so if the mutex has no holder, no critical section was under way.
//!
//! What another thread held at the fork stays locked in the child, as in every implementation of
//! POSIX.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;

use libc::{EBUSY, ETIMEDOUT, c_int};
use overlock::platform::{Platform as _, maps};
use overlock::{ConstLock, Hybrid, Queued, RawLock, RawTimedLock, TestAndSet, Ticket};

use crate::clock::Poll;
use crate::counters::{self, Event, Preload};
use crate::guarded::overlock_guarded;
use crate::misuse;
use crate::mutex::Mutex;
use crate::operations::Operations;
use crate::platform::Process;
use crate::stamp::{Stamped, Whose};
use crate::{choice, gate, longest};

/// A lock that lives in one 32-bit word and can give up at a deadline.
pub(crate) trait Algorithm: ConstLock + Sized + 'static {
    /// Whether a thread can leave the queue at a deadline. If not, it waits at the gate instead,
    /// which has no place in the queue that would be lost.
    const CAN_GIVE_UP: bool = true;

    /// Takes the lock unless `CLOCK_MONOTONIC` reaches `deadline_ns` first. Returns whether it took
    /// it.
    fn lock_until(&self, deadline_ns: u64) -> bool;

    /// Releases the lock if it is held. Returns whether it was.
    ///
    /// # Safety
    /// This is the lock of `mutex`, and the caller is entitled to release it.
    unsafe fn release(&self, mutex: &Mutex) -> bool;

    /// Records by what the caller has just taken the lock of `mutex`.
    #[inline(always)]
    fn note_taken(&self, _mutex: &Mutex) {}

    /// A free lock in place of this one, in a forked child.
    fn renewed(&self) -> Self {
        Self::NEW
    }

    /// Returns whether the lock of `mutex` is held although its holder is not on record.
    fn is_taken_unrecorded(&self, mutex: &Mutex) -> bool;

    const AT_GATE: gate::Calls = gate::Calls {
        try_lock: try_lock::<Self, false>,
        enter: |mutex, me| mutex.stamp.enter(me, &Word::<Self>::of(mutex)),
        poll: poll_until::<Self>,
    };

    const OPERATIONS: Operations = Operations {
        lock: lock::<Self, false>,
        try_lock: try_lock::<Self, false>,
        lock_until: lock_until::<Self, false>,
        unlock: unlock::<Self, false>,
    };

    const IN_CHILD: Operations = Operations {
        lock: lock::<Self, true>,
        try_lock: try_lock::<Self, true>,
        lock_until: lock_until::<Self, true>,
        unlock: unlock::<Self, true>,
    };
}

/// Implements the locks whose waiters can leave the queue.
macro_rules! can_give_up {
    ($($lock:ident, $release:expr;)*) => {
        $(
            impl Algorithm for $lock<Process, Preload> {
                fn lock_until(&self, deadline_ns: u64) -> bool {
                    self.try_lock_until(deadline_ns)
                }

                #[inline(always)]
                unsafe fn release(&self, _mutex: &Mutex) -> bool {
                    // SAFETY: the caller's.
                    unsafe { $release(self) }
                }

                fn is_taken_unrecorded(&self, mutex: &Mutex) -> bool {
                    !gate::is_handed_over(mutex) && self.is_locked()
                }
            }
        )*
    };
}

can_give_up! {
    Hybrid, Self::unlock_if_locked;
    Queued, Self::unlock_if_locked;
    TestAndSet, unlock_any;
}

/// Releases a lock whose release does no harm if it is free.
///
/// # Safety
/// As for [`Algorithm::release`].
#[inline(always)]
unsafe fn unlock_any(lock: &TestAndSet<Process, Preload>) -> bool {
    // SAFETY: the caller's; the release is one swap for the word of a free lock.
    unsafe { lock.unlock() };
    true
}

/// In `ticket` of a mutex: it contains a ticket. Tickets are even.
const TICKET: u32 = 1;

impl Algorithm for Ticket<Process, Preload> {
    /// A ticket once drawn must be served, so a thread with a deadline draws none and waits at the
    /// gate.
    const CAN_GIVE_UP: bool = false;

    fn lock_until(&self, _deadline_ns: u64) -> bool {
        false
    }

    #[inline(always)]
    unsafe fn release(&self, mutex: &Mutex) -> bool {
        let ticket = mutex.ticket.load(Relaxed);
        // SAFETY: the caller's; the thread that drew this ticket has recorded it itself.
        ticket & TICKET != 0 && unsafe { self.unlock_ticket(ticket & !TICKET) }
    }

    #[inline(always)]
    fn note_taken(&self, mutex: &Mutex) {
        // No release changes the ticket served before this has recorded it.
        mutex.ticket.store(self.served() | TICKET, Relaxed);
    }

    /// A wait whose handler forked sees that its ticket is void, and draws another.
    fn renewed(&self) -> Self {
        Ticket::renewed(self)
    }

    fn is_taken_unrecorded(&self, mutex: &Mutex) -> bool {
        !gate::is_handed_over(mutex) && mutex.ticket.load(Relaxed) == self.served() | TICKET
    }
}

#[inline(always)]
fn lock_of<L: Algorithm>(mutex: &Mutex) -> &L {
    const {
        assert!(size_of::<L>() == size_of::<u32>() && align_of::<L>() <= align_of::<u32>());
    }
    // SAFETY: L has the size of the word and needs no greater alignment; it consists of atomic
    // words, for which every bit pattern is valid; and throughout the life of the process only this
    // one L is used on the word, because the choice is made once.
    unsafe { &*(&raw const mutex.word).cast::<L>() }
}

/// Records that the caller holds the mutex: it has just taken the word.
#[inline(always)]
fn hold<L: Algorithm>(mutex: &Mutex) {
    lock_of::<L>(mutex).note_taken(mutex);
    mutex.hold();
}

/// Takes the lock, in a forked child (`CHILD`) or in a process that was executed.
extern "C-unwind" fn lock<L: Algorithm, const CHILD: bool>(mutex: &Mutex) -> c_int {
    adopt_if::<L, CHILD>(mutex);
    if lock_of::<L>(mutex).try_lock() {
        hold::<L>(mutex);
        return 0;
    }
    // SAFETY: the function has that signature.
    unsafe { overlock_guarded(mutex, 0, lock_contended::<L>) }
}

#[cold]
#[inline(never)]
extern "C-unwind" fn lock_contended<L: Algorithm>(mutex: &Mutex, _unused: u64) -> c_int {
    counters::add(Event::MutexContended);
    let me = choice::stamp();
    if !mutex.stamp.enter(me, &Word::<L>::of(mutex)) {
        return poll_until::<L>(mutex, None);
    }
    longest::enter();
    if gate::is_for_me() {
        longest::halts();
        gate::wait(mutex, None, &L::AT_GATE, me);
    } else {
        lock_of::<L>(mutex).lock();
        hold::<L>(mutex);
        leave(mutex, me);
    }
    longest::leave();
    0
}

/// Ends a wait that was begun as a thread of that process. After a fork by a signal handler, it is
/// another.
fn leave(mutex: &Mutex, me: Whose) {
    if me == choice::stamp() {
        mutex.stamp.leave(me);
    }
}

extern "C" fn try_lock<L: Algorithm, const CHILD: bool>(mutex: &Mutex) -> c_int {
    adopt_if::<L, CHILD>(mutex);
    if lock_of::<L>(mutex).try_lock() {
        hold::<L>(mutex);
        return 0;
    }
    EBUSY
}

extern "C-unwind" fn lock_until<L: Algorithm, const CHILD: bool>(
    mutex: &Mutex,
    deadline_ns: u64,
) -> c_int {
    adopt_if::<L, CHILD>(mutex);
    // SAFETY: the function has that signature.
    unsafe { overlock_guarded(mutex, deadline_ns, wait_until::<L>) }
}

extern "C-unwind" fn wait_until<L: Algorithm>(mutex: &Mutex, deadline_ns: u64) -> c_int {
    let me = choice::stamp();
    if !mutex.stamp.enter(me, &Word::<L>::of(mutex)) {
        return poll_until::<L>(mutex, Some(deadline_ns));
    }
    let has_it = if !L::CAN_GIVE_UP || gate::is_for_me() {
        gate::wait(mutex, Some(deadline_ns), &L::AT_GATE, me)
    } else {
        let has_it = lock_of::<L>(mutex).lock_until(deadline_ns);
        if has_it {
            hold::<L>(mutex);
        }
        leave(mutex, me);
        has_it
    };
    if has_it { 0 } else { ETIMEDOUT }
}

/// # Safety
/// As for [`Operations::unlock`].
unsafe extern "C" fn unlock<L: Algorithm, const CHILD: bool>(mutex: &Mutex) -> c_int {
    adopt_if::<L, CHILD>(mutex);
    let lock = lock_of::<L>(mutex);
    let is_held = mutex.let_go() || lock.is_taken_unrecorded(mutex);
    // SAFETY: the caller's.
    if is_held && (gate::hand_over(mutex) || unsafe { lock.release(mutex) }) {
        return 0;
    }
    misuse::unlock_of_free()
}

/// Takes the lock of a mutex that processes share without having said so, outside its queue. No
/// process can be woken by another, as under libc.
#[cold]
#[inline(never)]
fn poll_until<L: Algorithm>(mutex: &Mutex, deadline_ns: Option<u64>) -> c_int {
    let mut poll = Poll::new();
    while try_lock::<L, false>(mutex) != 0 {
        if deadline_ns.is_some_and(|at| Process::now_ns() >= at) {
            return ETIMEDOUT;
        }
        poll.sleep();
    }
    0
}

/// In a forked child, cleans a word of the traces of vanished threads, if there are any.
#[inline(always)]
fn adopt_if<L: Algorithm, const CHILD: bool>(mutex: &Mutex) {
    if CHILD {
        mutex.stamp.adopt(choice::stamp(), &Word::<L>::of(mutex));
    }
}

/// A mutex whose word is such a lock.
struct Word<'a, L>(&'a Mutex, PhantomData<L>);

impl<'a, L> Word<'a, L> {
    fn of(mutex: &'a Mutex) -> Self {
        Self(mutex, PhantomData)
    }
}

impl<L: Algorithm> Stamped for Word<'_, L> {
    fn is_private(&self) -> bool {
        maps::is_private((&raw const *self.0).addr())
    }

    fn clean(&self) {
        let (mutex, lock) = (self.0, lock_of::<L>(self.0).renewed());
        mutex.ticket.store(0, Relaxed);
        if mutex.is_held() {
            lock.lock();
            lock.note_taken(mutex);
        }
        mutex.gate.store(0, Relaxed);
        // SAFETY: L has the size of the word and needs no greater alignment (`lock_of`). No other
        // thread in this process touches the word before the stamp says that it is clean.
        unsafe { (&raw const mutex.word).cast_mut().cast::<L>().write(lock) };
    }

    fn pause(&self) {
        Poll::new().sleep();
    }
}
