// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the condition variable: tokens under a mutex, and the condition that there is one.
//!
//! Each model checks all of these at once:
//!
//! * no notification is lost: every waiter gets a token, or loom reports a deadlock;
//! * a notification whose waiter gives up is not lost, because another waiter then needs it;
//! * no access by a notifier once its waiters may have left: the last of them frees the condition
//!   variable;
//! * no node is reused while another CPU uses it: the waiters use theirs for the mutex, too;
//! * no waiter takes a notification that came before it did: the one it was for would wait for
//!   ever.

use std::cell::Cell;

use loom::cell::UnsafeCell;
use overlock::counters::Event;
use overlock::platform::Platform;
use overlock::{RawCondvar, RawLock};

use super::cells::{Life, Part, Word};
use super::models::{Depth, Report, Seen, explore, queued, test_and_set};
use super::platform::{self, ByAddress, Halt, Halting, Spinning, World};
use super::table::Model;
use Act::{Give, GiveAll, GiveInside, Linger, Take, TakeBy, Takes};

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Waits for a token and takes it.
    Take,
    /// The same, twice.
    Takes,
    /// Waits for a token until this time; gives up if there is none then.
    TakeBy(u64),
    /// Waits once until this time, for no token.
    Linger(u64),
    /// Makes a token and notifies one waiter.
    Give,
    /// Makes a token and notifies one waiter under the mutex.
    GiveInside,
    /// Makes so many tokens and notifies all waiters.
    GiveAll(u32),
}

/// A condition variable under test.
pub(crate) trait Conditional: 'static {
    fn new(cell: &dyn Fn() -> Word) -> Self;
    fn wait(&self, mutex: &dyn RawLock, deadline_ns: Option<u64>) -> bool;
    fn notify_one(&self);
    fn notify_all(&self);
}

impl<P: Platform<Word = Word>> Conditional for RawCondvar<P, Seen> {
    fn new(cell: &dyn Fn() -> Word) -> Self {
        // SAFETY: each cell holds zero.
        unsafe { Self::with(cell(), [cell(), cell()], cell(), cell(), cell(), cell()) }
    }
    fn wait(&self, mutex: &dyn RawLock, deadline_ns: Option<u64>) -> bool {
        // SAFETY: the models wait with the mutex.
        self.wait_between(deadline_ns, || unsafe { mutex.unlock() }, || mutex.lock())
    }
    fn notify_one(&self) {
        self.notify_one();
    }
    fn notify_all(&self) {
        self.notify_all();
    }
}

struct Scene<S> {
    condvar: S,
    life: &'static Life,
    mutex: Box<dyn RawLock>,
    /// The tokens; under the mutex.
    tokens: UnsafeCell<u32>,
    /// How many CPUs still use the condition variable, as waiters or before they notify; under the
    /// mutex. It orders nothing.
    users: Cell<usize>,
    /// Whether every use so far was a wait that was notified, so that the last waiter may free it.
    all_waited: Cell<bool>,
}

impl<S: Conditional> Scene<S> {
    fn get(&self) -> u32 {
        // SAFETY: the caller has the mutex; loom fails the model if it does not exclude.
        self.tokens.with(|tokens| unsafe { *tokens })
    }

    fn set(&self, left: u32) {
        // SAFETY: as above.
        self.tokens.with_mut(|tokens| unsafe { *tokens = left });
    }

    fn unlock(&self) {
        // SAFETY: the caller has the mutex.
        unsafe { self.mutex.unlock() };
    }

    fn take(&self, deadline_ns: Option<u64>) {
        self.mutex.lock();
        let (mut waited, mut in_time) = (false, true);
        while self.get() == 0 && in_time {
            in_time = self.condvar.wait(&*self.mutex, deadline_ns);
            waited = in_time;
        }
        if self.get() > 0 {
            self.set(self.get() - 1);
        }
        self.all_waited.set(self.all_waited.get() && waited);
        self.users.set(self.users.get() - 1);
        let frees = self.users.get() == 0 && self.all_waited.get();
        self.unlock();
        if frees {
            self.life.end();
        }
    }

    fn act(&self, act: Act) {
        match act {
            Take => self.take(None),
            Takes => (0..2).for_each(|_| self.take(None)),
            TakeBy(at) => self.take(Some(at)),
            Linger(at) => {
                self.mutex.lock();
                self.condvar.wait(&*self.mutex, Some(at));
                self.unlock();
            }
            Give | GiveInside | GiveAll(_) => {
                self.mutex.lock();
                self.set(self.get() + if let GiveAll(tokens) = act { tokens } else { 1 });
                if act == GiveInside {
                    self.condvar.notify_one();
                }
                self.unlock();
                match act {
                    Give => self.condvar.notify_one(),
                    GiveAll(_) => self.condvar.notify_all(),
                    _ => {}
                }
            }
        }
    }
}

/// Each CPU acts on one condition variable. If `frees`, the last waiter frees it: then the model
/// has one notification.
pub(crate) fn acts<S: Conditional>(
    world: World,
    preemptions: Option<usize>,
    mutex: fn(&'static Life) -> Box<dyn RawLock>,
    acts: &'static [&'static [Act]],
    depth: Depth,
) -> Report {
    let is_wait = |act: &&Act| matches!(act, Take | TakeBy(_) | Takes);
    let waits = |act: &Act| if *act == Takes { 2 } else { 1 };
    let is_notification = |act: &&Act| matches!(act, Give | GiveInside | GiveAll(_));
    let notifiers = acts.iter().copied().flatten().filter(is_notification).count();
    let lingers = acts.iter().copied().flatten().any(|act| matches!(act, Linger(_)));
    let waits = acts.iter().copied().flatten().filter(is_wait).map(waits).sum();
    explore(preemptions, depth, move || {
        platform::open(world, acts.len());
        let [life, mutexs] = [(); 2].map(|()| platform::keep(Life::new(None)));
        let cell = || Word::new(0, Part::Lock(life));
        let scene = platform::keep(Scene {
            condvar: S::new(&cell),
            life,
            mutex: mutex(mutexs),
            tokens: UnsafeCell::new(0),
            users: Cell::new(waits),
            all_waited: Cell::new(notifiers == 1 && !lingers),
        });
        platform::run(acts.len(), move |cpu| {
            for &act in acts[cpu] {
                scene.act(act);
            }
        });
        platform::close();
    })
}

macro_rules! models {
    ($($name:ident: on $platform:ty, $world:expr, $bound:expr, $mutex:ident, $acts:expr,
        [$($event:ident),*], [$($site:literal),*];)*) => {
        /// All models of the condition variable.
        pub(crate) const MODELS: &[Model] = &[$(Model {
            name: stringify!($name),
            run: |depth| {
                let mutex = |life| Box::new($mutex::<$platform>(life)) as Box<dyn RawLock>;
                acts::<RawCondvar<$platform, Seen>>($world, $bound, mutex, $acts, depth)
            },
            events: &[$(Event::$event),*],
            sites: &[$($site),*],
        },)*];
    };
}

const FUTEX: World = World::PLAIN;
const STALE: World = World { stale_failures: true, ..World::PLAIN };
const TOKEN: World = World { halt: Halt::Token, ..STALE };
const SPURIOUS: World = World { spurious: 1, ..World::PLAIN };
const TIMEOUT: World = World { timeouts: true, ..World::PLAIN };
const FULL: World = World { full: true, ..World::PLAIN };
const NUMBERLESS: World = World { numberless: 1, ..World::PLAIN };

models! {
    cond_two: on Halting, STALE, Some(2), test_and_set, &[&[Take], &[Give]],
        [PvWaitNode, PvKickUnlock], [];
    cond_inside: on Halting, STALE, Some(2), test_and_set, &[&[Take], &[GiveInside]],
        [PvWaitNode, PvKickUnlock], [];
    cond_token: on Halting, TOKEN, Some(2), test_and_set, &[&[Take], &[Give]],
        [PvWaitNode, PvKickUnlock], [];
    cond_addr: on ByAddress, FUTEX, Some(3), test_and_set, &[&[Take], &[Give]],
        [PvWaitNode, PvKickUnlock], [];
    cond_spurious: on Halting, SPURIOUS, Some(2), test_and_set, &[&[Take], &[Give]],
        [PvWaitNode, PvKickUnlock], [];
    cond_spin: on Spinning, FUTEX, Some(2), test_and_set, &[&[Take], &[Give]], [], [];
    cond_queued: on Halting, FUTEX, Some(2), queued, &[&[Takes], &[Give, Give]],
        [PvWaitNode, PvKickUnlock], [];
    cond_all: on ByAddress, FUTEX, Some(1), test_and_set, &[&[Take], &[Take], &[GiveAll(2)]],
        [PvWaitNode, PvKickUnlock], [];
    cond_all_three: on Halting, FUTEX, Some(0), test_and_set,
        &[&[Take], &[Take], &[Take], &[GiveAll(3)]],
        [PvWaitNode, PvKickUnlock], [];
    cond_all_two: on Halting, STALE, Some(2), test_and_set, &[&[Take], &[GiveAll(1)]],
        [PvWaitNode, PvKickUnlock], [];
    cond_one_each: on ByAddress, FUTEX, Some(1), test_and_set, &[&[Take], &[Take], &[Give, Give]],
        [PvWaitNode, PvKickUnlock], [];
    cond_later: on ByAddress, TIMEOUT, Some(2), test_and_set, &[&[Take], &[Give, Linger(1)]],
        [PvWaitNode, PvKickUnlock, LockTimeout], [];
    cond_timed: on Halting, TIMEOUT, Some(3), test_and_set, &[&[TakeBy(1)], &[Give]],
        [LockTimeout], [];
    cond_timed_three: on ByAddress, TIMEOUT, Some(2), test_and_set,
        &[&[TakeBy(1)], &[Take], &[Give, Give]],
        [LockTimeout, PvKickUnlock], [];
    cond_timed_all: on Halting, TIMEOUT, Some(1), test_and_set,
        &[&[TakeBy(1)], &[Take], &[GiveAll(2)]],
        [LockTimeout, PvKickUnlock], [];
    cond_full: on Halting, FULL, Some(2), test_and_set, &[&[Take], &[Give]],
        [PvWaitNode, PvKickUnlock], [];
    cond_numberless: on Halting, NUMBERLESS, Some(2), test_and_set, &[&[Give], &[Take]],
        [PvWaitNode, PvKickUnlock], [];
}
