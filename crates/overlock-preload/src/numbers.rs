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

use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire,
    Ordering::Relaxed,
};

use overlock::platform::syscall::{self, syscall};
use overlock::platform::{Cpu, MAX_CPUS, Platform as _, Threads};

use crate::{choice, thread};

mod table;

use table::Table;

/// The count of numbers that are taken before the first sweep.
const SWEEP_FIRST: u32 = 256;

/// How many numbers need no further memory.
pub(crate) const FEW: usize = 128;

/// The numbers beyond them.
const MORE: usize = MAX_CPUS - FEW;

/// The numbers of a process, each with a record. All zeros if none was taken yet.
#[repr(C)]
pub(crate) struct Numbers<R> {
    /// The first numbers.
    few: Range<R, FEW>,
    /// The others, once one is needed: a process in which few threads wait has no memory for them,
    /// which `mlockall` would lock.
    more: AtomicPtr<Range<R, MORE>>,
    /// Whether a thread sweeps numbers whose threads are gone.
    sweeping: AtomicBool,
    /// How many numbers can be taken before the next sweep.
    sweep_at: AtomicU32,
    /// The time in seconds of the last sweep, if it found nothing.
    swept_in_vain: AtomicU32,
}

#[repr(C)]
struct Range<R, const COUNT: usize> {
    /// All numbers of the range ever taken are less than this.
    used: AtomicU32,
    /// About how many numbers below that are free.
    free: AtomicU32,
    /// The owner of each number: process and thread as the kernel numbers them, or zero.
    owners: [AtomicU64; COUNT],
    records: [R; COUNT],
}

impl<R, const COUNT: usize> Range<R, COUNT> {
    fn table(&self) -> Table<'_, AtomicU32, AtomicU64> {
        Table { used: &self.used, free: &self.free, owners: &self.owners }
    }
}

impl<R> Numbers<R> {
    /// None is taken.
    ///
    /// # Safety
    /// A new record is all zeros, and consists of atomic words.
    pub(crate) const unsafe fn new(records: [R; FEW]) -> Self {
        let few = Range {
            used: AtomicU32::new(0),
            free: AtomicU32::new(0),
            owners: [const { AtomicU64::new(0) }; FEW],
            records,
        };
        Self {
            few,
            more: AtomicPtr::new(core::ptr::null_mut()),
            sweeping: AtomicBool::new(false),
            sweep_at: AtomicU32::new(0),
            swept_in_vain: AtomicU32::new(0),
        }
    }

    /// Returns the calling thread's number, if it has one. A forked child's thread takes a new one.
    #[inline]
    pub(crate) fn current(&self) -> Option<Cpu> {
        let number = thread::this().number.get();
        let is_mine = number != 0 && number >> 16 == generation();
        if is_mine { Cpu::new((number & 0xffff) as usize - 1) } else { None }
    }

    /// Takes a number for the calling thread; `None` if all are taken.
    #[cold]
    #[inline(never)]
    pub(crate) fn take(&self) -> Option<Cpu> {
        let index = self.find()?;
        thread::this().number.set(generation() << 16 | (index as u32 + 1));
        Cpu::new(index)
    }

    /// Takes a number from the table, after a sweep if necessary.
    fn find(&self) -> Option<usize> {
        let me = owner(thread::kernels_process(), thread::kernels_tid());
        loop {
            let most = self.sweep_at.load(Relaxed).clamp(SWEEP_FIRST, MAX_CPUS as u32);
            let few = self.few.table().take(me, FEW as u32);
            let rest = || self.more()?.table().take(me, most - FEW as u32);
            if let Some(index) = few.or_else(|| Some(FEW + rest()?)) {
                return Some(index);
            }
            if !self.sweep() {
                return None;
            }
        }
    }

    /// Looks for numbers whose owners are gone, and sets the time of the next sweep. Returns
    /// whether to try again.
    fn sweep(&self) -> bool {
        let now = || ((Threads::now_ns() / 1_000_000_000) as u32).max(1);
        // A thread that comes while another sweeps goes without a number, this time.
        if self.swept_in_vain.load(Relaxed) == now() || self.sweeping.swap(true, Relaxed) {
            return false;
        }
        let (few, few_free) = self.few.table().sweep(is_gone);
        let more = self.more().map(|more| more.table().sweep(is_gone));
        let (taken, free) =
            more.map_or((few, few_free), |(more, free)| (few + more, few_free + free));
        self.sweep_at.store((taken * 2).max(SWEEP_FIRST), Relaxed);
        let is_full = free == 0 && (more.is_none() || taken as usize == MAX_CPUS);
        // All numbers are in use: no sweep for the rest of this second.
        self.swept_in_vain.store(if is_full { now() } else { 0 }, Relaxed);
        self.sweeping.store(false, Relaxed);
        !is_full
    }

    #[inline]
    pub(crate) fn record(&self, index: usize) -> &R {
        match index.checked_sub(FEW) {
            None => &self.few.records[index],
            // The thread that took the number has mapped the memory.
            Some(index) => match self.more() {
                Some(more) => &more.records[index],
                None => &self.few.records[0],
            },
        }
    }

    /// Returns the numbers beyond the first ones, if there is memory for them.
    fn more(&self) -> Option<&Range<R, MORE>> {
        // ORDERING: Acquire ← the Release in `map_more`: the memory is mapped.
        let known = self.more.load(Acquire);
        let more = if known.is_null() { self.map_more()? } else { known };
        // SAFETY: mapped for ever, and all of it was zero, which is a range that was never used.
        Some(unsafe { &*more })
    }

    #[cold]
    fn map_more(&self) -> Option<*mut Range<R, MORE>> {
        let size = size_of::<Range<R, MORE>>();
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let mapped = unsafe { syscall(libc::SYS_mmap, [0, size, access, flags, usize::MAX, 0]) };
        let at = syscall::result(mapped).ok()?;
        let mine = core::ptr::with_exposed_provenance_mut(at);
        let null = core::ptr::null_mut();
        // ORDERING: Release → the Acquire in `more`, and Acquire ← another thread's here.
        match self.more.compare_exchange(null, mine, AcqRel, Acquire) {
            Ok(_) => Some(mine),
            Err(others) => {
                // SAFETY: mapped above, and used by nothing.
                unsafe { syscall(libc::SYS_munmap, [at, size, 0, 0, 0, 0]) };
                Some(others)
            }
        }
    }

    /// Forgets all numbers, in a forked child's only thread. The parent's memory for further ones
    /// is left where it is; new memory is mapped when it is needed.
    pub(crate) fn clear(&self) {
        self.few.owners.iter().for_each(|owner| owner.store(0, Relaxed));
        let records = self.few.records.as_ptr().cast_mut();
        // SAFETY: no other thread runs, no reference to a record is in use here, and a new one is
        // all zeros (`new`).
        unsafe { core::ptr::write_bytes(records, 0, FEW) };
        self.more.store(core::ptr::null_mut(), Relaxed);
        for word in [&self.few.used, &self.few.free, &self.sweep_at, &self.swept_in_vain] {
            word.store(0, Relaxed);
        }
        self.sweeping.store(false, Relaxed);
    }
}

/// Returns the low half of the number of forks behind this process.
fn generation() -> u32 {
    choice::known_generation() & 0xffff
}

/// Returns whether the owner is a thread of this process that is gone.
fn is_gone(owner: u64) -> bool {
    let (process, thread) = ((owner >> 32) as libc::pid_t, owner as u32 as libc::pid_t);
    if process != thread::kernels_process() {
        return false;
    }
    // SAFETY: no memory is passed, and no signal is sent.
    let sent =
        unsafe { syscall(libc::SYS_tgkill, [process as usize, thread as usize, 0, 0, 0, 0]) };
    syscall::result(sent) == Err(libc::ESRCH)
}

fn owner(process: libc::pid_t, thread: u32) -> u64 {
    (process as u64) << 32 | u64::from(thread)
}
