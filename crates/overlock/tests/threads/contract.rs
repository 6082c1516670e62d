//! The platform contract, clause by clause (`platform.rs`), for the platforms that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU16, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::support::alone::is_alone;
use crate::support::child::Child;
use crate::support::oracle::{Verdict, beside, sleeps, thread_id, watched_for};
use crate::support::skip::skip;
use overlock::counters::Event;
use overlock::platform::{CheapRelease, MAX_CPUS, Native, Platform, Shared, Threads};
use overlock::{Hybrid, Mutex, Queued, RawLock, RawTimedLock, TestAndSet, Ticket};

/// How `Threads` releases.
type Sequences = <Threads as Platform>::Release;

const MS: u64 = 1_000_000;

#[test]
fn p1_wait_returns_at_once_if_the_word_differs() {
    Threads::wait(&AtomicU32::new(0), 1, None);
    Shared::wait(&AtomicU32::new(0), 1, None);
}

/// How a thread waits until a deadline.
type Wait = fn(&AtomicU32, Option<u64>);

/// Whether a wait until a deadline sleeps, and ends without a kick. It may end early (P2), so a
/// thread waits again until another has seen it asleep.
fn sleeps_until_its_deadline(wait: Wait, limit: Duration) -> Verdict {
    let (waiter, seen) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(false)));
    let waits = {
        let (waiter, seen) = (Arc::clone(&waiter), Arc::clone(&seen));
        move || {
            waiter.store(thread_id(), SeqCst);
            let word = AtomicU32::new(0);
            while !seen.load(SeqCst) {
                wait(&word, Some(Threads::now_ns() + 20 * MS));
            }
        }
    };
    let until_seen = Arc::clone(&seen);
    let verdict = watched_for(limit, move |_| {
        let waits = thread::spawn(waits);
        while !sleeps(waiter.load(SeqCst)) && !waits.is_finished() {
            thread::yield_now();
        }
        seen.store(true, SeqCst);
        waits.join().map_err(|_| "the waiter panicked".into())
    });
    until_seen.store(true, SeqCst);
    verdict
}

#[test]
fn a_wait_sleeps_until_its_deadline() {
    let limit = Duration::from_secs(60);
    for wait in [
        |word: &AtomicU32, at| Threads::wait(word, 0, at),
        |word: &AtomicU32, at| Shared::wait(word, 0, at),
    ] {
        sleeps_until_its_deadline(wait, limit).unwrap();
        // With a deadline in the past, it does not sleep at all.
        wait(&AtomicU32::new(0), Some(1));
    }
    let limit = Duration::from_millis(200);
    assert!(sleeps_until_its_deadline(|_, _| {}, limit).is_err(), "it never sleeps");
    let forgets: Wait = |word, _| Threads::wait(word, 0, None);
    assert!(sleeps_until_its_deadline(forgets, limit).is_err(), "it never ends");
}

/// P3: a change followed by a kick is never lost, at whatever moment of a wait it comes.
fn p3_a_kick_after_a_change_is_not_lost<P: Platform<Word = AtomicU32>>(kick: fn(&AtomicU32)) {
    for round in 0..2_000_u32 {
        let word = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(SeqCst) == 0 {
                    P::wait(&word, 0, None);
                }
            });
            for _ in 0..round % 100 * 20 {
                std::hint::spin_loop();
            }
            word.store(1, SeqCst);
            kick(&word);
        });
    }
}

#[test]
fn p3_threads_kick() {
    let me = Threads::cpu().unwrap();
    assert!(me.index() < MAX_CPUS);
    p3_a_kick_after_a_change_is_not_lost::<Threads>(|word| {
        Threads::kick(word, Threads::cpu().unwrap());
    });
}

#[test]
fn p3_shared_kick_any() {
    p3_a_kick_after_a_change_is_not_lost::<Shared>(|word| _ = Shared::kick_any(word));
}

#[test]
fn kick_every_calls_all_back() {
    let word = AtomicU32::new(0);
    let waits = |_| {
        while word.load(SeqCst) == 0 {
            Threads::wait(&word, 0, None);
        }
    };
    beside(8, &waits, || {
        thread::sleep(Duration::from_millis(20));
        word.store(1, SeqCst);
        Threads::kick_every(&word);
    })
    .unwrap();
}

#[test]
fn p4_a_kick_that_nobody_waits_for_is_harmless() {
    let me = Threads::cpu().unwrap();
    let gone = {
        let word = Box::new(AtomicU32::new(0));
        &raw const *word
    };
    Threads::kick(gone, me);
    Threads::kick_any(gone);
    Shared::kick_any(std::ptr::null());
    Native::kick(gone, me);
}

#[test]
fn p7_numbers_are_kept_and_unique_among_the_living() {
    let mine = Threads::cpu().unwrap();
    assert_eq!(Threads::cpu(), Some(mine));
    let threads = 500;
    let gate = std::sync::Barrier::new(threads);
    let lives = || {
        let number = Threads::cpu().unwrap().index();
        gate.wait();
        number
    };
    let mut unique: Vec<_> = thread::scope(|scope| {
        let small = || thread::Builder::new().stack_size(64 << 10);
        let start = |_| small().spawn_scoped(scope, lives).unwrap();
        let living: Vec<_> = (0..threads).map(start).collect();
        living.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    unique.push(mine.index());
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), threads + 1);
}

#[test]
fn p7_numbers_of_the_dead_are_used_again() {
    let mut most = 0;
    for _ in 0..MAX_CPUS * 2 {
        let number = thread::spawn(|| Threads::cpu().map(|cpu| cpu.index())).join().unwrap();
        most = most.max(number.expect("a number should be free: nearly all threads are dead"));
    }
    assert!(most < 2_000, "numbers leak: {most} was given out");
}

/// Another crate may enable the feature `threads`; that must not change what this platform is.
#[test]
fn p7_p9_native_has_neither_numbers_nor_a_clock() {
    assert_eq!(Native::cpu(), None);
    assert_eq!(Native::now_ns(), 0);
}

#[test]
fn p9_the_clock_does_not_go_backwards() {
    let mut before = Threads::now_ns();
    for _ in 0..100_000 {
        let now = Threads::now_ns();
        assert!(now >= before);
        before = now;
    }
}

#[test]
fn p10_waiting_can_be_switched_off() {
    if !is_alone("contract::p10_waiting_can_be_switched_off") {
        return;
    }
    overlock::lock_class!(SpinOnly);
    assert!(Threads::set_waiting(true));
    assert!(Threads::set_waiting(false) && Threads::set_waiting(false));
    fn contend<L: overlock::ConstLock + 'static>() {
        let shared = Mutex::<u32, L>::new(0);
        thread::scope(|scope| {
            let guard = shared.lock();
            scope.spawn(|| *shared.lock() += 1);
            thread::sleep(Duration::from_millis(20));
            drop(guard);
        });
        assert_eq!(*shared.lock(), 1);
    }
    contend::<TestAndSet<Threads, SpinOnly>>();
    contend::<Ticket<Threads, SpinOnly>>();
    contend::<Queued<Threads, SpinOnly>>();
    contend::<Hybrid<Threads, SpinOnly>>();
    for event in [Event::PvWaitHead, Event::PvWaitNode, Event::PvKickUnlock] {
        assert_eq!(SpinOnly::counters().get(event), 0, "{}", event.name());
    }
    assert!(!Threads::set_waiting(true), "waiting was switched on again");
}

#[test]
fn p10_waiting_stays_on_once_a_waiter_has_halted() {
    if !is_alone("contract::p10_waiting_stays_on_once_a_waiter_has_halted") {
        return;
    }
    overlock::lock_class!(Halts);
    let lock = TestAndSet::<Threads, Halts>::new();
    lock.lock();
    while Halts::counters().get(Event::PvWaitNode) == 0 {
        assert!(!lock.try_lock_until(Threads::now_ns() + MS));
    }
    assert!(!Threads::set_waiting(false), "waiting was switched off after a halt");
    assert!(Threads::set_waiting(true));
}

/// Whether `Threads` has restartable sequences here. If the system has what they need, it must have
/// them. Prints a skip message if not.
fn sequences_are_armed() -> bool {
    // SAFETY: the name is valid, and the call searches all loaded objects for the symbol.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) };
    // SAFETY: the symbol is an unsigned int where it exists.
    let registered = !size.is_null() && unsafe { *size.cast::<libc::c_uint>() } != 0;
    // SAFETY: no memory is passed.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) };
    let needed = Sequences::EXISTS && registered && commands > 0 && commands & 1 << 7 != 0;
    assert_eq!(Threads::has_restartable_sequences(), needed);
    if !needed {
        skip("no restartable sequences here (rseq(2), membarrier(2))");
    }
    needed
}

#[test]
fn p11_a_sequence_changes_what_it_names_and_nothing_else() {
    if !sequences_are_armed() {
        return;
    }
    let queued = 0x0001_ef07;
    let (word, halves) = (AtomicU32::new(queued), [const { AtomicU16::new(u16::MAX) }; 3]);
    assert!(!Sequences::clear_low_byte(&word));
    assert!(!Sequences::add_half(&halves[1], 3, 1 << 15));
    assert_eq!((word.load(SeqCst), halves[1].load(SeqCst)), (queued, u16::MAX));
    word.store(0x0000_ef07, SeqCst);
    assert!((0..100).any(|_| Sequences::clear_low_byte(&word)));
    assert!((0..100).any(|_| Sequences::add_half(&halves[1], 3, 0)));
    assert_eq!(word.load(SeqCst), 0x0000_ef00);
    assert_eq!(halves.map(|half| half.into_inner()), [u16::MAX, 2, u16::MAX]);
}

#[test]
fn p11_the_lowest_bit_is_set_where_the_lowest_byte_is_zero() {
    for (word, after) in [(0, Some(1)), (0xabcd_ef00, Some(0xabcd_ef01)), (1, None), (1 << 7, None)]
    {
        let cell = AtomicU32::new(word);
        let taken = Sequences::set_lowest_bit(&cell);
        // Where there are no sequences, the fast path need not pass a queue.
        let refused = word >> 8 != 0 && !sequences_are_armed();
        assert_eq!(taken, after.is_some() && !refused, "{word:#x}");
        assert_eq!(cell.load(SeqCst), if taken { after.unwrap() } else { word });
    }
}

/// One thread takes a lock and releases it by a sequence, which refuses if it finds a flag. Another
/// thread sets the flag and, if `membarrier` allows, cuts the sequences off. Returns how many
/// releases missed the flag before `membarrier` returned, and whether one missed it although the
/// lock was seen held after `membarrier` returned; a waiter that relied on the flag would then wait
/// for ever. Runs until the second has happened or `enough` accepts the first, at most for as long
/// as two threads may need to get two CPUs.
fn flags_missed(membarrier: fn() -> bool, enough: fn(u32) -> bool) -> (u32, bool) {
    const FLAG: u32 = 1 << 31;
    let (word, found, stop) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
    let mut early = 0;
    let mut late = false;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                if word.compare_exchange(0, 1, SeqCst, SeqCst).is_ok()
                    && !Sequences::clear_low_byte(&word)
                    && word.fetch_and(!0xff, SeqCst) & FLAG != 0
                {
                    found.fetch_add(1, SeqCst);
                }
            }
        });
        let (least, most) = (Threads::now_ns() + 300 * MS, Threads::now_ns() + 10_000 * MS);
        while !late && Threads::now_ns() < if enough(early) { least } else { most } {
            let before = found.load(SeqCst);
            word.fetch_or(FLAG, SeqCst);
            late |= !membarrier();
            let held = word.load(SeqCst) & 0xff != 0;
            while word.load(SeqCst) & 0xff != 0 {
                std::hint::spin_loop();
            }
            // A release that finds the flag reports it only after it has cleared the byte.
            let grace = Threads::now_ns() + if held { 50 * MS } else { 0 };
            while found.load(SeqCst) == before && Threads::now_ns() < grace {
                std::hint::spin_loop();
            }
            let missed = found.load(SeqCst) == before;
            late |= held && missed;
            early += u32::from(!held && missed);
            word.fetch_and(!FLAG, SeqCst);
        }
        stop.store(true, SeqCst);
    });
    (early, late)
}

#[test]
fn p11_a_release_after_membarrier_misses_nothing() {
    if !sequences_are_armed() {
        return;
    }
    let (early, late) = flags_missed(Sequences::membarrier, |early| early > 0);
    assert!(!late, "missed after membarrier, or membarrier was refused");
    // The same without `membarrier`: a late miss is found if the two threads meet.
    let (_, found) = flags_missed(|| true, |_| false);
    if early == 0 || !found {
        skip("whether sequences are cut off: two threads hardly ran at the same time");
    }
}

fn holds_in_a_child(child: impl FnOnce() -> bool) -> bool {
    Child::new(|| assert!(child())).ends_well()
}

#[test]
fn p11_sequences_can_be_cut_off_after_a_fork() {
    if !sequences_are_armed() {
        return;
    }
    assert!(holds_in_a_child(|| {
        let word = AtomicU32::new(0);
        Sequences::membarrier() && (0..100).any(|_| Sequences::clear_low_byte(&word))
    }));
}

#[test]
fn p13_a_child_is_of_another_generation() {
    let mine = Threads::generation();
    assert!(holds_in_a_child(|| {
        let childs = Threads::generation();
        childs != mine && holds_in_a_child(|| ![mine, childs].contains(&Threads::generation()))
    }));
    assert_eq!(Threads::generation(), mine);
    assert_eq!((Shared::generation(), Native::generation()), (0, 0));
    assert!(holds_in_a_child(|| (Shared::generation(), Native::generation()) == (0, 0)));
}
