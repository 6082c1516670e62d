//! Do random programs of pthread calls return and block as under libc?
//!
//! The programs and their specification are those of `overlock-parking-lot`, which explains them;
//! `tests/posix/stepped.c` makes the calls. `OVERLOCK_SEED=N` runs one seed again.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::support::{LOCKS, compile, program, under};

#[path = "../../../overlock-parking-lot/tests/differential/calls.rs"]
mod calls;
#[path = "../../../overlock-parking-lot/tests/differential/machine.rs"]
mod machine;
#[path = "../../../overlock-parking-lot/tests/differential/model.rs"]
mod model;
#[path = "../../../overlock-parking-lot/tests/differential/program.rs"]
mod programs;

use calls::{By, Call, Kind, Outcome, Thread, Want};
use machine::Machine;
use programs::{Cast, run, shrink};

const MUTEXES: Cast = Cast {
    name: "mutexes",
    kinds: &[Kind::Mutex, Kind::ErrorCheck],
    has_once: false,
    has_condvar: true,
    has_barrier: true,
    is_posix: true,
    gives: false,
};
const HOLDERS: Cast =
    Cast { name: "holders", kinds: &[Kind::ErrorCheck, Kind::Reentrant], ..MUTEXES };
const RECURSIVE: Cast = Cast { name: "recursive", kinds: &[Kind::Reentrant], ..MUTEXES };
const RWLOCKS: Cast = Cast {
    name: "rwlocks",
    kinds: &[Kind::ReadersFirst, Kind::WritersFirst],
    has_condvar: false,
    ..MUTEXES
};

/// A process of `stepped.c`.
struct Process {
    child: Child,
    orders: ChildStdin,
    results: ChildStdout,
    text: String,
    status: Vec<String>,
    /// What each thread was told last.
    calls: [Option<Call>; 5],
}

impl Process {
    fn new(cast: &Cast, mut command: Command) -> Self {
        let letter = |kind: &Kind| match kind {
            Kind::ErrorCheck => 'e',
            Kind::Reentrant => 'r',
            Kind::ReadersFirst => 'R',
            Kind::WritersFirst => 'W',
            _ => 'n',
        };
        command.arg(cast.kinds.iter().map(letter).collect::<String>());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("just compiled");
        let orders = child.stdin.take().expect("a pipe");
        let results = child.stdout.take().expect("a pipe");
        let mut numbers = String::new();
        // No result follows before an order, so nothing is lost with the buffer.
        let mut buffered = BufReader::new(results);
        buffered.read_line(&mut numbers).expect("the numbers of the threads");
        let results = buffered.into_inner();
        // SAFETY: the descriptor is open.
        let set = unsafe { libc::fcntl(results.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(set, 0);
        let path = |number| format!("/proc/{}/task/{number}", child.id());
        let status = numbers.split_whitespace().map(path).collect();
        Self { child, orders, results, text: String::new(), status, calls: [None; 5] }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("a child that has not ended");
    }
}

impl Machine for Process {
    fn start(&mut self, thread: Thread, call: Call) {
        let until = |by| match by {
            By::Ever => 'e',
            By::Try => 't',
            By::Past => 'p',
            By::Soon => 's',
            By::Later => 'l',
            By::Hour => 'h',
        };
        let (verb, lock, mode, until) = match call {
            Call::Acquire(lock, Want::Write, by) => ('a', lock, usize::from(b'w'), until(by)),
            Call::Acquire(lock, _, by) => ('a', lock, usize::from(b'r'), until(by)),
            Call::Release(lock, ..) => ('r', lock, 0, '-'),
            Call::ManyReads(lock, count) => ('m', lock, count, '-'),
            Call::Wait(lock, by) => ('c', lock, 0, until(by)),
            Call::NotifyOne => ('s', 0, 0, '-'),
            Call::NotifyAll => ('b', 0, 0, '-'),
            Call::Barrier => ('B', 0, 0, '-'),
            _ => unreachable!("no call of pthread: {call:?}"),
        };
        self.calls[thread] = Some(call);
        writeln!(self.orders, "{thread} {verb} {lock} {mode} {until}").expect("the process reads");
    }

    fn returned(&mut self) -> Vec<(Thread, Outcome)> {
        let mut bytes = [0; 256];
        while let Ok(length @ 1..) = self.results.read(&mut bytes) {
            self.text += std::str::from_utf8(&bytes[..length]).expect("numbers");
        }
        let (lines, rest) = self.text.rsplit_once('\n').unwrap_or(("", &self.text));
        let mut returned = vec![];
        for line in lines.lines() {
            let (thread, code) = line.split_once(' ').expect("thread and result");
            let thread: Thread = thread.parse().expect("a number");
            let call = self.calls[thread].take().expect("an answer to a call");
            returned.push((thread, outcome(call, code.parse().expect("a number"))));
        }
        self.text = rest.to_owned();
        returned
    }

    fn status(&self, thread: Thread) -> String {
        self.status[thread].clone()
    }

    fn relay(&self) -> Option<String> {
        Some(format!("/proc/{}", self.child.id()))
    }
}

/// What a code means for a call. One that it should not return is a count.
fn outcome(call: Call, code: i32) -> Outcome {
    match (call, code) {
        (Call::ManyReads(..), count) => Outcome::Count(count.unsigned_abs() as usize),
        (Call::Barrier, libc::PTHREAD_BARRIER_SERIAL_THREAD) => Outcome::Count(1),
        (_, 0) => Outcome::Done,
        (Call::Acquire(_, _, By::Try), libc::EBUSY)
        | (Call::Acquire(_, _, By::Past | By::Soon | By::Later), libc::ETIMEDOUT)
        | (Call::Wait(_, By::Past | By::Soon | By::Later), libc::ETIMEDOUT) => Outcome::Refused,
        (Call::Acquire(..), libc::EDEADLK) | (Call::Release(..), libc::EPERM) => Outcome::Wrong,
        _ => Outcome::Count(code.unsigned_abs() as usize),
    }
}

/// Runs programs until one fails.
fn search(cast: &Cast, programs: u64, command: &dyn Fn() -> Command) -> Option<String> {
    let number = |name| std::env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
    let programs = number("OVERLOCK_PROGRAMS").unwrap_or(programs);
    let new = || Box::new(Process::new(cast, command())) as Box<dyn Machine>;
    let mut seeds = number("OVERLOCK_SEED").map_or(0..programs, |seed| seed..seed + 1);
    seeds.find_map(|seed| {
        let failure = run(cast, &mut *new(), Err((seed, 40))).err()?;
        Some(format!("{}, OVERLOCK_SEED={seed}:\n{}", cast.name, shrink(cast, new, failure)))
    })
}

fn agrees(cast: &Cast, locks: &[&str]) {
    let found = search(cast, 20, &|| Command::new(program("stepped.c")));
    assert!(found.is_none(), "libc, {}", found.unwrap_or_default());
    for lock in locks {
        let found = search(cast, 12, &|| under(lock, program("stepped.c")));
        assert!(found.is_none(), "{lock}, {}", found.unwrap_or_default());
    }
}

macro_rules! agree {
    ($($name:ident: $cast:ident, $locks:expr;)*) => {$(
        #[test]
        fn $name() {
            agrees(&$cast, &$locks);
        }
    )*};
}

agree! {
    mutexes_and_conditions: MUTEXES, LOCKS;
    mutexes_that_know_their_holder: HOLDERS, LOCKS;
    recursive_mutexes_and_conditions: RECURSIVE, LOCKS;
    read_write_locks: RWLOCKS, LOCKS;
}

/// Two threads wait for a condition, and a third one wakes both: rare in random programs, and rarer
/// on a busy machine, where deadlines pass between two steps.
const BROADCAST: &[(Thread, Call)] = &[
    (0, Call::Acquire(0, Want::Write, By::Ever)),
    (0, Call::Wait(0, By::Ever)),
    (1, Call::Acquire(0, Want::Write, By::Ever)),
    (1, Call::Wait(0, By::Ever)),
    (2, Call::NotifyAll),
];

/// `tests/posix/broken.c` has one fault at a time.
#[test]
fn broken_libraries_are_found() {
    let library = compile("broken.c", "broken-differential.so", &["-shared", "-fPIC"]);
    for (cast, fault) in [
        (MUTEXES, "lock_does_nothing"),
        (MUTEXES, "trylock_always_succeeds"),
        (MUTEXES, "trylock_has_the_wrong_error"),
        (MUTEXES, "deadline_is_forgotten"),
        (MUTEXES, "deadline_comes_early"),
        (MUTEXES, "wait_never_releases_the_mutex"),
        (MUTEXES, "wait_returns_without_the_mutex"),
        (MUTEXES, "timed_wait_hides_its_timeout"),
        (MUTEXES, "signal_does_nothing"),
        (MUTEXES, "broadcast_wakes_one"),
        (MUTEXES, "barrier_does_nothing"),
        (MUTEXES, "barrier_has_two_serial_threads"),
        (HOLDERS, "relock_is_allowed"),
        (HOLDERS, "unlock_by_anybody"),
        (RWLOCKS, "rwlock_does_nothing"),
        (RWLOCKS, "rwlock_hides_its_timeout"),
    ] {
        let command = || {
            let mut command = Command::new(program("stepped.c"));
            command.env("LD_PRELOAD", &library).env("BROKEN", fault);
            command
        };
        let random = (0..40).map(|seed| Err((seed, 40)));
        let known = cast.has_condvar.then_some(Ok(BROADCAST));
        let is_found = |script| run(&cast, &mut Process::new(&cast, command()), script).is_err();
        assert!(known.into_iter().chain(random).any(is_found), "{fault}");
    }
}
