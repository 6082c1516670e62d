//! A fork at every step of a lock operation: the child can use every lock that was free and every
//! lock that its own thread holds, and finds the others taken. No lock is left in between.
//!
//! ```text
//!   tracer (this test)          process under test
//!                               worker                       forker
//!   steps the worker by one --> lock, or unlock, of A        waits
//!   "fork"  ---------------------------------------------->  forks; the child tries A and B,
//!   <------------------------------------------------------  reports what it found
//!   steps the worker by one ...
//! ```
//!
//! The worker is stopped while the forker forks. It stops at each instruction of the operation; the
//! process forks the first two times that the worker reaches an instruction ([`TIMES`]).

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::FromRawFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::child;
use crate::support::likeness::Unmended;
use crate::support::oracle::{asleep, thread_id};
use crate::support::skip::skip;
use crate::support::stepped::{Stepped, Stop};
use overlock::counters::Uncounted;
use overlock::platform::{Platform, Threads};
use overlock::raw::Narrow;
use overlock::{ConstLock, Guard, Hybrid, Mutex, Queued, RawTimedLock, TestAndSet, Ticket};

type Held<L> = Option<Guard<'static, u64, L>>;

struct Operation<L: ConstLock + 'static> {
    /// Whether the forker holds A beforehand, until it is told to release it.
    waits: bool,
    /// What the worker does before the first step.
    before: fn(&'static Mutex<u64, L>) -> Held<L>,
    stepped: fn(&'static Mutex<u64, L>, Held<L>),
}

/// The worker waits for A, which the forker holds, takes it and releases it.
fn waits<L: ConstLock + 'static>() -> Operation<L> {
    Operation { waits: true, before: |_| None, stepped: |a, _| *a.lock() += 1 }
}

/// The worker releases A, for which another thread sleeps, and takes it again.
fn releases<L: ConstLock + 'static>() -> Operation<L> {
    let before = |a: &'static Mutex<u64, L>| {
        let held = a.lock();
        let waiter = AtomicI32::new(0);
        let waiter: &'static AtomicI32 = Box::leak(Box::new(waiter));
        thread::spawn(|| {
            waiter.store(thread_id(), SeqCst);
            *a.lock() += 1;
        });
        while asleep(waiter.load(SeqCst)).is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        Some(held)
    };
    let stepped = |a: &'static Mutex<u64, L>, held| {
        drop(held);
        *a.lock() += 1;
    };
    Operation { waits: false, before, stepped }
}

/// The worker waits for A, which the forker never releases, and gives up.
fn gives_up<L: ConstLock + RawTimedLock + 'static>() -> Operation<L> {
    let stepped = |a: &'static Mutex<u64, L>, _| {
        let deadline_ns = Threads::now_ns() + 2_000_000_000;
        assert!(a.try_lock_until(deadline_ns).is_none());
    };
    Operation { waits: true, before: |_| None, stepped }
}

/// The orders to the forker, and its answer if the child found everything right.
const GO: u8 = b'g';
const FORK: u8 = b'f';
const UNLOCK: u8 = b'u';
const FINE: u8 = b'+';

/// Marks the beginning and the end of the part that is stepped through.
const MARK: i32 = libc::SIGUSR1;

/// How often a child takes each lock: more often than a waiter that the child does not have may be
/// passed.
const ROUNDS: u64 = 5_000;

/// Runs in the forked child, whose thread holds A if `held` is a guard.
fn tries<L: ConstLock>(
    a: &'static Mutex<u64, L>,
    b: &'static Mutex<u64, L>,
    held: Held<L>,
) -> bool {
    let own = held.is_some();
    drop(held);
    for (lock, is_free) in [(a, own), (b, true)] {
        match lock.try_lock() {
            Some(guard) => drop(guard),
            None if is_free => return false,
            // Another thread held A when the process forked, so A stays held.
            None => continue,
        }
        for _ in 0..ROUNDS {
            *lock.lock() += 1;
        }
    }
    true
}

/// Forks, and returns whether the child found everything right.
fn fork(child: impl FnOnce() -> bool) -> bool {
    let limit_s = std::env::var(LIMIT_S).ok().and_then(|s| s.parse().ok());
    child::Child::limited(limit_s.unwrap_or(30), || assert!(child())).ends_well()
}

/// Runs in the process under test: starts the worker, and is itself the forker.
fn serve<L: ConstLock + 'static>(operation: Operation<L>) -> ! {
    static WORKER: AtomicI32 = AtomicI32::new(0);
    static GONE_ON: AtomicBool = AtomicBool::new(false);
    let lock = || -> &'static Mutex<u64, L> { Box::leak(Box::new(Mutex::new(0))) };
    let (a, b) = (lock(), lock());
    let mut held = operation.waits.then(|| a.lock());
    thread::spawn(move || {
        // The steps leave out what a thread does once in its life, which may take libc's own locks,
        // and the forker needs those.
        assert!(Threads::cpu().is_some());
        let before = (operation.before)(a);
        WORKER.store(thread_id(), SeqCst);
        while !GONE_ON.load(SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: the tracer intercepts the signal.
        unsafe { libc::raise(MARK) };
        (operation.stepped)(a, before);
        // SAFETY: as above.
        unsafe { libc::raise(MARK) };
    });
    while WORKER.load(SeqCst) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: both are open, and the test harness has finished writing to them.
    let (mut orders, mut answers) = unsafe { (File::from_raw_fd(0), File::from_raw_fd(1)) };
    writeln!(answers, "\n{HELLO}{}", WORKER.load(SeqCst)).expect("the tracer listens");
    let mut order = [0];
    while orders.read_exact(&mut order).is_ok() {
        let mut answer = FINE;
        match order[0] {
            GO => GONE_ON.store(true, SeqCst),
            UNLOCK => held = None,
            _ => {
                let fine = fork(|| tries(a, b, held.take()));
                answer = if fine { FINE } else { b'-' };
            }
        }
        answers.write_all(&[answer]).expect("the tracer listens");
    }
    std::process::exit(0);
}

/// What the process under test prints before the number of its worker.
const HELLO: &str = "worker ";
/// Environment variables that make it the process under test, and that limit the time of a child.
const SERVE: &str = "OVERLOCK_TEST_STEPS";
const LIMIT_S: &str = "OVERLOCK_TEST_CHILD_S";

/// The process under test; dropping this value ends it.
struct Subject(Child, BufReader<ChildStdout>);

impl Subject {
    /// Starts this test once more as the process under test. Returns it and its worker.
    fn new(test: &str, limit_s: u32) -> (Self, i32) {
        let mut child = Command::new(std::env::current_exe().expect("the path of this test"))
            .args(["--exact", test, "--nocapture"])
            .env(SERVE, "1")
            .env(LIMIT_S, limit_s.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test can be started");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut subject = Self(child, output);
        let mut line = String::new();
        while !line.starts_with(HELLO) {
            line.clear();
            assert!(subject.1.read_line(&mut line).expect("it is text") > 0, "it has ended");
        }
        let worker = line[HELLO.len()..].trim().parse().expect("a number");
        (subject, worker)
    }

    /// Sends an order to the forker, and returns whether the child found everything right.
    fn tell(&mut self, order: u8) -> bool {
        let mut answer = [0];
        let orders = self.0.stdin.as_mut().expect("it is piped");
        orders.write_all(&[order]).expect("the forker listens");
        self.1.read_exact(&mut answer).expect("the forker answers");
        answer[0] == FINE
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many stops at the same instruction lead to a fork.
const TIMES: u32 = 2;

/// Forks at every step. Returns the number of forks, `None` if this process may not trace, or the
/// number of the fork whose child did not find everything right.
fn forks(test: &str, unlocks: bool, limit_s: u32) -> Result<Option<usize>, usize> {
    let (mut subject, worker) = Subject::new(test, limit_s);
    let Some(worker) = Stepped::seize(worker) else { return Ok(None) };
    subject.tell(GO);
    while worker.wait() != Stop::Signal(MARK) {
        thread::sleep(Duration::from_millis(1));
    }
    let mut times = HashMap::<u64, u32>::new();
    let mut forks = 0;
    loop {
        match worker.step() {
            Stop::Step => {
                let times = times.entry(worker.at()).or_default();
                *times += 1;
                if *times > TIMES {
                    continue;
                }
            }
            Stop::Asleep => {
                if !subject.tell(FORK) {
                    return Err(forks);
                }
                if unlocks {
                    subject.tell(UNLOCK);
                }
                let end = Instant::now() + Duration::from_secs(60);
                while worker.wait() == Stop::Asleep {
                    assert!(Instant::now() < end, "the worker is not called back");
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Stop::Signal(_) | Stop::Gone => return Ok(Some(forks)),
        }
        if !subject.tell(FORK) {
            return Err(forks);
        }
        forks += 1;
    }
}

macro_rules! tests {
    ($($name:ident: $lock:ty, $operation:ident, unlocks $unlocks:literal;)*) => {$(
        #[test]
        fn $name() {
            if std::env::var_os(SERVE).is_some() {
                serve::<$lock>($operation());
            }
            match forks(concat!("fork_steps::", stringify!($name)), $unlocks, 30) {
                Ok(Some(forks)) => assert!(forks > 50, "only {forks} forks"),
                Ok(None) => skip("forks at every step: this process may not trace"),
                Err(after) => panic!("the child of fork number {after} did not find everything right"),
            }
        }
    )*};
}

tests! {
    test_and_set_waits: TestAndSet<Threads>, waits, unlocks true;
    test_and_set_releases: TestAndSet<Threads>, releases, unlocks false;
    test_and_set_gives_up: TestAndSet<Threads>, gives_up, unlocks false;
    ticket_waits: Ticket<Threads>, waits, unlocks true;
    ticket_releases: Ticket<Threads>, releases, unlocks false;
    narrow_ticket_waits: Ticket<Threads, Uncounted, Narrow>, waits, unlocks true;
    queued_waits: Queued<Threads>, waits, unlocks true;
    queued_releases: Queued<Threads>, releases, unlocks false;
    queued_gives_up: Queued<Threads>, gives_up, unlocks false;
    hybrid_waits: Hybrid<Threads>, waits, unlocks true;
    hybrid_releases: Hybrid<Threads>, releases, unlocks false;
    hybrid_gives_up: Hybrid<Threads>, gives_up, unlocks false;
}

macro_rules! found {
    ($($name:ident: $lock:ty;)*) => {$(
        #[test]
        fn $name() {
            if std::env::var_os(SERVE).is_some() {
                serve::<$lock>(waits());
            }
            match forks(concat!("fork_steps::", stringify!($name)), true, 2) {
                Ok(None) => skip("forks at every step: this process may not trace"),
                verdict => assert!(verdict.is_err(), "nothing found in {verdict:?} forks"),
            }
        }
    )*};
}

found! {
    an_unmended_ticket_is_found: Ticket<Unmended>;
    an_unmended_queued_is_found: Queued<Unmended>;
    an_unmended_hybrid_is_found: Hybrid<Unmended>;
}
