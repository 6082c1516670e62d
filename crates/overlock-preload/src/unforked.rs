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

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use overlock::platform::MAX_CPUS;
use overlock::platform::syscall::syscall;
use overlock::{Bucket, Slot};

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
    /// Whether a thread of a child is about to notice.
    pub(crate) noticing: AtomicBool,
    /// Whether a thread sweeps numbers whose threads are gone.
    pub(crate) sweeping: AtomicBool,
    /// All numbers ever taken are less than this.
    pub(crate) used: AtomicU32,
    /// About how many numbers below that are free.
    pub(crate) free: AtomicU32,
    /// How many numbers can be taken before the next sweep.
    pub(crate) sweep_at: AtomicU32,
    /// The time in seconds of the last sweep, if it found nothing.
    pub(crate) swept_in_vain: AtomicU32,
    /// The owner of each number: process and thread as the kernel numbers them, or zero.
    pub(crate) owners: [AtomicU64; MAX_CPUS],
    /// The halted waiters, by lock.
    pub(crate) waiters: [Bucket<Process>; 1 << 12],
    /// The waiters' records.
    pub(crate) slots: [Slot<Process>; MAX_CPUS],
}

/// The instance of this process.
pub(crate) static UNFORKED: Unforked = Unforked {
    current: AtomicUsize::new(0),
    generation: AtomicU32::new(0),
    noticing: AtomicBool::new(false),
    sweeping: AtomicBool::new(false),
    used: AtomicU32::new(0),
    free: AtomicU32::new(0),
    sweep_at: AtomicU32::new(0),
    swept_in_vain: AtomicU32::new(0),
    owners: [const { AtomicU64::new(0) }; MAX_CPUS],
    waiters: [const { Bucket::new() }; 1 << 12],
    slots: [const { Slot::new() }; MAX_CPUS],
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
    let used = (UNFORKED.used.load(Relaxed) as usize).min(MAX_CPUS);
    UNFORKED.owners[..used].iter().for_each(|owner| owner.store(0, Relaxed));
    let slots = UNFORKED.slots[..used].as_ptr().cast_mut();
    // SAFETY: no other thread runs, no reference to a slot is in use here, and a slot consists of
    // atomic words, all zero in a new one.
    unsafe { core::ptr::write_bytes(slots, 0, used) };
    // SAFETY: as above.
    unsafe {
        core::ptr::write_bytes(UNFORKED.waiters.as_ptr().cast_mut(), 0, UNFORKED.waiters.len())
    };
    let all = &UNFORKED;
    for word in [&all.generation, &all.used, &all.free, &all.sweep_at, &all.swept_in_vain] {
        word.store(0, Relaxed);
    }
    UNFORKED.noticing.store(false, Relaxed);
    UNFORKED.sweeping.store(false, Relaxed);
    UNFORKED.current.store(0, Relaxed);
}
