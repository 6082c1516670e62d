//! Do many vCPUs that read the PM timer at once get what each read rule promises?
//!
//! Time is a counter that every reading advances, so any two readings are ordered and no oracle
//! depends on the speed of this machine. Each read is logged with one reading before it and one
//! after it. The log is then judged: was any read older than one that had ended before it began
//! (monotone), or older than its rule allows (fresh)?

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;

use overlock_vcpu::host::Nanos;
use overlock_vcpu::host::pm_timer::read::{
    Clamped, Mutexed, MutualExclusion, Published, Pure, ReadRule,
};
use overlock_vcpu::host::pm_timer::{NoSci, PmTimer, TimerState, Width};

const READERS: usize = 4;
const READS: usize = 2_000;

/// One read: when it began and ended, what it returned, and whether it read the clock itself.
#[derive(Clone, Copy, Debug)]
struct Read {
    began: u64,
    value: u64,
    ended: u64,
    looked: bool,
}

thread_local! {
    /// Whether this thread's current read has read the clock.
    static LOOKED: Cell<bool> = const { Cell::new(false) };
    /// How far this thread's clock is behind.
    static SKEW: Cell<u64> = const { Cell::new(0) };
    /// Tells the test that this thread's read waits; a `fn` can't carry a channel of its own.
    static WAITS: Cell<Option<mpsc::Sender<()>>> = const { Cell::new(None) };
}

/// Makes several threads read, each with its clock behind by `skew` times its number.
fn log<R: ReadRule + Sync>(rule: &R, skew: u64) -> Vec<Read> {
    let time = AtomicU64::new(1 << 20);
    let look = || time.fetch_add(1, SeqCst);
    let logs = Mutex::new(Vec::new());
    let start = Barrier::new(READERS);
    thread::scope(|scope| {
        for n in 0..READERS {
            let (look, logs, start) = (&look, &logs, &start);
            scope.spawn(move || {
                SKEW.set(skew * n as u64);
                start.wait();
                let reads: Vec<_> = (0..READS).map(|_| read(rule, look)).collect();
                logs.lock().unwrap().extend(reads);
            });
        }
    });
    logs.into_inner().unwrap()
}

fn read<R: ReadRule>(rule: &R, look: &impl Fn() -> u64) -> Read {
    LOOKED.set(false);
    let began = look();
    let value = rule.read(|| {
        LOOKED.set(true);
        // A reader is usually interrupted here, so this lets others in now and then.
        let now = look();
        if now.is_multiple_of(64) {
            thread::yield_now();
        }
        Nanos(now - SKEW.get())
    });
    Read { began, value: value.0, ended: look(), looked: LOOKED.get() }
}

/// Oracle: no read returns less than one that had ended before it began.
fn monotone(reads: &[Read]) -> Result<(), String> {
    let mut by_end = reads.to_vec();
    by_end.sort_by_key(|read| read.ended);
    let mut by_start = reads.to_vec();
    by_start.sort_by_key(|read| read.began);
    let mut ended = by_end.iter().peekable();
    let mut latest = by_start.first().copied();
    for read in &by_start {
        while let Some(earlier) = ended.next_if(|earlier| earlier.ended < read.began) {
            latest = latest.filter(|latest| latest.value > earlier.value).or(Some(*earlier));
        }
        let latest = latest.filter(|latest| latest.ended < read.began);
        if let Some(latest) = latest.filter(|latest| latest.value > read.value) {
            return Err(format!("{latest:?}, and then {read:?}"));
        }
    }
    Ok(())
}

/// Oracle: every read returns a time no earlier than its beginning.
fn fresh(reads: &[Read]) -> Result<(), String> {
    match reads.iter().find(|read| read.value < read.began) {
        Some(stale) => Err(format!("{stale:?} is older than its request")),
        None => Ok(()),
    }
}

/// Oracle: every read returns a time no earlier than its beginning, or the result of another
/// reader's update that ended after it had begun.
fn as_fresh_as_the_last_update(reads: &[Read]) -> Result<(), String> {
    let mut updates: Vec<_> = reads.iter().filter(|read| read.looked).collect();
    updates.sort_by_key(|update| update.value);
    for read in reads {
        let update = match updates.binary_search_by_key(&read.value, |update| update.value) {
            Ok(at) => updates[at],
            Err(_) => return Err(format!("no update found what {read:?} returned")),
        };
        if read.value < read.began && update.ended < read.began {
            return Err(format!("{read:?} returned what {update:?} had found before"));
        }
    }
    Ok(())
}

fn mutexed() -> Mutexed<TellingLock> {
    Mutexed::default()
}

fn published() -> Published {
    Published::new(thread::yield_now)
}

/// The rule of `overlock::Refresh`, whose orderings the model checker covers.
struct Joined(overlock::Refresh<u64, overlock::platform::Threads>);

impl ReadRule for Joined {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        Nanos(self.0.join(|| clock().0.max(self.0.last())))
    }
}

fn joined() -> Joined {
    Joined(overlock::Refresh::zeroed())
}

#[test]
fn all_are_monotone_and_as_fresh_as_promised() {
    for reads in [log(&Pure, 0), log(&Clamped::default(), 0), log(&mutexed(), 0)] {
        monotone(&reads).unwrap();
        fresh(&reads).unwrap();
    }
    for reads in [log(&published(), 0), log(&joined(), 0)] {
        assert!(reads.iter().any(|read| !read.looked), "no reader has met another");
        monotone(&reads).unwrap();
        as_fresh_as_the_last_update(&reads).unwrap();
    }
}

#[test]
fn all_but_the_pure_are_monotone_even_if_the_clocks_differ() {
    for skew in [1, 100, 10_000] {
        monotone(&log(&Clamped::default(), skew)).unwrap();
        monotone(&log(&mutexed(), skew)).unwrap();
        monotone(&log(&published(), skew)).unwrap();
        monotone(&log(&joined(), skew)).unwrap();
    }
}

/// Broken: returns what the last reader found, without reading the clock, and updates it only now
/// and then.
#[derive(Default)]
struct Stale {
    latest: AtomicU64,
    reads: AtomicU64,
}

impl ReadRule for Stale {
    fn read(&self, clock: impl FnOnce() -> Nanos) -> Nanos {
        if self.reads.fetch_add(1, SeqCst).is_multiple_of(8) {
            self.latest.store(clock().0, SeqCst);
        }
        Nanos(self.latest.load(SeqCst))
    }
}

#[test]
fn the_oracles_catch_the_broken() {
    let stale = log(&Stale::default(), 0);
    assert!(fresh(&stale).is_err(), "a stale read went unseen");
    assert!(as_fresh_as_the_last_update(&stale).is_err(), "a stale update went unseen");
    let read = |began, value| Read { began, value, ended: began + 2, looked: true };
    assert!(monotone(&[read(10, 11), read(20, 9)]).is_err(), "time running backwards went unseen");
    // The same with threads: a rule that trusts its clock, on clocks that differ. The threads'
    // reads must overlap for this; a single round may be unlucky on a machine with few CPUs.
    let seen = (0..100).any(|_| monotone(&log(&Pure, 10_000)).is_err());
    assert!(seen, "clocks that differ went unseen");
}

#[test]
fn time_goes_on_over_wraps_and_restores_for_all_readers() {
    fn run<R: ReadRule + Sync>(make: impl Fn() -> R) {
        // Each reading takes a tenth of a second, so that 24 bits wrap all the time.
        let time = AtomicU64::new(0);
        let look = || time.fetch_add(100_000_000, SeqCst);
        let mut state = TimerState::new(Width::Bits24);
        let mut all = Vec::new();
        for _ in 0..5 {
            // Another host, whose clock started elsewhere; the log uses guest time.
            let before = state.elapsed.0;
            let origin = look();
            let clock = || Nanos(look());
            let timer = PmTimer::restore(state, clock, make(), NoSci);
            let logs = Mutex::new(Vec::new());
            thread::scope(|scope| {
                for _ in 0..READERS {
                    scope.spawn(|| {
                        let guest = || look() - origin + before;
                        let one = || {
                            let began = guest();
                            let value = timer.elapsed().0;
                            Read { began, value, ended: guest(), looked: true }
                        };
                        let reads: Vec<_> = (0..500).map(|_| one()).collect();
                        logs.lock().unwrap().extend(reads);
                    });
                }
            });
            let reads = logs.into_inner().unwrap();
            monotone(&reads).unwrap();
            let floor = all.iter().map(|read: &Read| read.value).max().unwrap_or(0);
            let least = reads.iter().map(|read| read.value).min().unwrap();
            assert!(least >= floor, "{least} ns after the restore, {floor} ns before");
            state = timer.save();
            all.extend(reads);
        }
    }
    run(|| Pure);
    run(Clamped::default);
    run(mutexed);
    run(published);
}

/// Stops one reader in the middle of reading the clock, and lets another read.
///
/// Returns what the other read, if it could return while the first was stopped, and what it read
/// otherwise. This is not timed: the second reader either returns, or reports through
/// [`tell_and_wait`] that it waits.
fn read_while_another_is_stopped<R: ReadRule + Sync>(rule: &R) -> Result<u64, u64> {
    let (returned, waits) = mpsc::channel();
    let (stopped, is_stopped) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let returns = AtomicBool::new(false);
    thread::scope(|scope| {
        let first = scope.spawn(move || {
            rule.read(|| {
                stopped.send(()).unwrap();
                may_go_on.recv().unwrap();
                Nanos(100)
            })
        });
        is_stopped.recv().unwrap();
        let second = scope.spawn(|| {
            WAITS.set(Some(returned.clone()));
            let value = rule.read(|| Nanos(200));
            returns.store(true, SeqCst);
            returned.send(()).unwrap();
            value
        });
        waits.recv().unwrap();
        let progressed = returns.load(SeqCst);
        go_on.send(()).unwrap();
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert!(second >= first, "the second reader returned {second}, the first {first}");
        if progressed { Ok(second.0) } else { Err(second.0) }
    })
}

fn tell_and_wait() {
    if let Some(waits) = WAITS.take() {
        waits.send(()).unwrap();
    }
    thread::yield_now();
}

/// A lock that reports when a thread has to wait for it.
#[derive(Default)]
struct TellingLock(AtomicBool);

impl MutualExclusion for TellingLock {
    fn with<T>(&self, section: impl FnOnce() -> T) -> T {
        while self.0.swap(true, SeqCst) {
            tell_and_wait();
        }
        let result = section();
        self.0.store(false, SeqCst);
        result
    }
}

#[test]
fn a_stopped_reader_stops_the_locked_rules_and_no_lock_free_one() {
    assert_eq!(read_while_another_is_stopped(&Pure), Ok(200));
    assert_eq!(read_while_another_is_stopped(&Clamped::default()), Ok(200));
    assert_eq!(read_while_another_is_stopped(&mutexed()), Err(200));
    // A loser returns what the winner found: it is as stale as the update is long.
    let published = Published::new(tell_and_wait);
    assert_eq!(read_while_another_is_stopped(&published), Err(100));
    assert_eq!(published.read(|| Nanos(300)), Nanos(300), "the next one looks for itself");
}
