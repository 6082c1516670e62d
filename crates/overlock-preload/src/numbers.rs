// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for threads that wait: a thread takes one at its first contended lock operation, and
//! others take it back when the thread is gone.
//!
//! A thread-specific key would report the exit of a thread, but a process has 1,024 of them, all of
//! which are the program's; a thread-local destructor would allocate, which a lock that an
//! allocator uses must not do. So nothing is notified of an exit. Instead, each number records its
//! owner, and a thread that needs a number, when more than twice as many are taken as were in use
//! lately, asks the kernel which of their owners are gone (`tgkill` with no signal). Such a sweep
//! costs a system call for each number, so each new thread pays for about two.
//!
//! A number that another process took is left alone: in a child made by a bare `clone`, where the
//! kernel could not clear this memory (`world.rs`), a thread would otherwise take itself for gone.
//! Threads that find all numbers taken wait without one (`gate.rs`).

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use overlock::Cpu;
use overlock::platform::{MAX_CPUS, Platform as _};

use crate::errno::Preserved;
use crate::platform::Process;
use crate::thread;
use crate::world::WORLD;

/// The count of numbers that are taken before the first sweep.
const SWEEP_FIRST: u32 = 256;

/// Returns the calling thread's number. Takes one if it has none; `None` if all are taken.
#[inline]
pub(crate) fn current() -> Option<Cpu> {
    let number = thread::this().number.get();
    // A forked child's thread takes a new one.
    if number != 0 && number >> 16 == generation() {
        Cpu::new((number & 0xffff) as usize - 1)
    } else {
        take()
    }
}

/// Returns the low half of the number of forks behind this process.
fn generation() -> u32 {
    WORLD.generation.load(Relaxed) & 0xffff
}

#[cold]
#[inline(never)]
fn take() -> Option<Cpu> {
    let _errno = Preserved::new();
    let me = owner(process(), thread::tid());
    let index = loop {
        if let Some(index) = reuse(me).or_else(|| take_new(me)) {
            break index;
        }
        if !sweep() {
            return None;
        }
    };
    thread::this().number.set(generation() << 16 | (index as u32 + 1));
    Cpu::new(index)
}

/// Takes a number that was returned.
fn reuse(me: u64) -> Option<usize> {
    if WORLD.free.load(Relaxed) == 0 {
        return None;
    }
    let used = WORLD.used.load(Relaxed) as usize;
    let index = WORLD.owners[..used.min(MAX_CPUS)].iter().position(|owner| {
        owner.load(Relaxed) == 0
            // ORDERING: Acquire ← the Release in `sweep`, which found the earlier owner gone.
            && owner.compare_exchange(0, me, Acquire, Relaxed).is_ok()
    });
    match index {
        Some(_) => WORLD.free.fetch_sub(1, Relaxed),
        // The count was too high.
        None => WORLD.free.swap(0, Relaxed),
    };
    index
}

/// Takes a number that no thread had yet, unless it is time to sweep old ones.
fn take_new(me: u64) -> Option<usize> {
    let most = WORLD.sweep_at.load(Relaxed).clamp(SWEEP_FIRST, MAX_CPUS as u32);
    let next = |used| (used < most).then_some(used + 1);
    let index = WORLD.used.fetch_update(Relaxed, Relaxed, next).ok()? as usize;
    WORLD.owners[index].store(me, Relaxed);
    Some(index)
}

/// Looks for numbers whose owners are gone, and sets the time of the next sweep. Returns whether to
/// try again.
fn sweep() -> bool {
    let now = || ((Process::now_ns() / 1_000_000_000) as u32).max(1);
    // A thread that comes while another sweeps goes without a number, this time.
    if WORLD.swept_in_vain.load(Relaxed) == now() || WORLD.sweeping.swap(true, Relaxed) {
        return false;
    }
    let used = WORLD.used.load(Relaxed).min(MAX_CPUS as u32);
    let found = WORLD.owners[..used as usize].iter().filter(|owner| give_back(owner)).count();
    let live = used - found as u32;
    WORLD.sweep_at.store((live * 2).max(SWEEP_FIRST), Relaxed);
    WORLD.free.fetch_add(found as u32, Relaxed);
    let is_full = found == 0 && used as usize == MAX_CPUS;
    // All numbers are in use: no sweep for the rest of this second.
    WORLD.swept_in_vain.store(if is_full { now() } else { 0 }, Relaxed);
    WORLD.sweeping.store(false, Relaxed);
    !is_full
}

/// Takes a number back if its owner is a thread of this process that is gone.
fn give_back(owner: &core::sync::atomic::AtomicU64) -> bool {
    let who = owner.load(Relaxed);
    let (process, thread) = ((who >> 32) as libc::pid_t, who as u32 as libc::pid_t);
    if who == 0 || process != self::process() {
        return false;
    }
    // SAFETY: no memory is passed, and no signal is sent.
    let error = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) };
    // SAFETY: always points to the calling thread's `errno`.
    let is_gone = error == -1 && unsafe { *libc::__errno_location() } == libc::ESRCH;
    // ORDERING: Release → the Acquire in `reuse`. The thread itself ended by a system call, and
    // this thread has seen that by another.
    is_gone && owner.compare_exchange(who, 0, Release, Relaxed).is_ok()
}

fn process() -> libc::pid_t {
    // SAFETY: always succeeds.
    unsafe { libc::getpid() }
}

fn owner(process: libc::pid_t, thread: u32) -> u64 {
    (process as u64) << 32 | u64::from(thread)
}
