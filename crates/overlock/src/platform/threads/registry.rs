//! Numbers for threads: a thread takes one at its first contended lock operation and returns it
//! when it exits.
//!
//! A bitmap records the numbers that are taken. A thread takes the lowest free one, so that the
//! records in use stay together. The destructor of a `pthread_key_t` returns the number. Such
//! destructors run after all C++ and Rust thread-local destructors, and may themselves perform lock
//! operations, which take a new number and set the key again. POSIX repeats the destructors, but at
//! most `PTHREAD_DESTRUCTOR_ITERATIONS` times: a thread that locks even later keeps its number for
//! ever, which costs one of 8,191.
//!
//! After `fork` the child has one thread, with the number it had. The others are gone, but their
//! traces have been copied: they are still in the queues of locks and in the table of waiters. The
//! child removes them before `fork` returns, so that a lock works if the child's thread holds it or
//! if it was free. A lock that another thread held stays locked in the child for ever, as any lock
//! would. A thread that runs during the `fork` is copied as of some moment; it is therefore enough
//! that each thread leaves its trace before it touches a lock.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire,
    Ordering::Relaxed, Ordering::Release,
};

use super::maps;
use crate::slot::{Cpu, MAX_CPUS, Slot};
use crate::waiters::bucket::Bucket;

/// The records of the threads.
static SLOTS: [Slot<AtomicU32>; MAX_CPUS] = [const { Slot::new() }; MAX_CPUS];

/// The table of halted threads.
pub(super) static BUCKETS: [Bucket<AtomicU32>; 1 << 12] = [const { Bucket::new() }; 1 << 12];

/// Bit n of word n / 64: number n is taken.
static TAKEN: [AtomicU64; MAX_CPUS.div_ceil(64)] =
    [const { AtomicU64::new(0) }; MAX_CPUS.div_ceil(64)];

/// Every number that was ever taken is less than this.
static USED: AtomicU32 = AtomicU32::new(0);

/// The key under which a thread keeps its number plus one, and whose destructor returns it; plus
/// one. Zero before the first thread, and [`GONE`] at the end.
static KEY: AtomicU32 = AtomicU32::new(0);

/// In [`KEY`]: it has been deleted.
const GONE: u32 = u32::MAX;

#[inline]
pub(super) fn slot(cpu: Cpu) -> &'static Slot<AtomicU32> {
    &SLOTS[cpu.index()]
}

/// Whether a thread halts without spinning: a condition variable has just woken it. Only the thread
/// itself writes that.
pub(super) fn halts_at_once(cpu: Cpu) -> &'static AtomicBool {
    static HALTS: [AtomicBool; MAX_CPUS] = [const { AtomicBool::new(false) }; MAX_CPUS];
    &HALTS[cpu.index()]
}

#[inline]
pub(super) fn numbered() -> Option<Cpu> {
    known_key().and_then(number)
}

/// This thread's number. Takes one if the thread has none yet; `None` if all are taken.
#[inline]
pub(super) fn current() -> Option<Cpu> {
    let key = key()?;
    number(key).or_else(|| take(key))
}

#[inline]
fn number(key: libc::pthread_key_t) -> Option<Cpu> {
    // SAFETY: `key` is a live key; libc reads plain memory of the thread.
    unsafe { libc::pthread_getspecific(key) }.addr().checked_sub(1).and_then(Cpu::new)
}

#[cold]
fn take(key: libc::pthread_key_t) -> Option<Cpu> {
    let cpu = TAKEN.iter().enumerate().find_map(|(i, word)| take_bit(i, word))?;
    let value = ptr::without_provenance::<c_void>(cpu.index() + 1);
    // SAFETY: `key` is a live key; the value is only compared, never dereferenced.
    if unsafe { libc::pthread_setspecific(key, value) } != 0 {
        // There was no memory for the key's table; without a destructor the number would leak.
        give_back(cpu);
        return None;
    }
    // ORDERING: Release; a child that has a trace of this number has this, too.
    // The compiler must not see that there is only one value, or it calls that directly.
    MEND.store(core::hint::black_box(mend as *mut ()), Release);
    USED.fetch_max(cpu.index() as u32 + 1, Relaxed);
    Some(cpu)
}

/// Takes the lowest free bit of word `i`.
fn take_bit(i: usize, word: &AtomicU64) -> Option<Cpu> {
    let mut taken = word.load(Relaxed);
    while taken != u64::MAX {
        let bit = taken.trailing_ones();
        let cpu = Cpu::new(i * 64 + bit as usize)?;
        // ORDERING: Acquire, with the Release of `give_back`: the earlier owner has finished with
        // the slot.
        match word.compare_exchange_weak(taken, taken | 1 << bit, Acquire, Relaxed) {
            Ok(_) => return Some(cpu),
            Err(now) => taken = now,
        }
    }
    None
}

fn give_back(cpu: Cpu) {
    // ORDERING: Release, with the Acquire of `take_bit`.
    TAKEN[cpu.index() / 64].fetch_and(!(1 << (cpu.index() % 64)), Release);
}

extern "C" fn thread_exits(value: *mut c_void) {
    let Some(cpu) = value.addr().checked_sub(1).and_then(Cpu::new) else { return };
    give_back(cpu);
}

/// What a forked child has to do once a number was taken: [`mend`], or null. Until then nothing
/// refers to the records of threads, and a library that numbers threads in its own way does not
/// contain them.
static MEND: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// How many forks lie between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// See [`FORKS`].
#[inline]
pub(super) fn forks() -> u32 {
    watch_forks();
    FORKS.load(Relaxed)
}

extern "C" fn child_forked() {
    FORKS.fetch_add(1, Relaxed);
    let mend = MEND.load(Acquire);
    if !mend.is_null() {
        // SAFETY: only `take` stores it, and what it stores is `mend`.
        unsafe { core::mem::transmute::<*mut (), fn()>(mend)() };
    }
}

fn mend() {
    let own = numbered().map(Cpu::index);
    // Usually many threads wait for few locks. This looks each lock up once, unless they alternate.
    let last = Cell::new((0, false));
    let is_ours = |lock: *const ()| {
        if last.get().0 != lock.addr() {
            last.set((lock.addr(), maps::is_private(lock.addr())));
        }
        last.get().1
    };
    let mut had_waiters = false;
    for index in 0..USED.load(Relaxed) as usize {
        let Some(cpu) = Cpu::new(index) else { continue };
        if Some(index) == own {
            // SAFETY: after a fork the child has only this thread.
            unsafe { slot(cpu).mend_left(&is_ours) };
            continue;
        }
        had_waiters |= slot(cpu).is_waiting();
        // SAFETY: as above.
        unsafe { slot(cpu).mend(&is_ours) };
        TAKEN[index / 64].fetch_and(!(1 << (index % 64)), Relaxed);
    }
    // An entry belongs to a node in use. To read the whole table takes a child 64 page faults.
    for bucket in if had_waiters { &BUCKETS[..] } else { &[] } {
        bucket.retain(|waiter| Some(waiter.cpu().index()) == own);
    }
}

/// Whether [`child_forked`] is registered.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Registers [`child_forked`] when the program, or the shared library that contains this code, is
/// loaded.
///
/// The first lock operation would be too late: if another thread is already in `fork` at that time,
/// that `fork` runs only the handlers that were registered when it began, but copies the first
/// waiters. (A fork that is under way while `dlopen` loads a library is therefore still missed.)
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = watch_forks;

extern "C" fn watch_forks() {
    // Under miri, no process forks.
    if WATCHED.load(Relaxed) || cfg!(miri) {
        return;
    }
    // SAFETY: the handler is async-signal-safe, and stays valid as long as this code is loaded:
    // libc drops the handlers of a library that it unloads.
    let error = unsafe { libc::pthread_atfork(None, None, Some(child_forked)) };
    // This is set only after the registration, so that no thread relies on it too early.
    // Registering twice is harmless.
    WATCHED.fetch_or(error == 0, Relaxed);
}

/// Deletes the key when the program ends, or when the shared library that contains this code is
/// unloaded: otherwise a thread that exits later would run a destructor that is gone. A thread that
/// locks even later and has no number does without one.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_UNLOAD: extern "C" fn() = delete_key;

extern "C" fn delete_key() {
    if let Some(key) = known_key() {
        KEY.store(GONE, Relaxed);
        // SAFETY: `make_key` made this key. A thread that is about to use it gets an error that
        // says it is gone.
        unsafe { libc::pthread_key_delete(key) };
    }
}

#[inline]
fn known_key() -> Option<libc::pthread_key_t> {
    // ORDERING: Acquire, with the Release in `make_key`: the key exists.
    match KEY.load(Acquire) {
        0 | GONE => None,
        key => Some((key - 1) as _),
    }
}

/// The key, created once; `None` once it is deleted.
#[inline]
fn key() -> Option<libc::pthread_key_t> {
    known_key().or_else(make_key)
}

/// Creates the key. Two threads may each create one at the same time; the loser deletes its own.
#[cold]
fn make_key() -> Option<libc::pthread_key_t> {
    if KEY.load(Relaxed) == GONE {
        return None;
    }
    // For a linker that has left `AT_LOAD`, here and in `rseq`, out of a static library.
    watch_forks();
    super::rseq::arm();
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: `key` is valid to write to; the destructor is a function for the life of the program.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_exits)) } != 0 {
        return None;
    }
    // ORDERING: Release publishes the key; Acquire takes the winner's key.
    match KEY.compare_exchange(0, key as u32 + 1, AcqRel, Acquire) {
        Ok(_) => Some(key),
        Err(theirs) => {
            // SAFETY: no other thread has seen this key.
            unsafe { libc::pthread_key_delete(key) };
            (theirs != GONE).then_some((theirs - 1) as _)
        }
    }
}
