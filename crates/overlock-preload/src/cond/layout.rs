//! Where libc keeps its flags in a condition variable, and where that leaves room for our fields.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use libc::pthread_cond_t;
use overlock::platform::report;

/// Flag, libc's: shared between processes.
pub(super) const SHARED: u32 = 1 << 0;
/// Flag, libc's: `pthread_cond_timedwait` means `CLOCK_MONOTONIC`.
pub(super) const MONOTONIC: u32 = 1 << 1;

const SIZE: usize = size_of::<pthread_cond_t>();

/// The byte of libc's flags, plus one; or zero before it is known.
static FLAGS: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy)]
pub(super) struct Layout {
    flags: u32,
}

impl Layout {
    #[inline]
    pub(super) fn get() -> Self {
        match FLAGS.load(Relaxed).checked_sub(1) {
            Some(flags) => Self { flags },
            None => Self::learn(),
        }
    }

    #[cold]
    #[inline(never)]
    fn learn() -> Self {
        let Some(flags) = Self::find() else { refuse() };
        FLAGS.store(flags + 1, Relaxed);
        Self { flags }
    }

    /// Returns the byte of libc's flags.
    #[inline]
    pub(super) fn flags(self) -> usize {
        self.flags as usize
    }

    /// Returns the index of our word number `n`, from 0 to 3: the words that follow the one of
    /// libc's flags, cyclically.
    #[inline]
    pub(super) fn place(self, n: usize) -> usize {
        (self.flags() / 8 + 1 + n) % (SIZE / 8)
    }

    /// Finds libc's flags by what `pthread_cond_init` writes for a shared, monotonic condition
    /// variable: only one aligned word can differ from a variable that is neither, and that word
    /// must hold the two flags. `None` if this libc does anything else.
    fn find() -> Option<u32> {
        if lacks_threads() {
            return Some(FLAGS_BEFORE_2_34);
        }
        let plain = initialised(libc::PTHREAD_PROCESS_PRIVATE, libc::CLOCK_REALTIME)?;
        let special = initialised(libc::PTHREAD_PROCESS_SHARED, libc::CLOCK_MONOTONIC)?;
        let mut marked = special.iter().enumerate().filter(|(_, word)| **word != 0);
        let (index, flags) = marked.next()?;
        let is_known = plain.iter().all(|word| *word == 0)
            && *flags == SHARED | MONOTONIC
            && marked.next().is_none();
        is_known.then_some(index as u32 * 4)
    }
}

/// The byte of the flags in versions of libc that had threads in a separate library.
const FLAGS_BEFORE_2_34: u32 = 36;

/// Returns whether this libc is older than 2.34, and the program has not loaded its threads.
fn lacks_threads() -> bool {
    let mut attributes = MaybeUninit::<libc::pthread_condattr_t>::uninit();
    // SAFETY: `attributes` is writable.
    unsafe { libc::pthread_condattr_init(attributes.as_mut_ptr()) };
    // SAFETY: initialised above. (See compat.c.)
    unsafe { libc::pthread_condattr_setpshared(attributes.as_mut_ptr(), 0) == libc::ENOSYS }
}

/// Returns what libc's `pthread_cond_init` writes over zeros.
fn initialised(shared: libc::c_int, clock: libc::clockid_t) -> Option<[u32; SIZE / 4]> {
    let mut attributes = MaybeUninit::<libc::pthread_condattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    let mut cond = MaybeUninit::<pthread_cond_t>::zeroed();
    // SAFETY: `attributes` is writable.
    let mut errors = unsafe { libc::pthread_condattr_init(attributes) };
    // SAFETY: initialised above.
    errors |= unsafe { libc::pthread_condattr_setpshared(attributes, shared) };
    // SAFETY: as above.
    errors |= unsafe { libc::pthread_condattr_setclock(attributes, clock) };
    // SAFETY: as above, and `cond` is writable. It has no waiters, so nothing is left to destroy.
    errors |= unsafe { libc::pthread_cond_init(cond.as_mut_ptr(), attributes) };
    // SAFETY: all its bytes were zeros or are libc's by now, and any pattern is valid.
    (errors == 0).then(|| unsafe { cond.as_ptr().cast::<[u32; SIZE / 4]>().read() })
}

/// Learns the layout at the start of the process, if it is known. Otherwise the process ends when
/// it first uses a condition variable, which many never do. (Where the type of a mutex lies can't
/// change: programs have it compiled in.)
pub(crate) fn prepare() {
    if let Some(flags) = Layout::find() {
        FLAGS.store(flags + 1, Relaxed);
    }
}

/// Ends the process: a condition variable of an unknown layout can't be ours, and libc's can't
/// release our mutexes.
fn refuse() -> ! {
    report::write(&[
        b"overlock: this libc's condition variables are unlike any that Overlock knows; ",
        b"run without Overlock\n",
    ]);
    // SAFETY: ends the process at once, without running code of the program.
    unsafe { libc::_exit(2) }
}
