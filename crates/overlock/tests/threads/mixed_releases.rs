//! One lock that some threads release by restartable sequences, and others, whose records the
//! kernel does not watch, by locked accesses. (C code is a third kind: its inline releases are
//! locked, see `crates/overlock-c/examples/both.rs`.)

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::support::likeness::{Sequences, Torn, dwell_by, tear};
use crate::support::oracle::{self, Subject, Verdict};
use crate::support::skip::skip;
use overlock::platform::{CheapRelease, Platform, Threads};
use overlock::{ConstLock, Hybrid, Queued, Ticket};

/// Unregisters this thread's record from the kernel: rseq(2). Returns whether that was possible.
fn unwatch() -> bool {
    let find = |name: &std::ffi::CStr| {
        // SAFETY: the name is valid, and the call searches all loaded objects for the symbol.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    let (offset, size) = (find(c"__rseq_offset"), find(c"__rseq_size"));
    if offset.is_null() || size.is_null() {
        return false;
    }
    // SAFETY: the C library's constants of these names: a `ptrdiff_t` and an `unsigned int`.
    let (offset, size) =
        unsafe { (*offset.cast::<libc::ptrdiff_t>(), *size.cast::<libc::c_uint>()) };
    // SAFETY: the thread control block of x86-64 begins with its own address. Elsewhere there are
    // no sequences, and this point is never reached.
    let thread = unsafe { thread_pointer() };
    let record = thread.wrapping_add_signed(offset);
    const UNREGISTER: libc::c_int = 1;
    const SIGNATURE: libc::c_uint = 0x5305_3053;
    // The registered length is at least 32 bytes, and more if the kernel knows more fields.
    [32, size, size.next_multiple_of(32)].into_iter().any(|length| {
        // SAFETY: the record belongs to this thread; the kernel only marks it as not watched.
        unsafe { libc::syscall(libc::SYS_rseq, record, length, UNREGISTER, SIGNATURE) == 0 }
    })
}

#[cfg(target_arch = "x86_64")]
unsafe fn thread_pointer() -> usize {
    let thread;
    // SAFETY: this reads the word at the start of the thread control block.
    unsafe { std::arch::asm!("mov {}, fs:[0]", out(reg) thread, options(nostack, readonly)) };
    thread
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn thread_pointer() -> usize {
    unreachable!("there are sequences on x86-64 only")
}

/// Whether threads of both kinds can exist here. Prints a skip message if not.
fn can_mix() -> bool {
    let can =
        Threads::has_restartable_sequences() && thread::spawn(unwatch).join().expect("no panic");
    if !can {
        skip("threads with and without rseq(2): there is none, or it can't be undone");
    }
    can
}

fn can_release_by_sequence() -> bool {
    let word = AtomicU32::new(1);
    (0..100).any(|_| Sequences::clear_low_byte(&word))
}

#[test]
fn a_thread_that_the_kernel_does_not_watch_has_no_sequences() {
    if can_mix() {
        assert!(can_release_by_sequence());
        let unwatched = || unwatch() && !can_release_by_sequence();
        assert!(thread::spawn(unwatched).join().expect("no panic"));
        assert!(can_release_by_sequence());
    }
}

/// A lock that every second thread releases in another way than the rest.
struct Mixed<L, B: Beginning> {
    lock: L,
    threads: AtomicU32,
    beginning: std::marker::PhantomData<B>,
}

/// What every second thread does first.
trait Beginning: Send + Sync + 'static {
    fn begin();
}

/// Unregisters the thread's record.
struct Unwatched;

impl Beginning for Unwatched {
    fn begin() {
        assert!(unwatch());
    }
}

/// Makes the thread's sequences continue whatever happens.
struct TornThread;

impl Beginning for TornThread {
    fn begin() {
        tear();
    }
}

std::thread_local! {
    static BEGUN: Cell<bool> = const { Cell::new(false) };
}

impl<L, B: Beginning> Mixed<L, B> {
    fn begin(&self) {
        // The first thread stays as it is, because glibc starts threads in the state of their
        // creator.
        if !BEGUN.replace(true) && self.threads.fetch_add(1, SeqCst) % 2 == 1 {
            B::begin();
        }
    }
}

impl<L: ConstLock + 'static, B: Beginning> Subject for Mixed<L, B> {
    fn new() -> Self {
        let (threads, beginning) = (AtomicU32::new(0), std::marker::PhantomData);
        Self { lock: L::NEW, threads, beginning }
    }
    fn lock(&self) {
        self.begin();
        self.lock.lock();
    }
    fn try_lock(&self) -> bool {
        self.begin();
        self.lock.try_lock()
    }
    fn unlock(&self) {
        // SAFETY: the oracles unlock only what they have locked.
        unsafe { self.lock.unlock() };
    }
}

/// Releases that meet a waiter on its way to halt. That very release must call the waiter back,
/// because no thread takes the lock again before the waiter has had it. Three threads release one
/// after another; with the waiter following the first, the kinds are plain, changed, plain,
/// changed.
fn meets<S: Subject>(rounds: u64, limit: Duration) -> Verdict {
    oracle::watched_for(limit, move |pulse| {
        let lock = S::new();
        let (asked, served) = (AtomicU64::new(0), AtomicU64::new(0));
        // The kernel's number of the waiter, while it is in `lock`.
        let waiting = Arc::new(AtomicI32::new(0));
        let waits = |_| {
            while served.load(SeqCst) != 3 * rounds {
                if asked.load(SeqCst) == served.load(SeqCst) {
                    thread::sleep(SHORT);
                    continue;
                }
                waiting.store(oracle::thread_id(), SeqCst);
                lock.lock();
                waiting.store(0, SeqCst);
                lock.unlock();
                served.fetch_add(1, SeqCst);
            }
        };
        let holds = |rounds: Range<u64>| {
            let waiting = Arc::clone(&waiting);
            // The waiter comes to every lock that is held, however busy the machine is.
            dwell_by(move || {
                while !oracle::sleeps(waiting.load(SeqCst)) {
                    thread::sleep(SHORT);
                }
            });
            for round in rounds {
                lock.lock();
                asked.store(round + 1, SeqCst);
                let until = Threads::now_ns() + round * 7_919 % 400_000;
                while Threads::now_ns() < until {
                    std::hint::spin_loop();
                }
                lock.unlock();
                while served.load(SeqCst) != round + 1 {
                    thread::sleep(SHORT);
                }
                pulse.beat();
            }
        };
        oracle::beside(1, &waits, || {
            for part in 0..3 {
                let rounds = part * rounds..(part + 1) * rounds;
                thread::scope(|scope| scope.spawn(|| holds(rounds)).join().expect("no panic"));
            }
        })
    })
}

const LIMIT: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_micros(20);

fn holds<L: ConstLock + 'static>() {
    if can_mix() {
        assert_eq!(oracle::excludes(oracle::new::<Mixed<L, Unwatched>>, 4, 20_000, 3), Ok(()));
        let section = Duration::from_millis(2);
        assert_eq!(
            oracle::loses_no_waiter(oracle::new::<Mixed<L, Unwatched>>, 6, 20, section),
            Ok(())
        );
        assert_eq!(meets::<Mixed<L, Unwatched>>(300, LIMIT), Ok(()));
    }
}

each_lock! { holds }

/// If a thread completed a sequence that the kernel does not watch, a waiter would be lost.
fn torn<L: ConstLock + 'static>() -> Verdict {
    meets::<Mixed<L, TornThread>>(200, Duration::from_secs(1))
}

#[test]
fn torn_locks_lose_a_waiter() {
    if Sequences::EXISTS {
        oracle::all_lose_a_waiter(&[
            ("hybrid", torn::<Hybrid<Torn>>),
            ("queued", torn::<Queued<Torn>>),
            ("ticket", torn::<Ticket<Torn>>),
        ]);
    }
}
