// SPDX-License-Identifier: MIT OR Apache-2.0
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
//! A forked child has the words with the traces of waiting threads, but not the threads: handing a
//! lock to the next waiter in the queue would hand it to a thread that does not exist. But the
//! child must not repair the memory of a lock that it does not use: that memory may be shared with
//! the parent, or gone. So each word is cleaned when the child first uses it ([`adopt`]):
//!
//! * I1: a mutex carries in `stamp` the process whose threads may be in its queue or at its gate; 0
//!   in a new one. A process's number here is its own alone, even among processes that have nothing
//!   to do with each other (`choice::process`).
//! * I2: a thread waits in the queue or at the gate only if the stamp is its own process's. The
//!   first that has to wait claims a mutex that is no process's. Where another process's threads
//!   may wait, in memory that both see although the mutex does not say so, it polls: the word
//!   excludes, but its queue would name threads of several processes.
//! * I3: a forked child does not touch a word whose stamp is another process's before it has
//!   looked. If the word has traces of waiters, and no other process sees this memory, a thread
//!   claims the stamp (*cleaning*), writes the word of a lock without waiters, and stamps it.
//!   Otherwise it writes nothing but a bit in the stamp, by which others need not look again
//!   (*looked at*).
//! * I4: the word does not tell whether that lock is held, because it may name a waiter that was
//!   about to take it. The mutex records its holder (`holder`, in `mutex.rs`) from after the holder
//!   has taken the word until before it releases it. The child's copy of a thread is the state that
//!   the thread had reached at some moment; so if the mutex has no holder, no critical section was
//!   under way.
//!
//! What another thread held at the fork stays locked in the child, as in every implementation of
//! POSIX.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use libc::{EBUSY, ETIMEDOUT, c_int};
use overlock::platform::{Platform as _, maps};
use overlock::{ConstLock, Hybrid, Queued, RawLock, RawTimedLock, TestAndSet, Ticket};

use crate::clock::Poll;
use crate::counters::{self, Event, Preload};
use crate::guarded::overlock_guarded;
use crate::misuse::{self, Misuse};
use crate::mutex::Mutex;
use crate::operations::Operations;
use crate::platform::Process;
use crate::{choice, gate, longest};

/// In a stamp: a thread of the process is cleaning the word.
const CLEANING: u32 = 1 << 31;

/// In a stamp: another process has found nothing to clean.
const LOOKED_AT: u32 = 1 << 30;

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

    /// Returns whether the lock of `mutex` is held although its holder is not on record.
    fn is_taken_unrecorded(&self, mutex: &Mutex) -> bool;

    const OPERATIONS: Operations = Operations {
        lock: lock::<Self>,
        try_lock: try_lock::<Self>,
        lock_until: lock_until::<Self>,
        unlock: unlock::<Self>,
    };

    const IN_CHILD: Operations = Operations {
        lock: lock_in_child::<Self>,
        try_lock: try_lock_in_child::<Self>,
        lock_until: lock_until_in_child::<Self>,
        unlock: unlock_in_child::<Self>,
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

    fn is_taken_unrecorded(&self, mutex: &Mutex) -> bool {
        !gate::is_handed_over(mutex) && mutex.ticket.load(Relaxed) == self.served() | TICKET
    }
}

/// Views the mutex's word as a lock.
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

extern "C-unwind" fn lock<L: Algorithm>(mutex: &Mutex) -> c_int {
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
    if !may_wait(mutex) {
        return poll_until::<L>(mutex, None);
    }
    longest::enter();
    if gate::is_for_me() {
        longest::halts();
        gate::wait(mutex, None, try_lock_in_child::<L>);
    } else {
        lock_of::<L>(mutex).lock();
        hold::<L>(mutex);
    }
    longest::leave();
    0
}

extern "C" fn try_lock<L: Algorithm>(mutex: &Mutex) -> c_int {
    if lock_of::<L>(mutex).try_lock() {
        hold::<L>(mutex);
        return 0;
    }
    EBUSY
}

extern "C-unwind" fn lock_until<L: Algorithm>(mutex: &Mutex, deadline_ns: u64) -> c_int {
    // SAFETY: the function has that signature.
    unsafe { overlock_guarded(mutex, deadline_ns, wait_until::<L>) }
}

extern "C-unwind" fn wait_until<L: Algorithm>(mutex: &Mutex, deadline_ns: u64) -> c_int {
    if !may_wait(mutex) {
        return poll_until::<L>(mutex, Some(deadline_ns));
    }
    if !L::CAN_GIVE_UP || gate::is_for_me() {
        let has_it = gate::wait(mutex, Some(deadline_ns), try_lock_in_child::<L>);
        return if has_it { 0 } else { ETIMEDOUT };
    }
    if lock_of::<L>(mutex).lock_until(deadline_ns) {
        hold::<L>(mutex);
        return 0;
    }
    ETIMEDOUT
}

/// # Safety
/// As for [`Operations::unlock`].
unsafe extern "C" fn unlock<L: Algorithm>(mutex: &Mutex) -> c_int {
    let lock = lock_of::<L>(mutex);
    let is_held = mutex.let_go() || lock.is_taken_unrecorded(mutex);
    // SAFETY: the caller's.
    if is_held && unsafe { lock.release(mutex) } {
        return 0;
    }
    misuse::notice(Misuse::UnlockOfFree)
}

extern "C-unwind" fn lock_in_child<L: Algorithm>(mutex: &Mutex) -> c_int {
    adopt::<L>(mutex);
    lock::<L>(mutex)
}

/// This is also for a wait at the gate, during which a signal handler can fork and return.
extern "C" fn try_lock_in_child<L: Algorithm>(mutex: &Mutex) -> c_int {
    adopt::<L>(mutex);
    try_lock::<L>(mutex)
}

extern "C-unwind" fn lock_until_in_child<L: Algorithm>(mutex: &Mutex, deadline_ns: u64) -> c_int {
    adopt::<L>(mutex);
    lock_until::<L>(mutex, deadline_ns)
}

/// Whether threads of this process may wait in the queue of the mutex, or at its gate (I2). The
/// kernel is asked only where another process is stamped.
fn may_wait(mutex: &Mutex) -> bool {
    let process = choice::process();
    loop {
        let stamp = mutex.stamp.load(Relaxed);
        if stamp & !LOOKED_AT == process {
            return true;
        }
        // An ancestor's, in memory of this process alone; or left by a program that copies mutexes.
        if stamp != 0 && !is_private(mutex) {
            return false;
        }
        if mutex.stamp.compare_exchange(stamp, process, Relaxed, Relaxed).is_ok() {
            return true;
        }
    }
}

fn is_private(mutex: &Mutex) -> bool {
    maps::is_private((&raw const *mutex).addr())
}

/// Takes the lock of a mutex that processes share without having said so, outside its queue. No
/// process can be woken by another, as under libc.
#[cold]
#[inline(never)]
fn poll_until<L: Algorithm>(mutex: &Mutex, deadline_ns: Option<u64>) -> c_int {
    let mut poll = Poll::new();
    while try_lock::<L>(mutex) != 0 {
        if deadline_ns.is_some_and(|at| Process::now_ns() >= at) {
            return ETIMEDOUT;
        }
        poll.sleep();
    }
    0
}

/// # Safety
/// As for [`Operations::unlock`].
unsafe extern "C" fn unlock_in_child<L: Algorithm>(mutex: &Mutex) -> c_int {
    adopt::<L>(mutex);
    // SAFETY: the caller's; an adopted word is held as before.
    unsafe { unlock::<L>(mutex) }
}

/// Cleans a word of the traces of vanished threads, if its stamp is foreign (I3).
#[inline]
fn adopt<L: Algorithm>(mutex: &Mutex) {
    let process = choice::process();
    // ORDERING: Acquire ← the Release in `clean`; a thread that sees the stamp sees the cleaned
    // word.
    if !is_clean(mutex.stamp.load(Acquire), process) {
        clean::<L>(mutex, process);
    }
}

/// Whether a word with this stamp has no traces of threads that this process does not have, or is
/// not to be cleaned.
#[inline]
fn is_clean(stamp: u32, process: u32) -> bool {
    stamp == process || stamp == 0 || stamp & LOOKED_AT != 0
}

/// Whether the word is that of a lock without waiters, free or held by a thread on record.
fn has_no_traces<L: Algorithm>(mutex: &Mutex) -> bool {
    let locked = L::NEW;
    locked.lock();
    // SAFETY: L has the size of the word (`lock_of`).
    let locked = unsafe { core::mem::transmute_copy::<L, u32>(&locked) };
    let word = mutex.word.load(Relaxed);
    let is_plain = if mutex.is_held() { word == locked } else { word == 0 };
    is_plain && mutex.gate.load(Relaxed) == 0
}

#[cold]
#[inline(never)]
fn clean<L: Algorithm>(mutex: &Mutex, process: u32) {
    let mut poll = Poll::new();
    loop {
        // ORDERING: Acquire ← the Release below.
        let stamp = mutex.stamp.load(Acquire);
        if is_clean(stamp, process) {
            return;
        }
        if stamp == process | CLEANING {
            poll.sleep();
        } else if has_no_traces::<L>(mutex) || !is_private(mutex) {
            let _ = mutex.stamp.compare_exchange(stamp, stamp | LOOKED_AT, Relaxed, Relaxed);
        } else if mutex.stamp.compare_exchange(stamp, process | CLEANING, Relaxed, Relaxed).is_ok()
        {
            break;
        }
    }
    let lock = L::NEW;
    mutex.ticket.store(0, Relaxed);
    if mutex.is_held() {
        lock.lock();
        lock.note_taken(mutex);
    }
    mutex.gate.store(0, Relaxed);
    // SAFETY: L has the size of the word and needs no greater alignment (`lock_of`). No other
    // thread in this process touches the word before it is stamped.
    unsafe { (&raw const mutex.word).cast_mut().cast::<L>().write(lock) };
    // ORDERING: Release → the Acquires above and in `adopt`; publishes the cleaned word.
    mutex.stamp.store(process, Release);
}
