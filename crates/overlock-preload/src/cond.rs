//! `pthread_cond_t`: a sequence number to sleep on, and a count of the waiters that have not left
//! yet.
//!
//! # State
//!
//! | here | |
//! |---|---|
//! | `flags` | libc's own word: bit 0 process-shared, bit 1 `CLOCK_MONOTONIC`; bit 31 [`CLAIMED`] |
//! | `sequence` | advanced by every signal and broadcast that may find a sleeper; the futex word |
//! | `waiters` | whose waiters these are (32 bits), count (31; signals under way count too), `destroy` waits (1) |
//! | `numbered` | the number of waits so far |
//! | `awake` | how many of those, from the first on, are known to be awake |
//!
//! All zeros is a condition variable without waiters, for libc as for us, so initialisation stays
//! libc's. The place of libc's flags varies (`__wrefs` is at byte 36 since glibc 2.25, and at byte
//! 28 since 2.41), so [`Layout::find`] finds it out; our fields lie in the words behind it,
//! cyclically ([`Layout::place`]).
//!
//! # Life of a wait
//!
//! ```text
//!   waiter, holding the mutex              signaller, having held the mutex since
//!   ─────────────────────────              ────────────────────────────────────────
//!   W1 waiters += 1                        S1 waiters == 0? numbered == awake? done
//!   W2 seen = sequence; numbered += 1         waiters += 1
//!   W3 release the mutex                   S2 sequence += 1
//!   W4 FUTEX_WAIT while sequence == seen   S3 FUTEX_WAKE one, or all; if none slept, or all:
//!   W5 waiters -= 1                           awake = numbered, as it was in S1
//!   W6 take the mutex                      S4 waiters -= 1
//! ```
//!
//! **No wake-up is lost.** A signal that must reach the waiter follows W3 through the mutex, so S1
//! sees W1 and W2, and S2, if it comes to that, comes after W2. If S2 precedes W4, the kernel finds
//! the sequence changed and W4 returns. Otherwise the waiter sleeps before S3, which wakes it or
//! another sleeper. If S1 ends the signal, the waiter is awake already:
//!
//! **A waiter that is awake needs no signal.** A woken thread takes some microseconds to return,
//! and a thread that fills a queue signals at each element meanwhile. Every waiter that S1 counted
//! had read the sequence before S2, so none of them can fall asleep after it; and if S3 finds no
//! sleeper, or wakes all, none of them sleeps. From then on, until a new waiter is numbered, S1
//! skips the rest. `awake` may be too low, when signals overtake each other, but never too high.
//!
//! **A signal wakes a waiter that was already blocked**, if there was one. Let A be blocked when
//! the signal starts. S2 wakes every waiter that registered before S2 and does not sleep yet. If A
//! sleeps, S3 wakes a sleeper: the kernel takes the first in its queue, in order of arrival, and A
//! came before every waiter that registered after S2. With real-time priorities the kernel takes
//! the highest first. That may be B, which arrived between S2 and S3 while the signal was still in
//! progress; nothing shows that B came after the signal. B can only know that the signal has begun
//! from a thread that S2 woke, and then the signal has already done its duty.
//!
//! **A signal may wake more waiters than one**, which POSIX allows: any signal wakes every waiter
//! between W2 and W4.
//!
//! **Destruction is safe as soon as no thread is blocked**, even while woken threads still leave,
//! and the signal that woke them is not over: [`destroy`] waits for the count to reach zero. The
//! leaving waiter's last access is W5, before it takes the mutex (which the destroyer may hold),
//! and the signal's is S4. The one access that may come later is the `FUTEX_WAKE` for the
//! destroyer, which uses the address alone.
//!
//! **The sequence can wrap around**: a waiter that is stopped between W2 and W4 for exactly 2³²
//! signals would sleep through them, and through more until another thread waits. Bionic and musl
//! accept the same.
//!
//! **A cancelled waiter uses up no signal**: it passes one on, needed or not.
//!
//! **A forked child has no waiters of its parent**, unless both see the memory. So the count says
//! of how many forks its process was the child. Another process that finds waiters there asks the
//! kernel whether its memory is private, and then forgets them. Otherwise they are there, and the
//! count is [`EVERYBODYS`] from then on, whether or not the program has said that processes share
//! the condition variable. As under libc, a signal then reaches only those that it was said of.
//!
//! # What stays libc's
//!
//! A process-shared condition variable is libc's, because the processes that share it need not run
//! under Overlock. But libc can't release one of *our* mutexes. So the first wait with one of our
//! mutexes, which only threads of this process can share, claims the condition variable for us
//! ([`CLAIMED`]). The opposite case is simple: our wait releases and takes libc's mutex by libc's
//! own functions.
//!
//! # Orderings
//!
//! The mutex orders a waiter and the signals that must reach it (above), so their accesses are
//! relaxed, except for `numbered`: W2 releases it and S1 acquires it, so that a waiter that S1 has
//! counted, by whatever path, does not read what S2 writes. W5 is a Release that the destroyer
//! acquires, because it may reuse the memory.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use libc::{EINVAL, EPERM, ETIMEDOUT, c_int, clockid_t, pthread_cond_t, pthread_mutex_t, timespec};
use overlock::platform::maps;
use overlock::platform::syscall::syscall;

use crate::counters::{self, Event};
use crate::mutex::Mutex;
use crate::mutex::calls;
use crate::{choice, clock, real, thread};

mod layout;

pub(crate) use layout::prepare;
use layout::{Layout, MONOTONIC, SHARED};

/// Flag, ours: process-shared, but used with a mutex of ours. (For libc this bit would be 2²⁸
/// waiters.)
const CLAIMED: u32 = 1 << 31;

/// In `waiters`: a thread waits in `destroy`.
const DESTROYING: u64 = 1;
/// In `waiters`: one waiter.
const ONE: u64 = 2;
/// In `waiters`: the bits of the count.
const COUNT: u64 = 0xffff_fffe;
/// In `waiters`: the bits that say whose they are.
const WHOSE: u64 = !(COUNT | DESTROYING);
/// In `waiters`: they are of several processes.
const EVERYBODYS: u64 = WHOSE;

/// In place of a clock: no deadline. The same in block.c.
const UNTIMED: clockid_t = -1;
/// In place of a clock: the one the condition variable was initialised with. The same in block.c.
const CLOCK_OF_COND: clockid_t = -2;
/// In place of an error number: the condition variable is libc's. The same in block.c.
const HANDED_TO_LIBC: c_int = -1;

/// A `pthread_cond_t`: six words of 64 bits; [`Layout`] says which is which.
#[repr(C)]
struct Cond {
    words: [UnsafeCell<u64>; 6],
}

const _: () = assert!(size_of::<Cond>() == size_of::<pthread_cond_t>());
const _: () = assert!(align_of::<Cond>() <= align_of::<pthread_cond_t>());
// `destroy` sleeps on the half of `waiters` that counts.
const _: () = assert!(cfg!(target_endian = "little"));

/// One wait, on the stack of the C frame: `struct wait` in block.c.
#[repr(C)]
pub(crate) struct Wait {
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    sequence: *const AtomicU32,
    seen: u32,
    operation: c_int,
    libcs: *mut core::ffi::c_void,
    at: timespec,
}

impl Cond {
    /// Views the condition variable behind a pointer that the program passed.
    ///
    /// # Safety
    /// `cond` points to an initialised condition variable that outlives the use of the reference.
    unsafe fn new<'a>(cond: *mut pthread_cond_t) -> &'a Self {
        // SAFETY: the caller's; size and alignment are asserted above, and every bit pattern is
        // valid.
        unsafe { &*cond.cast::<Self>() }
    }

    fn half(&self, byte: usize) -> &AtomicU32 {
        let words = self.words.as_ptr();
        // SAFETY: a half of a word of this condition variable, behind an `UnsafeCell`; during its
        // life only we access it, and only as this atomic.
        unsafe { AtomicU32::from_ptr(words.byte_add(byte).cast_mut().cast()) }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: likewise.
        unsafe { AtomicU64::from_ptr(self.words[index].get()) }
    }

    fn flags(&self) -> &AtomicU32 {
        self.half(Layout::get().flags())
    }

    fn sequence(&self) -> &AtomicU32 {
        self.half(Layout::get().place(0) * 8)
    }

    fn waiters(&self) -> &AtomicU64 {
        self.word(Layout::get().place(1))
    }

    fn numbered(&self) -> &AtomicU64 {
        self.word(Layout::get().place(2))
    }

    fn awake(&self) -> &AtomicU64 {
        self.word(Layout::get().place(3))
    }

    fn as_ptr(&self) -> *mut pthread_cond_t {
        (&raw const *self).cast_mut().cast()
    }

    fn is_libcs(&self) -> bool {
        choice::is_none() || self.flags().load(Relaxed) & (SHARED | CLAIMED) == SHARED
    }

    /// Makes a process-shared condition variable ours, unless a thread waits in libc's way: then
    /// two mutexes are in use at once, which POSIX forbids.
    fn claim(&self) -> Result<(), c_int> {
        if self.flags().load(Relaxed) & !(SHARED | MONOTONIC) == 0 {
            // Clear what libc has kept there. Any other first user holds the same mutex, and there
            // are no waiters.
            self.waiters().store(0, Relaxed);
            self.numbered().store(0, Relaxed);
            self.awake().store(0, Relaxed);
        }
        let claimed = self.flags().fetch_update(Relaxed, Relaxed, |flags| {
            (flags & CLAIMED != 0 || flags & !(SHARED | MONOTONIC) == 0).then_some(flags | CLAIMED)
        });
        claimed.map(|_| ()).map_err(|_| EINVAL)
    }

    /// Whether the waiters counted here are those of a process that this one was forked from.
    fn are_gone(&self, waiters: u64) -> bool {
        let is_mine = [EVERYBODYS, generation()].contains(&(waiters & WHOSE));
        !is_mine && maps::is_private(self.as_ptr().addr())
    }

    /// W1, and before S2. In a forked child, the parent's waiters are not counted.
    fn register(&self) {
        let _ = self.waiters().fetch_update(Relaxed, Relaxed, |waiters| {
            let whose = waiters & WHOSE;
            Some(if waiters & COUNT == 0 && whose != EVERYBODYS || self.are_gone(waiters) {
                generation() | ONE
            } else if whose == generation() {
                waiters + ONE
            } else {
                (EVERYBODYS | waiters) + ONE
            })
        });
    }

    /// W5, S4. The condition variable may no longer exist afterwards.
    fn deregister(&self) {
        let waiters = core::ptr::from_ref(self.waiters());
        // ORDERING: Release → the Acquire in `destroy`, which may reuse the memory.
        let before = self.waiters().fetch_sub(ONE, Release);
        if before & (COUNT | DESTROYING) == ONE | DESTROYING {
            // Of any process: `destroy` sleeps there in the same way.
            futex(waiters.cast(), libc::FUTEX_WAKE, i32::MAX as u32);
        }
    }

    /// Returns the futex operation for waiters of this process, or of all processes.
    fn operation(&self, operation: c_int) -> c_int {
        let is_shared = self.flags().load(Relaxed) & SHARED != 0;
        if is_shared { operation } else { operation | libc::FUTEX_PRIVATE_FLAG }
    }

    /// S1 to S4.
    fn wake(&self, count: u32) {
        // Relaxed: see "Orderings" above.
        if self.waiters().load(Relaxed) & COUNT == 0 {
            return;
        }
        // ORDERING: Acquire ← the Release in `overlock_cond_enter`: every waiter counted here has
        // read the sequence, and not what S2 is about to write.
        let numbered = self.numbered().load(Acquire);
        if numbered == self.awake().load(Relaxed) {
            return;
        }
        counters::add(Event::CondWake);
        self.register();
        let operation = self.operation(libc::FUTEX_WAKE);
        let sequence = core::ptr::from_ref(self.sequence());
        self.sequence().fetch_add(1, Relaxed);
        let woken = futex(sequence, operation, count);
        if (0..count as isize).contains(&woken) {
            self.awake().store(numbered, Relaxed);
        }
        self.deregister();
    }
}

/// How many forks lie behind this process, in its place in `waiters`.
fn generation() -> u64 {
    u64::from(choice::generation()) << 32
}

/// Calls a futex operation without a timeout and returns its result.
pub(crate) fn futex(word: *const AtomicU32, operation: c_int, value: u32) -> isize {
    let args = [word.expose_provenance(), operation as usize, value as usize, 0, 0, 0];
    // SAFETY: to wake, the kernel takes the address as a name; to wait, it reads the word, and
    // fails if there is none.
    unsafe { syscall(libc::SYS_futex, args) }
}

/// Returns the operation that a wait needs, and its deadline on the kernel's clock; or `EINVAL`.
fn check(
    cond: &Cond,
    clock: clockid_t,
    at: *const timespec,
) -> Result<(c_int, Option<timespec>), c_int> {
    let wait = cond.operation(libc::FUTEX_WAIT_BITSET);
    if clock == UNTIMED {
        return Ok((wait, None));
    }
    // SAFETY: the program passes a time to wait until.
    let at = unsafe { &*at };
    let clock = match clock {
        CLOCK_OF_COND if cond.flags().load(Relaxed) & MONOTONIC != 0 => libc::CLOCK_MONOTONIC,
        CLOCK_OF_COND => libc::CLOCK_REALTIME,
        given => given,
    };
    if !clock::is_valid(at) || !clock::is_supported(clock) {
        return Err(EINVAL);
    }
    let is_realtime = clock == libc::CLOCK_REALTIME;
    let operation = if is_realtime { wait | libc::FUTEX_CLOCK_REALTIME } else { wait };
    Ok((operation, Some(clock::on_kernels(clock, at))))
}

/// W1 to W3. Returns 0 if the thread has to sleep now, `HANDED_TO_LIBC` with libc's function in
/// `wait`, or an error number.
///
/// # Safety
/// For block.c: `wait` holds the program's condition variable and mutex, `at` its deadline unless
/// `clock` is `UNTIMED`.
#[unsafe(no_mangle)]
unsafe extern "C" fn overlock_cond_enter(
    wait: *mut Wait,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the C frame's own variable.
    let wait = unsafe { &mut *wait };
    // SAFETY: the program's condition variable, in use until `deregister`.
    let cond = unsafe { Cond::new(wait.cond) };
    // SAFETY: the program's mutex.
    let mutex = unsafe { Mutex::new(wait.mutex) };
    let is_libcs = cond.is_libcs();
    if is_libcs && mutex.is_libcs() {
        counters::add(Event::CondHandedToLibc);
        let function = match clock {
            UNTIMED => &real::COND_WAIT,
            CLOCK_OF_COND => &real::COND_TIMEDWAIT,
            _ => &real::COND_CLOCKWAIT,
        };
        wait.libcs = function.address();
        return HANDED_TO_LIBC;
    }
    // Before anything changes, as in libc.
    let (operation, at) = match check(cond, clock, at) {
        Ok(checked) => checked,
        Err(error) => return error,
    };
    if is_libcs {
        if !mutex.may_be_mine() {
            return EPERM;
        }
        if let Err(error) = cond.claim() {
            return error;
        }
    }
    wait.operation = operation;
    if let Some(at) = at {
        wait.at = at;
    }
    counters::add(if clock == UNTIMED { Event::CondWait } else { Event::CondTimed });
    cond.register();
    wait.sequence = core::ptr::from_ref(cond.sequence());
    wait.seen = cond.sequence().load(Relaxed);
    // ORDERING: Release → the Acquire in `wake`.
    cond.numbered().fetch_add(1, Release);
    let error = calls::unlock(mutex);
    if error != 0 {
        cond.deregister();
    }
    error
}

/// W5 and W6, for a thread that was woken or that timed out.
///
/// # Safety
/// For block.c: after `overlock_cond_enter` returned 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn overlock_cond_leave(wait: *mut Wait, timed_out: c_int) -> c_int {
    // SAFETY: the C frame's own variable.
    let wait = unsafe { &*wait };
    // SAFETY: still registered, so still there.
    unsafe { Cond::new(wait.cond) }.deregister();
    // The thread that holds the mutex is likely the one that signalled, and this one often runs on
    // its processor: spinning would keep the mutex from being released.
    let woken = &thread::this().woken;
    woken.set(1);
    // SAFETY: the program's mutex.
    let error = calls::lock(unsafe { Mutex::new(wait.mutex) });
    woken.set(0);
    if error == 0 && timed_out != 0 { ETIMEDOUT } else { error }
}

/// W5 and W6, for a thread that was cancelled: a signal may have woken it too, so it passes a
/// wake-up on.
///
/// # Safety
/// For block.c: after `overlock_cond_enter` returned 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn overlock_cond_cancelled(wait: *mut Wait) {
    // SAFETY: the C frame's own variable.
    let wait = unsafe { &*wait };
    // SAFETY: still registered, so still there.
    let cond = unsafe { Cond::new(wait.cond) };
    cond.wake(1);
    cond.deregister();
    // The thread's clean-up handlers run next and expect the mutex. There is no caller to return an
    // error to.
    // SAFETY: the program's mutex.
    calls::lock(unsafe { Mutex::new(wait.mutex) });
}

/// `pthread_cond_signal`.
///
/// # Safety
/// `cond` points to an initialised condition variable.
pub(crate) unsafe fn signal(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's.
    let cond = unsafe { Cond::new(cond) };
    if cond.is_libcs() {
        // SAFETY: the caller's.
        return unsafe { real::cond_signal(cond.as_ptr()) };
    }
    cond.wake(1);
    0
}

/// `pthread_cond_broadcast`.
///
/// # Safety
/// `cond` points to an initialised condition variable.
pub(crate) unsafe fn broadcast(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's.
    let cond = unsafe { Cond::new(cond) };
    if cond.is_libcs() {
        // SAFETY: the caller's.
        return unsafe { real::cond_broadcast(cond.as_ptr()) };
    }
    cond.wake(i32::MAX as u32);
    0
}

/// `pthread_cond_destroy`: returns when all woken threads have left.
///
/// # Safety
/// `cond` points to an initialised condition variable on which no thread is blocked.
pub(crate) unsafe fn destroy(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's.
    let cond = unsafe { Cond::new(cond) };
    if cond.is_libcs() {
        // SAFETY: the caller's.
        return unsafe { real::cond_destroy(cond.as_ptr()) };
    }
    // ORDERING: Acquire ← the Release in `deregister`; every waiter has left before the memory is
    // reused.
    let mut waiters = cond.waiters().fetch_or(DESTROYING, Acquire);
    while waiters & COUNT != 0 && !cond.are_gone(waiters) {
        let count = (waiters | DESTROYING) as u32;
        futex(core::ptr::from_ref(cond.waiters()).cast(), libc::FUTEX_WAIT, count);
        // ORDERING: as above.
        waiters = cond.waiters().load(Acquire);
    }
    0
}
