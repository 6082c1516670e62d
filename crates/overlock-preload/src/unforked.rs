// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that a forked child must not inherit: the choice of the lock, and the waiters.
//!
//! The kernel clears it in the child (`MADV_WIPEONFORK`, Linux 4.14) before any code runs there:
//! before the fork handlers of a memory allocator that was loaded first, and also in a child made
//! by a bare `clone`, which runs no handlers at all. So everything here is zero in a process that
//! has not used a lock yet. Where the kernel can't clear it (the pages are larger than 4 KiB, or an
//! emulator does not know this advice), our own fork handler does. There a child of a bare `clone`
//! can't be told from its parent: it has the parent's memory, and a child of `vfork`, which shares
//! that memory, has another process number too.
//!
//! A child of `vfork` shares the parent's memory and its locks, as it should.

use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire,
    Ordering::Relaxed,
};

use overlock::platform::syscall::{self, syscall};
use overlock::platform::{Bucket, MAX_CPUS, Slot};

use crate::platform::Process;

/// `MADV_WIPEONFORK`.
const WIPE_ON_FORK: usize = 18;

/// See the [module documentation](self). The alignment gives it pages of its own.
#[repr(C, align(4096))]
pub(crate) struct Unforked {
    /// The table of functions in use, as an offset from the first: see [`choice`](crate::choice).
    pub(crate) current: AtomicUsize,
    /// The number of forks between the process that was executed and this one; zero in a child that
    /// has not noticed yet that it is one.
    pub(crate) generation: AtomicU32,
    /// The number of this process: see [`choice`](crate::choice).
    pub(crate) process: AtomicU32,
    /// Whether a thread of a child is about to notice.
    pub(crate) noticing: AtomicBool,
    /// Whether a thread sweeps numbers whose threads are gone.
    pub(crate) sweeping: AtomicBool,
    /// The first numbers.
    pub(crate) few: Numbers<FEW>,
    /// The others, once one is needed: a process in which few threads wait has no memory for them,
    /// which `mlockall` would lock.
    more: AtomicPtr<Numbers<MORE>>,
    /// How many numbers can be taken before the next sweep.
    pub(crate) sweep_at: AtomicU32,
    /// The time in seconds of the last sweep, if it found nothing.
    pub(crate) swept_in_vain: AtomicU32,
    /// The halted waiters, by lock.
    pub(crate) waiters: [Bucket<Process>; BUCKETS],
}

/// How many numbers need no further memory.
pub(crate) const FEW: usize = 128;

/// The numbers beyond them.
const MORE: usize = MAX_CPUS - FEW;

/// The size of the table of halted waiters: a ticket lock enters all of its waiters.
const BUCKETS: usize = 1 << 11;

/// A range of numbers.
#[repr(C)]
pub(crate) struct Numbers<const COUNT: usize> {
    /// All numbers of the range ever taken are less than this.
    pub(crate) used: AtomicU32,
    /// About how many numbers below that are free.
    pub(crate) free: AtomicU32,
    /// The owner of each number: process and thread as the kernel numbers them, or zero.
    pub(crate) owners: [AtomicU64; COUNT],
    /// The waiters' records.
    pub(crate) slots: [Slot<Process>; COUNT],
}

/// Returns the numbers beyond the first ones, if there is memory for them.
pub(crate) fn more() -> Option<&'static Numbers<MORE>> {
    // ORDERING: Acquire ← the Release below: the memory is mapped.
    let known = UNFORKED.more.load(Acquire);
    let more = if known.is_null() { map_more()? } else { known };
    // SAFETY: mapped for ever, and all of it was zero, which is a range that was never used.
    Some(unsafe { &*more })
}

#[cold]
fn map_more() -> Option<*mut Numbers<MORE>> {
    let size = size_of::<Numbers<MORE>>();
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping, at a place that the kernel chooses.
    let mapped = unsafe { syscall(libc::SYS_mmap, [0, size, access, flags, usize::MAX, 0]) };
    let at = syscall::result(mapped).ok()?;
    let mine = core::ptr::with_exposed_provenance_mut(at);
    let null = core::ptr::null_mut();
    // ORDERING: Release → the Acquire in `more`, and Acquire ← another thread's here.
    match UNFORKED.more.compare_exchange(null, mine, AcqRel, Acquire) {
        Ok(_) => Some(mine),
        Err(others) => {
            // SAFETY: mapped above, and used by nothing.
            unsafe { syscall(libc::SYS_munmap, [at, size, 0, 0, 0, 0]) };
            Some(others)
        }
    }
}

/// Returns the record of a number that was taken.
#[inline]
pub(crate) fn slot(index: usize) -> &'static Slot<Process> {
    match index.checked_sub(FEW) {
        None => &UNFORKED.few.slots[index],
        // The thread that took the number has mapped the memory.
        Some(index) => match more() {
            Some(more) => &more.slots[index],
            None => &UNFORKED.few.slots[0],
        },
    }
}

/// The instance of this process.
pub(crate) static UNFORKED: Unforked = Unforked {
    current: AtomicUsize::new(0),
    generation: AtomicU32::new(0),
    process: AtomicU32::new(0),
    noticing: AtomicBool::new(false),
    sweeping: AtomicBool::new(false),
    few: Numbers {
        used: AtomicU32::new(0),
        free: AtomicU32::new(0),
        owners: [const { AtomicU64::new(0) }; FEW],
        slots: [const { Slot::new() }; FEW],
    },
    more: AtomicPtr::new(core::ptr::null_mut()),
    sweep_at: AtomicU32::new(0),
    swept_in_vain: AtomicU32::new(0),
    waiters: [const { Bucket::new() }; BUCKETS],
};

/// Whether the kernel clears the static in a child. Kept outside it, because the child reads this.
static IS_WIPED: AtomicBool = AtomicBool::new(false);

/// Asks the kernel to clear the static in forked children.
pub(crate) fn wipe_on_fork() {
    if !has_own_pages() {
        return;
    }
    let all = (&raw const UNFORKED).expose_provenance();
    let advice = [all, size_of::<Unforked>(), WIPE_ON_FORK, 0, 0, 0];
    // SAFETY: the range is that of the static, in pages of its own; the call changes only what a
    // forked child finds there.
    let error = unsafe { syscall(libc::SYS_madvise, advice) };
    IS_WIPED.store(error == 0, Relaxed);
}

/// Returns whether the static has its pages to itself: they are not larger than its alignment.
fn has_own_pages() -> bool {
    // SAFETY: reads a value that the kernel has passed.
    unsafe { libc::getauxval(libc::AT_PAGESZ) == align_of::<Unforked>() as libc::c_ulong }
}

/// Clears the static, in a forked child's only thread, unless the kernel has.
pub(crate) fn clear_in_child() {
    if IS_WIPED.load(Relaxed) {
        return;
    }
    UNFORKED.few.owners.iter().for_each(|owner| owner.store(0, Relaxed));
    let slots = UNFORKED.few.slots.as_ptr().cast_mut();
    // SAFETY: no other thread runs, no reference to a slot is in use here, and a slot consists of
    // atomic words, all zero in a new one.
    unsafe { core::ptr::write_bytes(slots, 0, FEW) };
    // The parent's are left where they are; new ones are mapped when they are needed.
    UNFORKED.more.store(core::ptr::null_mut(), Relaxed);
    // SAFETY: as above.
    unsafe {
        core::ptr::write_bytes(UNFORKED.waiters.as_ptr().cast_mut(), 0, UNFORKED.waiters.len())
    };
    let all = &UNFORKED;
    let few = &all.few;
    for word in [&all.generation, &few.used, &few.free, &all.sweep_at, &all.swept_in_vain] {
        word.store(0, Relaxed);
    }
    UNFORKED.noticing.store(false, Relaxed);
    UNFORKED.sweeping.store(false, Relaxed);
    UNFORKED.current.store(0, Relaxed);
}
