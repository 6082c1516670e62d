//! Restartable sequences under signals: a timer interrupts a thread at arbitrary instructions, in
//! the middle of sequences too, and the handler itself takes locks.
//!
//! The handler only tries a lock that the interrupted thread may hold; it waits for the others.

#![cfg(feature = "threads")]

mod support {
    pub(crate) mod likeness;
    pub(crate) mod oracle;
    pub(crate) mod skip;
}

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use overlock::platform::{CheapRelease, Platform, Threads};
use overlock::{ConstLock, Hybrid, Mutex, Queued, TestAndSet, Ticket};
use support::likeness::{Sequences, Torn, TornRelease, tear};
use support::oracle::{self, Verdict};
use support::skip::skip;

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
        // SAFETY: no arguments.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
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

/// A word that is held and released, and what its thread is doing.
struct Released {
    word: AtomicU32,
    releasing: AtomicBool,
    signals: AtomicU32,
    flagged: AtomicU32,
}

/// Every second time, sets the flag of the word whose release it interrupts, and cuts that release
/// off.
fn flags(scene: *const ()) {
    // SAFETY: the scene of `interrupted_releases`, which is never freed.
    let scene = unsafe { &*scene.cast::<Released>() };
    let turn = scene.signals.fetch_add(1, SeqCst);
    let held = scene.word.load(SeqCst) == 1;
    if turn % 2 == 0 && held && scene.releasing.load(SeqCst) {
        scene.word.fetch_or(FLAG, SeqCst);
        assert!(Sequences::membarrier());
        scene.flagged.fetch_add(1, SeqCst);
    }
}

/// What happened to releases that signals interrupted.
#[derive(Debug, Default)]
struct Seen {
    /// How often the handler set the flag before the word was released.
    flagged: u32,
    /// How often the release then did not see the flag.
    missed: u32,
    /// How often a release was refused for no reason other than a signal.
    cut: u32,
}

/// Releases a word by `release` until `enough` accepts what signals have hit, or for two minutes:
/// on a busy machine, signals hit what follows a switch, and hardly ever a sequence.
fn interrupted_releases(release: fn(&AtomicU32) -> bool, enough: fn(&Seen) -> bool) -> Seen {
    let scene: &'static Released = Box::leak(Box::new(Released {
        word: AtomicU32::new(0),
        releasing: AtomicBool::new(false),
        signals: AtomicU32::new(0),
        flagged: AtomicU32::new(0),
    }));
    let mut seen = Seen::default();
    let interrupts = Interrupts::new(scene, flags, Duration::from_micros(40));
    let end = Threads::now_ns() + 120_000_000_000;
    while !enough(&seen) && Threads::now_ns() < end {
        for _ in 0..1_000 {
            scene.word.store(1, SeqCst);
            scene.releasing.store(true, SeqCst);
            let released = release(&scene.word);
            scene.releasing.store(false, SeqCst);
            let flagged = scene.word.swap(0, SeqCst) & FLAG != 0;
            seen.missed += u32::from(flagged && released);
            seen.cut += u32::from(!flagged && !released);
        }
        seen.flagged = scene.flagged.load(SeqCst);
    }
    drop(interrupts);
    seen
}

#[test]
fn p11_a_handler_cuts_off_the_sequence_that_it_interrupts() {
    if !sequences_are_armed("whether a handler cuts off what it interrupts") {
        return;
    }
    let seen = interrupted_releases(Sequences::clear_low_byte, |seen| {
        seen.flagged >= 1_000 && seen.cut >= 2
    });
    assert_eq!(seen.missed, 0, "{seen:?}");
    assert!(seen.flagged > 0 && seen.cut > 0, "no signal hit a sequence in two minutes: {seen:?}");
}

#[test]
fn a_look_and_a_store_that_nothing_cuts_off_are_found() {
    let seen = interrupted_releases(TornRelease::torn, |seen| seen.missed > 0);
    assert!(seen.missed > 0 && seen.cut == 0, "{seen:?}");
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

#[test]
fn test_and_set() {
    assert_eq!(interrupted::<TestAndSet<Threads>>(LIMIT, || {}), Ok(()));
}

#[test]
fn ticket() {
    assert_eq!(interrupted::<Ticket<Threads>>(LIMIT, || {}), Ok(()));
}

#[test]
fn queued() {
    assert_eq!(interrupted::<Queued<Threads>>(LIMIT, || {}), Ok(()));
}

#[test]
fn hybrid() {
    assert_eq!(interrupted::<Hybrid<Threads>>(LIMIT, || {}), Ok(()));
}

/// The same on a platform whose sequences a signal does not cut off.
fn is_found<L: ConstLock + 'static>() {
    if !Sequences::EXISTS {
        return;
    }
    let verdict = interrupted::<L>(Duration::from_secs(3), tear);
    assert_eq!(verdict, Err("no progress: a waiter was lost".to_owned()));
}

/// All at once, because each waits for its watchdog.
#[test]
fn torn_locks_lose_a_waiter() {
    thread::scope(|scope| {
        scope.spawn(is_found::<Hybrid<Torn>>);
        scope.spawn(is_found::<Queued<Torn>>);
        scope.spawn(is_found::<Ticket<Torn>>);
    });
}
