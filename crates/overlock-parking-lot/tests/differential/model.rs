//! A sequential specification of locks, a condition variable, a once and a barrier: which results
//! each call may have, and which threads may be blocked.
//!
//! # State
//! Who holds what, who waits for what, and what has returned since the last call. A call changes
//! the state by [`State::begin`]. What threads then do by themselves are [`State::steps`]: a waiter
//! gets its lock, or its deadline passes. Where several steps are possible, such as two waiters of
//! which one can win, all of them are followed. A state in which no thread is left waiting for what
//! it could have is [at rest](State::is_at_rest).

use std::collections::HashSet;

pub(crate) use super::calls::{By, Call, End, Kind, Lock, Mode, Outcome, Thread, Want};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Hold {
    pub(crate) thread: Thread,
    pub(crate) lock: Lock,
    pub(crate) mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum On {
    Lock(Lock, Want),
    Condvar(Lock),
    /// A waiter for the condition takes its mutex again, and will then return this.
    Mutex(Lock, Outcome),
    Once(bool, End),
    Barrier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    thread: Thread,
    on: On,
    by: By,
    /// It is a writer that has found readers only, which others do not join any more.
    bars: bool,
    /// It has been blocked when the latest call began.
    was_blocked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Once {
    New,
    Poisoned,
    /// By which thread, and after which state.
    Runs(Thread, bool),
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) kinds: &'static [Kind],
    /// Calls are those of pthread, whose notifications return no counts and are any waiter's.
    is_posix: bool,
    pub(crate) holds: Vec<Hold>,
    /// In the order in which they came.
    waiters: Vec<Waiter>,
    pub(crate) once: Once,
    /// Sorted by thread.
    pub(crate) returned: Vec<(Thread, Outcome)>,
}

impl State {
    pub(crate) fn new(kinds: &'static [Kind], is_posix: bool) -> Self {
        Self { kinds, is_posix, holds: vec![], waiters: vec![], once: Once::New, returned: vec![] }
    }

    pub(crate) fn waits(&self, thread: Thread) -> bool {
        self.waiters.iter().any(|waiter| waiter.thread == thread)
    }

    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// The same for the next call: nothing has returned.
    pub(crate) fn cleared(mut self) -> Self {
        self.returned.clear();
        self.waiters.iter_mut().for_each(|waiter| waiter.was_blocked = true);
        self
    }

    pub(crate) fn at_barrier(&self) -> usize {
        self.waiters.iter().filter(|waiter| waiter.on == On::Barrier).count()
    }

    pub(crate) fn held(&self, lock: Lock, mode: Mode) -> usize {
        self.holds.iter().filter(|hold| (hold.lock, hold.mode) == (lock, mode)).count()
    }

    /// Whether readers stay out for a writer that waits for others of them.
    fn is_barred(&self, lock: Lock) -> bool {
        let waiters = || self.waiters.iter();
        self.kinds[lock] != Kind::ReadersFirst
            && waiters().any(|waiter| match waiter.on {
                On::Lock(of, Want::Upgrade) => of == lock,
                On::Lock(of, Want::Write) => of == lock && waiter.bars,
                _ => false,
            })
    }

    /// Whether a waiter can have its lock.
    fn can(&self, index: usize) -> bool {
        let waiter = self.waiters[index];
        let (lock, want) = match waiter.on {
            On::Lock(lock, want) => (lock, want),
            On::Mutex(lock, _) => (lock, Want::Write),
            On::Once(..) => return !matches!(self.once, Once::Runs(..)),
            On::Barrier => return self.at_barrier() == 2,
            On::Condvar(_) => return false,
        };
        let [readers, upgradable, writers] =
            [Mode::Read, Mode::Upgradable, Mode::Write].map(|mode| self.held(lock, mode));
        match want {
            Want::Write if self.kinds[lock] == Kind::Reentrant => {
                self.holds.iter().all(|hold| hold.lock != lock || hold.thread == waiter.thread)
            }
            Want::Write => readers + upgradable + writers == 0,
            Want::Upgrade => readers == 0,
            Want::Recursive => writers == 0,
            Want::Read => writers == 0 && !self.is_barred(lock),
            Want::Upgradable => writers + upgradable == 0 && !self.is_barred(lock),
        }
    }

    /// Whether a waiter has to get its lock. parking_lot wakes the writer alone where both that and
    /// a recursive reader behind it could go on.
    fn must(&self, index: usize) -> bool {
        let waiter = self.waiters[index];
        let may_stay = |lock| waiter.was_blocked && self.is_barred(lock);
        self.can(index) && !matches!(waiter.on, On::Lock(of, Want::Recursive) if may_stay(of))
    }

    /// Whether a writer shuts later readers out from now on.
    fn can_bar(&self, index: usize) -> bool {
        let On::Lock(lock, Want::Write) = self.waiters[index].on else { return false };
        matches!(self.kinds[lock], Kind::Rw | Kind::WritersFirst)
            && self.held(lock, Mode::Write) + self.held(lock, Mode::Upgradable) == 0
            && self.held(lock, Mode::Read) > 0
            && !self.is_barred(lock)
    }

    fn ret(mut self, thread: Thread, outcome: Outcome) -> Self {
        self.returned.push((thread, outcome));
        self.returned.sort();
        self
    }

    fn hold(&mut self, thread: Thread, lock: Lock, mode: Mode) {
        self.holds.push(Hold { thread, lock, mode });
        self.holds.sort();
    }

    fn drop_hold(&mut self, thread: Thread, lock: Lock, mode: Mode) {
        let held = Hold { thread, lock, mode };
        self.holds.remove(self.holds.iter().position(|&hold| hold == held).expect("held"));
    }

    fn wait(&mut self, thread: Thread, on: On, by: By) {
        self.waiters.push(Waiter { thread, on, by, bars: false, was_blocked: false });
    }

    /// A waiter has got what it waits for.
    fn grant(mut self, index: usize) -> Self {
        let Waiter { thread, on, .. } = self.waiters.remove(index);
        match on {
            On::Lock(lock, want) => {
                if want == Want::Upgrade {
                    self.drop_hold(thread, lock, Mode::Upgradable);
                }
                if want == Want::Write {
                    // The others find no readers any more.
                    self.waiters.iter_mut().for_each(|waiter| waiter.bars &= waiter.on != on);
                }
                self.hold(thread, lock, want.mode());
                self.ret(thread, Outcome::Done)
            }
            On::Mutex(lock, outcome) => {
                self.hold(thread, lock, Mode::Write);
                self.ret(thread, outcome)
            }
            On::Once(is_forced, end) => self.run(thread, is_forced, end),
            On::Barrier => {
                let other = self.waiters.iter().position(|waiter| waiter.on == On::Barrier);
                let other = self.waiters.remove(other.expect("another one")).thread;
                self.ret(thread, Outcome::Count(1)).ret(other, Outcome::Done)
            }
            On::Condvar(_) => unreachable!("a condition is not granted"),
        }
    }

    /// A lock is free, and one that waits for it has it next: whoever that can be, if there is one
    /// that surely waits on.
    fn handed_over(&self) -> Vec<Self> {
        let all = || (0..self.waiters.len()).filter(|&index| self.can(index));
        match all().any(|index| matches!(self.waiters[index].by, By::Ever | By::Hour)) {
            true => all().map(|index| self.clone().grant(index)).collect(),
            false => vec![],
        }
    }

    /// A thread comes to a once that no other thread runs. The count is 1 if its closure has run,
    /// and 2 if it was told that another has panicked.
    fn run(mut self, thread: Thread, is_forced: bool, end: End) -> Self {
        let was_poisoned = self.once == Once::Poisoned;
        match end {
            _ if self.once == Once::Done => self.ret(thread, Outcome::Count(0)),
            _ if was_poisoned && !is_forced => self.ret(thread, Outcome::Panicked),
            End::Stays => {
                self.once = Once::Runs(thread, was_poisoned);
                self.ret(thread, Outcome::Entered)
            }
            End::Returns => {
                self.once = Once::Done;
                self.ret(thread, Outcome::Count(1 + usize::from(was_poisoned)))
            }
            End::Panics => {
                self.once = Once::Poisoned;
                self.ret(thread, Outcome::Panicked)
            }
        }
    }

    fn waits_for_condition(&self) -> impl Iterator<Item = usize> {
        let waits = |index: &usize| matches!(self.waiters[*index].on, On::Condvar(_));
        (0..self.waiters.len()).filter(waits)
    }

    /// Waiters for the condition join those for their mutex.
    fn notify(&mut self, most: usize) -> usize {
        let waiting = self.waits_for_condition().count().min(most);
        for _ in 0..waiting {
            let longest = self.waits_for_condition().next();
            self.leave_condition(longest.expect("counted"), Outcome::Done);
        }
        waiting
    }

    fn leave_condition(&mut self, index: usize, outcome: Outcome) {
        let mut waiter = self.waiters.remove(index);
        if let On::Condvar(lock) = waiter.on {
            waiter.on = On::Mutex(lock, outcome);
        }
        self.waiters.push(waiter);
    }

    /// The states in which a call may leave its thread at first. A lock that is handed over is
    /// `kept` for one that waits for it, or is anybody's.
    #[expect(clippy::too_many_lines, reason = "one arm for each call")]
    pub(crate) fn begin(mut self, thread: Thread, call: Call, kept: bool) -> Vec<Self> {
        let yes = |is_so| if is_so { Outcome::Done } else { Outcome::Refused };
        let holds = |lock| Hold { thread, lock, mode: Mode::Write };
        let outcome = match call {
            Call::Acquire(lock, _, by)
                if self.kinds[lock].knows_holder()
                    && by != By::Try
                    && self.holds.contains(&holds(lock)) =>
            {
                Outcome::Wrong
            }
            Call::Release(lock, ..)
                if self.kinds[lock].knows_releaser() && !self.holds.contains(&holds(lock)) =>
            {
                Outcome::Wrong
            }
            Call::Acquire(lock, want, by) => {
                self.wait(thread, On::Lock(lock, want), by);
                if matches!(by, By::Try | By::Past) && !self.can(self.waiters.len() - 1) {
                    self.waiters.pop();
                    return vec![self.ret(thread, Outcome::Refused)];
                }
                return vec![self];
            }
            Call::Release(lock, mode, _) => {
                self.drop_hold(thread, lock, mode);
                Outcome::Done
            }
            Call::Downgrade(lock, from, to) => {
                self.drop_hold(thread, lock, from);
                self.hold(thread, lock, to);
                Outcome::Done
            }
            Call::Bump(lock, mode) => {
                self.drop_hold(thread, lock, mode);
                let want = [Want::Read, Want::Upgradable, Want::Write][mode as usize];
                let kept = kept && mode == Mode::Write;
                let mut after = if kept { self.handed_over() } else { vec![] };
                if after.is_empty() {
                    after.push(self);
                }
                for state in &mut after {
                    state.wait(thread, On::Lock(lock, want), By::Ever);
                }
                return after;
            }
            Call::IsLocked(lock) => yes(self.holds.iter().any(|hold| hold.lock == lock)),
            Call::IsLockedExclusive(lock) if self.is_barred(lock) => {
                // parking_lot counts a writer that waits for readers as one that has the lock.
                let both = [Outcome::Done, Outcome::Refused];
                return both.map(|outcome| self.clone().ret(thread, outcome)).to_vec();
            }
            Call::IsLockedExclusive(lock) => yes(self.held(lock, Mode::Write) > 0),
            Call::ManyReads(lock, count) => {
                self.wait(thread, On::Lock(lock, Want::Read), By::Try);
                let can = self.can(self.waiters.len() - 1);
                self.waiters.pop();
                Outcome::Count(if can { count } else { 0 })
            }
            Call::Give(to, lock, mode) => {
                self.drop_hold(thread, lock, mode);
                self.hold(to, lock, mode);
                Outcome::Done
            }
            Call::Swap => Outcome::Done,
            Call::Wait(lock, by) => {
                let other = |w: &Waiter| matches!(w.on, On::Condvar(of) if of != lock);
                if self.waiters.iter().any(other) {
                    Outcome::Panicked
                } else {
                    self.drop_hold(thread, lock, Mode::Write);
                    self.wait(thread, On::Condvar(lock), by);
                    return vec![self];
                }
            }
            Call::NotifyOne if self.is_posix && self.waits_for_condition().next().is_some() => {
                let one = |index| {
                    let mut state = self.clone();
                    state.leave_condition(index, Outcome::Done);
                    state.ret(thread, Outcome::Done)
                };
                return self.waits_for_condition().map(one).collect();
            }
            Call::NotifyAll | Call::NotifyOne if self.is_posix => {
                self.notify(usize::MAX);
                Outcome::Done
            }
            Call::NotifyOne => yes(self.notify(1) == 1),
            Call::NotifyAll => Outcome::Count(self.notify(usize::MAX)),
            Call::Once(is_forced, end) => {
                self.wait(thread, On::Once(is_forced, end), By::Ever);
                return vec![self];
            }
            Call::Barrier => {
                self.wait(thread, On::Barrier, By::Ever);
                return vec![self];
            }
            Call::Leave(end) => {
                let Once::Runs(_, was_poisoned) = self.once else { unreachable!("it runs") };
                let (once, outcome) = match end {
                    End::Panics => (Once::Poisoned, Outcome::Panicked),
                    _ => (Once::Done, Outcome::Count(1 + usize::from(was_poisoned))),
                };
                self.once = once;
                outcome
            }
            Call::OnceState => Outcome::Count(match self.once {
                Once::New => 0,
                Once::Poisoned => 1,
                Once::Runs(..) => 2,
                Once::Done => 3,
            }),
        };
        vec![self.ret(thread, outcome)]
    }

    /// What a waiter can do by itself.
    fn steps(&self) -> Vec<Self> {
        let mut next = vec![];
        for (index, waiter) in self.waiters.iter().enumerate() {
            if self.can(index) {
                next.push(self.clone().grant(index));
            }
            if !self.must(index) && matches!(waiter.by, By::Past | By::Soon | By::Later) {
                let mut late = self.clone();
                match waiter.on {
                    On::Condvar(_) => {
                        late.leave_condition(index, Outcome::Refused);
                        next.push(late);
                    }
                    On::Lock(..) => {
                        late.waiters.remove(index);
                        // Ours lets readers in then, before the next writer keeps them out again.
                        let mut open = late.clone();
                        open.waiters.iter_mut().for_each(|waiter| waiter.bars = false);
                        next.push(open.ret(waiter.thread, Outcome::Refused));
                        next.push(late.ret(waiter.thread, Outcome::Refused));
                    }
                    _ => {}
                }
            }
            if self.can_bar(index) {
                let mut bars = self.clone();
                bars.waiters[index].bars = true;
                next.push(bars);
            }
        }
        next
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        (0..self.waiters.len()).all(|index| {
            let waiter = self.waiters[index];
            let is_due = matches!(waiter.by, By::Past | By::Soon)
                && matches!(waiter.on, On::Condvar(_) | On::Lock(..));
            !self.must(index) && !self.can_bar(index) && !is_due
        })
    }

    /// All states that can follow by steps, these ones included.
    pub(crate) fn closure(states: Vec<Self>) -> HashSet<Self> {
        let mut seen = HashSet::new();
        let mut open = states;
        while let Some(state) = open.pop() {
            if seen.insert(state.clone()) {
                open.extend(state.steps());
            }
        }
        seen
    }
}
