//! Restartable sequences under signals: a fault interrupts a sequence at its look and at its store;
//! a timer interrupts a thread at arbitrary instructions, and the handler itself takes locks.
//!
//! The handler only tries a lock that the interrupted thread may hold; it waits for the others.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::support::likeness::{Sequences, Torn, TornRelease, tear};
use crate::support::oracle::{self, Verdict};
use crate::support::pages::pages;
use crate::support::skip::skip;
use overlock::platform::{CheapRelease, Threads};
use overlock::{ConstLock, Hybrid, Mutex, Queued, Ticket};

/// What the handler does: `run(scene)`, in the thread that the signal interrupts.
struct Action {
    run: fn(*const ()),
    scene: *const (),
}

extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the signal comes from a timer and carries the timer's pointer, to an action that is
    // never freed.
    let action = unsafe { &*(*info).si_value().sival_ptr.cast::<Action>() };
    (action.run)(action.scene);
}

/// A timer that interrupts the thread that created it, until it is dropped.
struct Interrupts(libc::timer_t);

impl Interrupts {
    /// Calls `run(scene)` in this thread at intervals of about `every`.
    fn new<S>(scene: &'static S, run: fn(*const ()), every: Duration) -> Self {
        let action = Box::leak(Box::new(Action { run, scene: (&raw const *scene).cast() }));
        // SAFETY: all-zero bytes are a value of these structures.
        let (mut what, mut event): (libc::sigaction, libc::sigevent) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        what.sa_sigaction = handle as *const () as usize;
        what.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGRTMIN();
        event.sigev_value.sival_ptr = (&raw const *action).cast_mut().cast();
        event.sigev_notify_thread_id = oracle::thread_id();
        let every = libc::timespec { tv_sec: 0, tv_nsec: every.as_nanos() as _ };
        let times = libc::itimerspec { it_interval: every, it_value: every };
        let mut timer = std::ptr::null_mut();
        // SAFETY: the structures are filled in as timer_create(2) and sigaction(2) require, and the
        // handler is of the kind that SA_SIGINFO asks for.
        unsafe {
            assert_eq!(libc::sigaction(libc::SIGRTMIN(), &raw const what, std::ptr::null_mut()), 0);
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer);
            assert_eq!(made, 0, "timer_create: {}", std::io::Error::last_os_error());
            assert_eq!(libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()), 0);
        }
        Self(timer)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        // SAFETY: `new` created the timer. A pending signal arrives by the time this call returns.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Whether there are sequences here. Prints a skip message if not.
fn sequences_are_armed(what: &str) -> bool {
    let armed = Threads::has_restartable_sequences();
    if !armed {
        skip(&format!("{what}: no restartable sequences here (rseq(2), membarrier(2))"));
    }
    armed
}

const FLAG: u32 = 1 << 31;
const HELD: u32 = 1;

std::thread_local! {
    /// The page whose faults this thread handles, and what the handler adds to the page's word.
    static PAGE: Cell<usize> = const { Cell::new(0) };
    static ADDED: Cell<u32> = const { Cell::new(0) };
}

const PAGE_SIZE: usize = 4096;

/// Allows these accesses to a page, and no others.
fn allow(page: usize, accesses: libc::c_int) {
    // SAFETY: the caller has mapped the page, and nothing else is on it.
    assert_eq!(unsafe { libc::mprotect(page as *mut _, PAGE_SIZE, accesses) }, 0);
}

/// Sets a flag of the word at which the thread has faulted, as a waiter does.
extern "C" fn add(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel tells of a fault.
    let at = unsafe { (*info).si_addr() } as usize;
    let page = PAGE.get();
    if page == 0 || at - at % PAGE_SIZE != page {
        // SAFETY: another's fault comes again, and ends the process.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        return;
    }
    allow(page, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the word is at the start of the page, and can be accessed now.
    unsafe { &*(page as *const AtomicU32) }.fetch_or(ADDED.get(), SeqCst);
    assert!(!Threads::has_restartable_sequences() || Sequences::membarrier());
}

/// Releases a word on a page that allows only these accesses: the handler interrupts the release at
/// the first other one, and sets bits there. Returns whether it was released, and the word.
fn interrupted_release(
    release: fn(&AtomicU32) -> bool,
    accesses: libc::c_int,
    added: u32,
) -> (bool, u32) {
    // SAFETY: all-zero bytes are a value of the structure, whose handler is of the kind that
    // SA_SIGINFO asks for.
    unsafe {
        let mut what: libc::sigaction = std::mem::zeroed();
        what.sa_sigaction = add as *const () as usize;
        what.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const what, std::ptr::null_mut()), 0);
    }
    let page = pages::<AtomicU32>(PAGE_SIZE, libc::MAP_PRIVATE);
    // SAFETY: the page is aligned, never unmapped, and zero.
    let word = unsafe { &*page };
    word.store(HELD, SeqCst);
    PAGE.set(page as usize);
    ADDED.set(added);
    allow(page as usize, accesses);
    let released = release(word);
    PAGE.set(0);
    (released, word.load(SeqCst))
}

/// Between the look and the store too, and whether or not the handler changes anything.
#[test]
fn p11_a_handler_cuts_off_the_sequence_that_it_interrupts() {
    if !sequences_are_armed("whether a handler cuts off what it interrupts") {
        return;
    }
    for accesses in [libc::PROT_NONE, libc::PROT_READ] {
        for added in [0, FLAG] {
            let seen = interrupted_release(Sequences::clear_low_byte, accesses, added);
            assert_eq!(seen, (false, HELD | added), "interrupted with {accesses} allowed");
        }
    }
}

#[test]
fn a_look_and_a_store_that_nothing_cuts_off_are_found() {
    let seen = interrupted_release(TornRelease::torn, libc::PROT_READ, FLAG);
    assert_eq!(seen, (true, FLAG), "the flag is set, and the release has missed it");
}

/// Locks of one kind, and the threads that take them: a thread, the handler that interrupts it, and
/// a neighbour.
struct Scene<L: ConstLock> {
    /// Taken by the thread and its neighbour. The handler tries it.
    same: Mutex<u64, L>,
    /// Taken by the handler and the neighbour.
    other: Mutex<u64, L>,
    signals: AtomicU64,
    took_same: AtomicU64,
    neighbour: AtomicU64,
    stalled: AtomicBool,
    stop: AtomicBool,
}

/// The handler. Every eighth time it stays for long enough that the neighbour halts.
fn takes_locks<L: ConstLock + 'static>(scene: *const ()) {
    // SAFETY: the scene of `interrupted`, which is never freed.
    let scene = unsafe { &*scene.cast::<Scene<L>>() };
    *scene.other.lock() += 1;
    if let Some(mut count) = scene.same.try_lock() {
        *count += 1;
        scene.took_same.fetch_add(1, SeqCst);
    }
    if scene.signals.fetch_add(1, SeqCst).is_multiple_of(8) {
        thread::sleep(Duration::from_millis(1));
        scene.stalled.store(true, SeqCst);
    }
}

const SIGNALS: u64 = 2_000;

/// A thread takes and releases a lock while signals interrupt it; no update is lost and no thread
/// waits for ever. `begin` runs in that thread first.
fn interrupted<L: ConstLock + 'static>(limit: Duration, begin: fn()) -> Verdict {
    oracle::watched_for(limit, move |pulse| {
        begin();
        let scene: &'static Scene<L> = Box::leak(Box::new(Scene {
            same: Mutex::new(0),
            other: Mutex::new(0),
            signals: AtomicU64::new(0),
            took_same: AtomicU64::new(0),
            neighbour: AtomicU64::new(0),
            stalled: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }));
        let neighbour = thread::spawn(|| {
            while !scene.stop.load(SeqCst) {
                *scene.same.lock() += 1;
                *scene.other.lock() += 1;
                scene.neighbour.fetch_add(1, SeqCst);
            }
        });
        let interrupts = Interrupts::new(scene, takes_locks::<L>, Duration::from_micros(50));
        let mut rounds = 0;
        while scene.signals.load(SeqCst) < SIGNALS {
            *scene.same.lock() += 1;
            rounds += 1;
            if scene.stalled.swap(false, SeqCst) {
                // Only the release above calls the neighbour back.
                let before = scene.neighbour.load(SeqCst);
                while scene.neighbour.load(SeqCst) < before + 2 {
                    thread::yield_now();
                }
            }
            pulse.beat();
        }
        drop(interrupts);
        scene.stop.store(true, SeqCst);
        neighbour.join().map_err(|_| "the neighbour panicked")?;
        let neighbour = scene.neighbour.load(SeqCst);
        let same = rounds + neighbour + scene.took_same.load(SeqCst);
        let other = scene.signals.load(SeqCst) + neighbour;
        match (*scene.same.lock(), *scene.other.lock()) {
            counted if counted == (same, other) => Ok(()),
            counted => Err(format!("counted {counted:?} of {:?}", (same, other))),
        }
    })
}

const LIMIT: Duration = Duration::from_secs(60);

fn survives_interrupts<L: ConstLock + 'static>() {
    assert_eq!(interrupted::<L>(LIMIT, || {}), Ok(()));
}

each_lock! { survives_interrupts }

/// The same on a platform whose sequences a signal does not cut off.
fn torn<L: ConstLock + 'static>() -> Verdict {
    interrupted::<L>(Duration::from_secs(1), tear)
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
