//! Memory that a forked child must not inherit: the choice of the lock, and the waiters.
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

use core::ops::Deref;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use overlock::platform::syscall::{self, syscall};

/// `MADV_WIPEONFORK`.
const WIPE_ON_FORK: usize = 18;

/// See the [module documentation](self). The alignment gives it pages of its own.
#[repr(C, align(4096))]
pub(crate) struct Unforked<T>(T);

impl<T> Unforked<T> {
    /// Creates the memory of a process; `content` is all zeros.
    pub(crate) const fn new(content: T) -> Self {
        Self(content)
    }
}

impl<T> Deref for Unforked<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Whether the kernel clears such memory in a child. Kept outside it, because the child reads this.
pub(crate) struct Wiping(AtomicU32);

/// Who clears it.
const NOT_ASKED: u32 = 0;
const KERNEL: u32 = 1;
const FORK_HANDLER: u32 = 2;

impl Wiping {
    /// The kernel was not asked yet.
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(NOT_ASKED))
    }

    /// Asks the kernel to clear the memory in forked children, unless it was asked before: their
    /// children, too, find it cleared.
    pub(crate) fn ask<T>(&self, memory: &'static Unforked<T>) {
        if self.0.load(Relaxed) == NOT_ASKED {
            let will = has_own_pages::<T>() && wipe_on_fork(memory);
            self.0.store(if will { KERNEL } else { FORK_HANDLER }, Relaxed);
        }
    }

    pub(crate) fn is_kernels(&self) -> bool {
        self.0.load(Relaxed) == KERNEL
    }
}

/// Returns whether the memory has its pages to itself: they are not larger than its alignment.
fn has_own_pages<T>() -> bool {
    // SAFETY: reads a value that the kernel has passed.
    unsafe { libc::getauxval(libc::AT_PAGESZ) == align_of::<Unforked<T>>() as libc::c_ulong }
}

fn wipe_on_fork<T>(memory: &'static Unforked<T>) -> bool {
    let all = (&raw const *memory).expose_provenance();
    let advice = [all, size_of::<Unforked<T>>(), WIPE_ON_FORK, 0, 0, 0];
    // SAFETY: the range is that of the memory, in pages of its own; the call changes only what a
    // forked child finds there.
    syscall::result(unsafe { syscall(libc::SYS_madvise, advice) }).is_ok()
}
