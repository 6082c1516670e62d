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
//! kernel could not clear this memory (`unforked.rs`), a thread would otherwise take itself for
//! gone. Threads that find all numbers taken wait without one (`gate.rs`).

use core::sync::atomic::Ordering::{self, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicU64};

use overlock::platform::syscall::{self, syscall};
use overlock::platform::{Cpu, MAX_CPUS, Platform as _};

use crate::platform::Process;
use crate::thread;
use crate::unforked::{self, FEW, Numbers, UNFORKED};

mod table;

use table::{Cell, Table};

table::cells!(u32 => AtomicU32, u64 => AtomicU64);

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
    UNFORKED.generation.load(Relaxed) & 0xffff
}

/// The table of the first numbers of this process, or of a range of further ones.
fn table<const COUNT: usize>(of: &'static Numbers<COUNT>) -> Table<'static, AtomicU32, AtomicU64> {
    Table { used: &of.used, free: &of.free, owners: &of.owners }
}

#[cold]
#[inline(never)]
fn take() -> Option<Cpu> {
    let index = find()?;
    thread::this().number.set(generation() << 16 | (index as u32 + 1));
    Cpu::new(index)
}

/// Takes a number from the table, after a sweep if necessary.
fn find() -> Option<usize> {
    let me = owner(process(), thread::kernels_tid());
    loop {
        let most = UNFORKED.sweep_at.load(Relaxed).clamp(SWEEP_FIRST, MAX_CPUS as u32);
        let few = table(&UNFORKED.few).take(me, FEW as u32);
        let rest = || table(unforked::more()?).take(me, most - FEW as u32);
        if let Some(index) = few.or_else(|| Some(FEW + rest()?)) {
            return Some(index);
        }
        if !sweep() {
            return None;
        }
    }
}

/// Looks for numbers whose owners are gone, and sets the time of the next sweep. Returns whether to
/// try again.
fn sweep() -> bool {
    let now = || ((Process::now_ns() / 1_000_000_000) as u32).max(1);
    // A thread that comes while another sweeps goes without a number, this time.
    if UNFORKED.swept_in_vain.load(Relaxed) == now() || UNFORKED.sweeping.swap(true, Relaxed) {
        return false;
    }
    let (few, few_free) = table(&UNFORKED.few).sweep(is_gone);
    let more = unforked::more().map(|more| table(more).sweep(is_gone));
    let (taken, free) = more.map_or((few, few_free), |(more, free)| (few + more, few_free + free));
    UNFORKED.sweep_at.store((taken * 2).max(SWEEP_FIRST), Relaxed);
    let is_full = free == 0 && (more.is_none() || taken as usize == MAX_CPUS);
    // All numbers are in use: no sweep for the rest of this second.
    UNFORKED.swept_in_vain.store(if is_full { now() } else { 0 }, Relaxed);
    UNFORKED.sweeping.store(false, Relaxed);
    !is_full
}

/// Returns whether the owner is a thread of this process that is gone.
fn is_gone(owner: u64) -> bool {
    let (process, thread) = ((owner >> 32) as libc::pid_t, owner as u32 as libc::pid_t);
    if process != self::process() {
        return false;
    }
    // SAFETY: no memory is passed, and no signal is sent.
    let sent =
        unsafe { syscall(libc::SYS_tgkill, [process as usize, thread as usize, 0, 0, 0, 0]) };
    syscall::result(sent) == Err(libc::ESRCH)
}

/// Asks the kernel for its number of this process.
pub(crate) fn process() -> libc::pid_t {
    // SAFETY: no arguments, no memory; it can't fail.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) as libc::pid_t }
}

fn owner(process: libc::pid_t, thread: u32) -> u64 {
    (process as u64) << 32 | u64::from(thread)
}
