//! Waiting for a mutex outside its lock's queue, in an order that the kernel keeps.
//!
//! Some threads must not, or can't, join the queue of a lock:
//!
//! * real-time threads, which POSIX requires to be served by priority, and of which those with a
//!   deadline lose their budget by a yield;
//! * threads that can be cancelled at any instruction, and would leave their place behind;
//! * threads beyond the number that a lock word can name (`numbers.rs`).
//!
//! They wait at the *gate* of the mutex, a futex of its own. While a thread sleeps there, a release
//! does not open the lock: it hands the lock over, still closed, to the waiter that the kernel
//! wakes, which has the highest priority and is the first among equals. So waiters at the gate go
//! before those in the queue. If all of them are awake, the release opens the lock: either they try
//! it themselves, or signal handlers or a debugger have stopped them.
//!
//! # State
//!
//! `gate`, in the mutex: the number of waiters (30 bits), whether a release has found them all
//! awake and none has looked since (bit 1, left out below, and zero without waiters), and whether
//! the lock has been handed over and not been taken yet (bit 0, *open*).
//!
//! ```text
//!   waits                                       releases
//!   (n,o) -> (n+1,o)                            (0,0): opens the lock
//!   (n,1) -> (n-1,0)   has the lock             (n,0) -> (n,1), wakes one
//!   (n,0) -> (n-1,0)   gives up                 (n,0), none sleeps: opens the lock
//! ```
//!
//! A release that checked before the waiter came opens the lock. So each waiter also tries the lock
//! itself from time to time, at growing intervals ([`RECHECK_NS`]). One that was awake at a release
//! finds bit 1 instead of sleep, clears it, and begins anew with the shortest interval. Nobody
//! sleeps while bit 1 is set, and releases need not ask the kernel.
//!
//! A signal handler may jump out of the wait that it interrupted (`jump.rs`), so each thread has a
//! list of its waits, which lies on its stack.
//!
//! # Limits
//!
//! A waiter that is stopped in the microseconds between the release's question and its own way out,
//! or whose wait ends then while all others are stopped, leaves the lock handed over: it stays
//! closed until a stopped waiter goes on, or another comes to the gate. The release can't take the
//! lock back: the mutex may be gone.

use core::cell::Cell;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::compiler_fence;

use libc::c_int;
use overlock::platform::syscall::syscall;
use overlock::platform::{Platform, Threads};

use crate::mutex::Mutex;
use crate::platform::Process;
use crate::stamp::Whose;
use crate::{choice, real, thread};

/// In `gate`: the lock is handed over.
const OPEN: u32 = 1;
/// In `gate`: a release has found all waiters awake.
const LOOK: u32 = 2;
/// In `gate`: one waiter.
const ONE: u32 = 4;

/// The first and the longest time between two attempts on the lock, in nanoseconds: a release takes
/// much less between its check and its end, unless it loses its processor.
const RECHECK_NS: core::ops::RangeInclusive<u64> = 1_000_000..=256_000_000;

/// How many contended calls of a thread pass before the kernel is asked again whether it is a
/// real-time thread, which is a system call.
const POLICY_CALLS: u32 = 16;

/// `PTHREAD_CANCEL_DEFERRED` and `PTHREAD_CANCEL_ASYNCHRONOUS`.
const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;

unsafe extern "C-unwind" {
    /// In block.c: sleeps while `gate` has the value `value`, for at most `ns`. With
    /// `cancellable`, the thread can be cancelled during the sleep: then it is unwound, through the
    /// frames from here to the program's, after `overlock_gate_cancelled` (`jump.rs`).
    fn overlock_gate_sleep(gate: *const u32, value: u32, ns: u64, cancellable: c_int);
}

/// Returns whether the calling thread, which found a lock taken, has to wait at the gate.
pub(crate) fn is_for_me() -> bool {
    // Only a thread with a number and a free node can queue.
    let can_queue = || Process::cpu().is_some_and(|cpu| Process::slot(cpu).has_free_node());
    may_be_cancelled() || is_realtime() || !can_queue()
}

/// Returns whether the thread can be cancelled at any instruction.
fn may_be_cancelled() -> bool {
    thread::this().cancel_type.get() == ASYNCHRONOUS
}

/// Sets when the thread can be cancelled. An asynchronous cancellation can strike here.
fn set_cancel_type(kind: c_int) {
    // SAFETY: no memory is passed.
    unsafe { real::setcanceltype(kind, core::ptr::null_mut()) };
}

/// `pthread_setcanceltype`, which is libc's: notes what the thread has chosen, so that a wait need
/// not ask.
///
/// # Safety
/// As for libc's function.
pub(crate) unsafe extern "C-unwind" fn setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
    // Before the call, after which a cancellation can strike. A wrong note for that long is
    // harmless.
    let known = thread::this().cancel_type.replace(kind);
    // SAFETY: the program's own call, passed on.
    let error = unsafe { real::setcanceltype(kind, old) };
    if error != 0 {
        thread::this().cancel_type.set(known);
    }
    error
}

/// Returns whether the thread is a real-time one, or was at one of its last contended calls.
pub(crate) fn is_realtime() -> bool {
    let policy = &thread::this().policy;
    let (calls, known) = (policy.get() >> 1, policy.get() & 1 != 0);
    if calls > 0 {
        policy.set((calls - 1) << 1 | u32::from(known));
        return known;
    }
    // SAFETY: no memory is passed.
    let now = unsafe { syscall(libc::SYS_sched_getscheduler, [0; 6]) };
    let now = now as c_int & !libc::SCHED_RESET_ON_FORK;
    let is_realtime = [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&now);
    policy.set(POLICY_CALLS << 1 | u32::from(is_realtime));
    is_realtime
}

/// How far a wait has got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The gate does not count it yet.
    New,
    Counted,
    /// It is joining or leaving.
    Moving,
}

/// A wait of a thread, on its stack.
struct AtGate {
    mutex: *const Mutex,
    stage: Cell<Stage>,
    /// The process as whose thread it waits, in the stamp.
    me: Cell<Whose>,
    /// The wait that this one has interrupted.
    outer: *const AtGate,
}

impl AtGate {
    /// Begins a wait. It must not move before [`end`](Self::end).
    fn begin(&self, mutex: &Mutex) {
        thread::this().at_gate.set((&raw const *self).cast());
        self.join(mutex);
    }

    /// `(n,o) -> (n+1,o)`
    fn join(&self, mutex: &Mutex) {
        self.is(Stage::Moving);
        mutex.gate.fetch_add(ONE, Relaxed);
        self.is(Stage::Counted);
    }

    /// Joins again if a signal handler has forked and returned: this process counts nobody yet.
    /// Returns false if the mutex is for threads of another process.
    fn stays(&self, mutex: &Mutex, calls: &Calls) -> bool {
        let me = choice::stamp();
        if me != self.me.get() {
            self.is(Stage::New);
            if !(calls.enter)(mutex, me) {
                return false;
            }
            self.me.set(me);
            self.join(mutex);
        }
        true
    }

    /// Records the stage between what was done before and what is done next, for a signal handler.
    fn is(&self, stage: Stage) {
        compiler_fence(AcqRel);
        self.stage.set(stage);
        compiler_fence(AcqRel);
    }

    fn end(&self) {
        thread::this().at_gate.set(self.outer.cast());
    }

    /// Leaves the gate, and passes on a lock that was handed over.
    fn give_up(&self, unlock: Unlock) {
        // SAFETY: a thread waits for the mutex.
        let mutex = unsafe { &*self.mutex };
        let has_it = leave(mutex);
        mutex.stamp.leave(self.me.get());
        if has_it {
            unlock(mutex);
        }
    }
}

/// Releases a mutex whose lock the caller was handed, whether or not it has become the owner of a
/// mutex that knows one.
pub(crate) type Unlock = fn(&Mutex) -> c_int;

/// Returns the innermost wait of the calling thread, or null.
fn innermost() -> *const AtGate {
    thread::this().at_gate.get().cast()
}

/// Ends the waits of this thread of which `is_gone` says so, given their places on the stack.
/// Returns false if one of them was joining or leaving; its mutex is then unusable.
///
/// # Safety
/// A signal handler of this thread has interrupted those waits, and they never go on.
pub(crate) unsafe fn abandon(is_gone: impl Fn(usize) -> bool, unlock: Unlock) -> bool {
    // SAFETY: the handler runs above the frames of these waits.
    while let Some(wait) = unsafe { innermost().as_ref() } {
        if !is_gone((&raw const *wait).addr()) {
            break;
        }
        thread::this().at_gate.set(wait.outer.cast());
        match wait.stage.get() {
            Stage::New => {}
            Stage::Counted => wait.give_up(unlock),
            Stage::Moving => return false,
        }
    }
    true
}

/// What a wait needs of the lock's algorithm.
pub(crate) struct Calls {
    /// Takes the lock if it is free, or returns an error number.
    pub(crate) try_lock: extern "C" fn(&Mutex) -> c_int,
    /// Counts the calling thread, of this process, in the stamp: `Stamp::enter`.
    pub(crate) enter: fn(&Mutex, Whose) -> bool,
    /// Takes the lock until a deadline, outside of the gate too, or returns an error number.
    pub(crate) poll: fn(&Mutex, Option<u64>) -> c_int,
}

/// Waits for the mutex, until `CLOCK_MONOTONIC` reaches `deadline_ns`. The stamp counts the caller
/// as of `me`, and no more when this returns whether the caller holds the mutex.
pub(crate) fn wait(mutex: &Mutex, deadline_ns: Option<u64>, calls: &Calls, me: Whose) -> bool {
    let cancellable = c_int::from(may_be_cancelled());
    if cancellable != 0 {
        // Cancellable only while it sleeps.
        set_cancel_type(DEFERRED);
    }
    let (stage, me) = (Cell::new(Stage::New), Cell::new(me));
    let record = AtGate { mutex, stage, me, outer: innermost() };
    record.begin(mutex);
    let waited = wait_inside(mutex, deadline_ns, calls, cancellable, &record);
    record.end();
    if waited.is_some() {
        mutex.stamp.leave(record.me.get());
    }
    let has_it = waited.unwrap_or_else(|| (calls.poll)(mutex, deadline_ns) == 0);
    if cancellable != 0 {
        set_cancel_type(ASYNCHRONOUS);
    }
    has_it
}

/// Returns whether the caller holds the mutex, or `None` if it has to poll.
fn wait_inside(
    mutex: &Mutex,
    deadline_ns: Option<u64>,
    calls: &Calls,
    cancellable: c_int,
    record: &AtGate,
) -> Option<bool> {
    let mut recheck_ns = *RECHECK_NS.start();
    while record.stays(mutex, calls) {
        let before = mutex.gate.fetch_and(!LOOK, Relaxed);
        if before & LOOK != 0 {
            recheck_ns = *RECHECK_NS.start();
        }
        let seen = before & !LOOK;
        if seen & OPEN != 0 {
            record.is(Stage::Moving);
            if take(mutex) {
                return Some(true);
            }
            record.is(Stage::Counted);
            continue;
        }
        if (calls.try_lock)(mutex) == 0 {
            record.is(Stage::Moving);
            // No release can have handed the lock over since.
            leave(mutex);
            return Some(true);
        }
        let now = Threads::now_ns();
        if deadline_ns.is_some_and(|at| now >= at) {
            record.is(Stage::Moving);
            return Some(leave(mutex));
        }
        let ns = deadline_ns.map_or(recheck_ns, |at| recheck_ns.min(at - now));
        // SAFETY: the mutex is alive while a thread waits for it.
        unsafe { overlock_gate_sleep(mutex.gate.as_ptr(), seen, ns, cancellable) };
        recheck_ns = (recheck_ns * 2).min(*RECHECK_NS.end());
    }
    None
}

/// Returns whether the lock is handed over to a waiter at the gate that has not taken it yet.
pub(crate) fn is_handed_over(mutex: &Mutex) -> bool {
    mutex.gate.load(Relaxed) & OPEN != 0
}

/// `(n,o) -> (n-1,0)`
fn without_one(gate: u32) -> u32 {
    let left = (gate & !OPEN) - ONE;
    if left < ONE { 0 } else { left }
}

/// `(n,1) -> (n-1,0)`: takes the lock if it is still handed over. Returns whether it was.
fn take(mutex: &Mutex) -> bool {
    let taken = |gate| (gate & OPEN != 0).then(|| without_one(gate));
    // ORDERING: Acquire ← the Release in `hand_over`: the lock is taken.
    let has_it = mutex.gate.fetch_update(Acquire, Relaxed, taken).is_ok();
    if has_it {
        mutex.hold();
    }
    has_it
}

/// `(n,1) -> (n-1,0)`, `(n,0) -> (n-1,0)`: leaves, with the lock if it was handed over. Returns
/// whether it was.
fn leave(mutex: &Mutex) -> bool {
    // ORDERING: Acquire ← the Release in `hand_over`: the lock is taken.
    let before = mutex.gate.fetch_update(Acquire, Relaxed, |gate| Some(without_one(gate)));
    let has_it = before.is_ok_and(|gate| gate & OPEN != 0);
    if has_it {
        mutex.hold();
    }
    has_it
}

/// Hands a lock over to a waiter at the gate. Returns false if none sleeps there. The caller holds
/// the lock, and has recorded that it does not any more.
#[inline(always)]
pub(crate) fn hand_over(mutex: &Mutex) -> bool {
    mutex.gate.load(Relaxed) != 0 && hand_over_slow(mutex)
}

/// `(n,0) -> (n,1)`: the kernel chooses the waiter. If none sleeps, who is awake looks again.
#[cold]
#[inline(never)]
fn hand_over_slow(mutex: &Mutex) -> bool {
    // Before the question: who is awake then can't fall asleep unseen.
    let looks = |gate| (gate >= ONE && gate & LOOK == 0).then_some(gate | LOOK);
    let gate = mutex.gate.as_ptr();
    if mutex.gate.fetch_update(Relaxed, Relaxed, looks).is_err() || !has_sleeper(gate) {
        return false;
    }
    let open = |gate| (gate >= ONE).then_some(gate & !LOOK | OPEN);
    // ORDERING: Release → the Acquire in `leave`; the critical section is over, and this thread
    // does not touch the mutex again.
    let given = mutex.gate.fetch_update(Release, Relaxed, open).is_ok();
    if given {
        Threads::kick_any(gate.cast());
    }
    given
}

/// Returns whether a thread sleeps at the gate. The kernel counts whom it moves from one futex to
/// another; from the gate to the gate, nobody wakes or loses a place. gVisor does not count them,
/// so a wake-up asks again.
fn has_sleeper(gate: *const u32) -> bool {
    let at = gate.expose_provenance();
    let operation = (libc::FUTEX_REQUEUE | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: no memory is accessed.
    let moved = unsafe { syscall(libc::SYS_futex, [at, operation, 0, 1, at, 0]) };
    moved > 0 || Threads::kick_any(gate.cast())
}

/// Ends the innermost wait of the calling thread, in which it is being cancelled.
///
/// # Safety
/// From within that wait.
pub(crate) unsafe fn cancel(unlock: Unlock) {
    // SAFETY: the record of the wait that is being cancelled, whose frame is still there.
    let wait = unsafe { &*innermost() };
    wait.end();
    wait.give_up(unlock);
}
