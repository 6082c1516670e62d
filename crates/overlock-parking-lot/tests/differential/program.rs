//! Random programs of calls, in lock step with the specification.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use overlock::platform::Costs;

use super::machine::Machine;
use super::model::{By, Call, End, Hold, Kind, Lock, Mode, Once, Outcome, State, Thread, Want};

/// Threads of a program. One more makes no calls but the last ones, so it never waits.
pub(crate) const THREADS: usize = 4;
/// How many looks at sleepers, 1 ms apart, before a call that should have returned has failed to.
const PATIENCE: u32 = 1500;
/// How long a lock that is handed over is kept for a waiter that gets no processor: then any other
/// may take it.
pub(crate) const RESERVED: Duration = Duration::from_nanos(Costs::DEFAULT.reserved_ns);
/// Read locks at once: more than 16 bits count.
const MANY: usize = 70_000;

pub(crate) type Step = (Thread, Call);

/// What programs consist of.
#[derive(Clone, Copy)]
pub(crate) struct Cast {
    pub(crate) name: &'static str,
    pub(crate) kinds: &'static [Kind],
    pub(crate) has_once: bool,
    pub(crate) has_condvar: bool,
    pub(crate) has_barrier: bool,
    /// Calls are those of pthread.
    pub(crate) is_posix: bool,
    /// Whether another thread may release what one has taken.
    pub(crate) gives: bool,
}

/// Numbers that look random: splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }

    fn of<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())]
    }

    fn call(&mut self, cast: &Cast, state: &State, thread: Thread) -> Call {
        use Want::{Read, Recursive, Upgradable, Upgrade, Write};
        let lock = self.below(cast.kinds.len());
        let is_rw = cast.kinds[lock].is_rw();
        let by = match self.below(12) {
            0..5 => By::Ever,
            by => [By::Try, By::Try, By::Past, By::Soon, By::Hour, By::Hour, By::Later][by - 5],
        };
        let mine: Vec<Hold> = state.holds.iter().filter(|h| h.thread == thread).copied().collect();
        let end = self.of(&[End::Returns, End::Panics, End::Stays]);
        match self.below(24) {
            0..6 if !mine.is_empty() => {
                let hold = self.of(&mine);
                match self.below(6) {
                    0 => Call::Bump(hold.lock, hold.mode),
                    1 => Call::Give(self.below(THREADS), hold.lock, hold.mode),
                    2 if hold.mode == Mode::Write => Call::Downgrade(
                        hold.lock,
                        hold.mode,
                        self.of(&[Mode::Read, Mode::Upgradable]),
                    ),
                    2 if hold.mode == Mode::Upgradable => {
                        Call::Downgrade(hold.lock, hold.mode, Mode::Read)
                    }
                    fair => Call::Release(hold.lock, hold.mode, fair == 3),
                }
            }
            6 => Call::IsLocked(lock),
            7 if is_rw => Call::IsLockedExclusive(lock),
            8 if is_rw => Call::ManyReads(lock, MANY),
            9 => Call::Swap,
            10..13 if cast.has_condvar => Call::Wait(lock, by),
            13 if cast.has_condvar => Call::NotifyOne,
            14 if cast.has_condvar => Call::NotifyAll,
            15..17 if cast.has_once => Call::Once(self.below(2) == 0, end),
            17..19 if cast.has_once => Call::Leave(end),
            19 if cast.has_once => Call::OnceState,
            20 if cast.has_barrier => Call::Barrier,
            21 if cast.kinds[lock].knows_releaser() => Call::Release(lock, Mode::Write, false),
            _ if is_rw && cast.is_posix => Call::Acquire(lock, self.of(&[Read, Write]), by),
            _ if is_rw => {
                Call::Acquire(lock, self.of(&[Read, Recursive, Upgradable, Write, Upgrade]), by)
            }
            _ => Call::Acquire(lock, Write, by),
        }
    }
}

/// Whether a program may make a call: it releases what is held, and can always end. So a thread
/// waits for ever only for a lock beyond all that it holds, and for a closure if it holds nothing.
fn is_allowed(cast: &Cast, state: &State, thread: Thread, call: Call) -> bool {
    let mine = || state.holds.iter().filter(|hold| hold.thread == thread);
    let holds = |lock: Lock, mode: Mode| mine().any(|h| (h.lock, h.mode) == (lock, mode));
    let is_inside = matches!(state.once, Once::Runs(by, _) if by == thread);
    if state.waits(thread) {
        return false;
    }
    let is_reentrant = |lock: Lock| cast.kinds[lock] == Kind::Reentrant;
    match call {
        Call::Acquire(lock, want, by) => {
            let is_safe = match want {
                _ if !matches!(by, By::Ever | By::Hour) => true,
                _ if is_inside => false,
                // It is told that it holds the lock.
                _ if cast.kinds[lock].knows_holder() && holds(lock, Mode::Write) => true,
                Want::Upgrade => mine().filter(|hold| hold.lock >= lock).count() == 1,
                Want::Recursive => {
                    mine().all(|h| h.lock < lock || h.lock == lock && h.mode != Mode::Write)
                }
                _ => mine().all(|hold| hold.lock < lock || is_reentrant(lock) && hold.lock == lock),
            };
            // A waiter that gives up may keep its place in a queue.
            let is_timed = matches!(by, By::Past | By::Soon | By::Later);
            !(cast.kinds[lock] == Kind::Fair && is_timed)
                && is_safe
                && (want != Want::Upgrade || holds(lock, Mode::Upgradable))
        }
        Call::Release(lock, mode, _) => {
            holds(lock, mode) || cast.is_posix && cast.kinds[lock].knows_releaser()
        }
        Call::NotifyOne | Call::NotifyAll | Call::ManyReads(..) => true,
        Call::Barrier => !is_inside && mine().count() == 0,
        Call::Downgrade(..) | Call::Bump(..) | Call::Give(..) | Call::Swap if cast.is_posix => {
            false
        }
        Call::IsLocked(_) | Call::IsLockedExclusive(_) if cast.is_posix => false,
        Call::Downgrade(lock, from, to) => {
            cast.kinds[lock].is_rw() && from > to && holds(lock, from)
        }
        Call::Bump(lock, mode) => !is_inside && mine().count() == 1 && holds(lock, mode),
        Call::IsLocked(_) | Call::IsLockedExclusive(_) | Call::OnceState => true,
        Call::Give(to, lock, mode) => {
            cast.gives && !is_reentrant(lock) && holds(lock, mode) && !state.waits(to)
        }
        Call::Swap => {
            cast.kinds.len() == 2
                && cast.kinds[0] == cast.kinds[1]
                && state.holds.is_empty()
                && !state.has_waiters()
        }
        Call::Wait(lock, by) => {
            // Asleep for the condition or for its mutex looks the same.
            by != By::Try
                && !(by == By::Soon && state.has_waiters())
                && (cast.kinds[lock] == Kind::Mutex || cast.is_posix && lock == 0)
                && (!is_inside && mine().count() == 1 && holds(lock, Mode::Write))
        }
        Call::Once(..) => !is_inside && mine().count() == 0,
        Call::Leave(end) => is_inside && end != End::Stays,
    }
}

/// What a program has done, and how it disagreed with the specification.
pub(crate) struct Failure {
    pub(crate) steps: Vec<Step>,
    why: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.steps
            .iter()
            .try_for_each(|(thread, call)| writeln!(f, "  thread {thread}: {call:?}"))?;
        f.write_str(&self.why)
    }
}

struct Run<'a> {
    machine: &'a mut dyn Machine,
    /// All states in which it can be.
    states: HashSet<State>,
    busy: Vec<Thread>,
    steps: Vec<Step>,
    /// Steps after which one outcome only was allowed.
    determined: usize,
}

impl Run<'_> {
    fn state(&self) -> &State {
        self.states.iter().next().expect("a state is left")
    }

    /// Makes a call, waits until it has returned or is blocked, and compares.
    fn step(&mut self, thread: Thread, call: Call) -> Result<(), String> {
        self.steps.push((thread, call));
        let before = State::closure(self.states.drain().collect());
        let reach = |kept| {
            let begin = |state: &State| state.clone().begin(thread, call, kept);
            State::closure(before.iter().flat_map(begin).collect())
        };
        let mut reached = reach(true);
        let at_rest = reached.iter().filter(|state| state.is_at_rest());
        let outcomes: HashSet<_> = at_rest.map(|state| state.returned.clone()).collect();
        self.determined += usize::from(outcomes.len() == 1);

        let since = Instant::now();
        self.busy.push(thread);
        self.machine.start(thread, call);
        let (mut seen, mut patience) = (vec![], PATIENCE);
        let fails = |seen: &[(Thread, Outcome)], what| {
            let mut why = format!("{what}: {seen:?} returned, and allowed were");
            outcomes.iter().for_each(|allowed| write!(why, " {allowed:?}").expect("a string"));
            Err(why)
        };
        loop {
            let is_asleep = self.machine.are_asleep(&self.busy);
            let new = self.machine.returned();
            self.busy.retain(|thread| new.iter().all(|(other, _)| other != thread));
            let is_quiet = is_asleep && new.is_empty() || self.busy.is_empty();
            seen.extend(new);
            seen.sort();
            let allows = |state: &State| seen.iter().all(|one| state.returned.contains(one));
            if !reached.iter().any(allows) && since.elapsed() >= RESERVED {
                reached = reach(false);
            }
            if !reached.iter().any(allows) {
                return fails(&seen, "wrong");
            }
            if is_quiet {
                let so = |state: &&State| state.is_at_rest() && state.returned == seen;
                self.states = reached.iter().filter(so).cloned().collect();
                if !self.states.is_empty() {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
                patience -= 1;
                if patience == 0 || self.busy.is_empty() {
                    return fails(&seen, "blocked");
                }
            }
            thread::yield_now();
        }
        self.states = self.states.drain().map(State::cleared).collect();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        while !self.state().holds.is_empty() || self.state().has_waiters() {
            let state = self.state().clone();
            let hold = state.holds.iter().find(|hold| !state.waits(hold.thread));
            match (hold, state.once) {
                (Some(hold), _) => {
                    self.step(hold.thread, Call::Release(hold.lock, hold.mode, false))?
                }
                (_, Once::Runs(thread, _)) if !state.waits(thread) => {
                    self.step(thread, Call::Leave(End::Returns))?;
                }
                _ if state.at_barrier() > 0 => self.step(THREADS, Call::Barrier)?,
                _ => {
                    thread::sleep(Duration::from_millis(1));
                    self.step(THREADS, Call::NotifyAll)?;
                }
            }
        }
        let free = |lock| Call::Acquire(lock, Want::Write, By::Try);
        let give_up = |lock| Call::Release(lock, Mode::Write, false);
        let locks = 0..self.state().kinds.len();
        locks.flat_map(|lock| [free(lock), give_up(lock)]).try_for_each(|c| self.step(THREADS, c))
    }
}

/// Runs random calls, or given ones. Returns the steps after which one outcome only was allowed,
/// and all steps.
pub(crate) fn run(
    cast: &Cast,
    machine: &mut dyn Machine,
    script: Result<&[Step], (u64, usize)>,
) -> Result<(usize, usize), Failure> {
    let states = HashSet::from([State::new(cast.kinds, cast.is_posix)]);
    let mut run = Run { machine, states, busy: vec![], steps: vec![], determined: 0 };
    let all = |run: &mut Run<'_>| {
        match script {
            Ok(steps) => {
                for &(thread, call) in steps {
                    if thread < THREADS && is_allowed(cast, run.state(), thread, call) {
                        run.step(thread, call)?;
                    }
                }
            }
            Err((seed, count)) => {
                let mut random = Random(seed);
                for _ in 0..count * 4 {
                    let thread = random.below(THREADS);
                    let call = random.call(cast, run.state(), thread);
                    if run.steps.len() < count && is_allowed(cast, run.state(), thread, call) {
                        run.step(thread, call)?;
                    }
                }
            }
        }
        run.finish()
    };
    match all(&mut run) {
        Ok(()) => Ok((run.determined, run.steps.len())),
        Err(why) => Err(Failure { steps: run.steps, why }),
    }
}

/// The shortest program found that still fails, by leaving steps out.
pub(crate) fn shrink(
    cast: &Cast,
    mut new: impl FnMut() -> Box<dyn Machine>,
    mut failure: Failure,
) -> Failure {
    let mut size = failure.steps.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < failure.steps.len() {
            let mut steps = failure.steps.clone();
            steps.drain(at..(at + size).min(steps.len()));
            match run(cast, &mut *new(), Ok(&steps)) {
                Err(shorter) if shorter.steps.len() < failure.steps.len() => failure = shorter,
                _ => at += size,
            }
        }
        size /= 2;
    }
    failure
}
