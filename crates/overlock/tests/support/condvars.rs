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
use overlock::RawCondvar;
use overlock::platform::Platform;

use super::cells::{Life, Part, Word};
use super::locks::{Kind, Verbs, queued, tas};
use super::models::{Depth, Report, Scene, Seen, Steps, models, play};
use super::platform::worlds::{FUTEX, SPURIOUS, STALE, TIMEOUT, TOKEN};
use super::platform::{self, ByAddress, Halting, Spinning, World};
use Act::{Give, GiveAll, GiveInside, Linger, Take, TakeBy};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Take,
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

struct Place<P: Platform> {
    condvar: RawCondvar<P, Seen>,
    life: &'static Life,
    mutex: Box<dyn Verbs>,
    /// The tokens; under the mutex.
    tokens: UnsafeCell<u32>,
    /// How many CPUs still use the condition variable, as waiters or before they notify; under the
    /// mutex. It orders nothing.
    users: Cell<usize>,
    /// Whether every use so far was a wait that was notified, so that the last waiter may free it.
    all_waited: Cell<bool>,
}

impl<P: Platform<Word = Word> + 'static> Place<P> {
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

    /// Returns whether it was notified, or may have been.
    fn wait(&self, deadline_ns: Option<u64>) -> bool {
        self.condvar.wait_between(deadline_ns, || self.unlock(), || self.mutex.lock())
    }

    fn take(&self, deadline_ns: Option<u64>) {
        self.mutex.lock();
        let (mut waited, mut in_time) = (false, true);
        while self.get() == 0 && in_time {
            in_time = self.wait(deadline_ns);
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
}

impl<P: Platform<Word = Word> + 'static> Scene for Place<P> {
    type Step = Act;

    fn step(&'static self, act: Act) -> bool {
        match act {
            Take => self.take(None),
            TakeBy(at) => self.take(Some(at)),
            Linger(at) => {
                self.mutex.lock();
                self.wait(Some(at));
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
                    Give => _ = self.condvar.notify_one(),
                    GiveAll(_) => _ = self.condvar.notify_all(),
                    _ => {}
                }
            }
        }
        true
    }
}

/// Each CPU acts on one condition variable with a mutex of this kind. The last waiter frees it if
/// there is one notification and no CPU lingers.
fn acts_with<P: Platform<Word = Word> + 'static>(
    mutex: Kind,
    world: World,
    preemptions: Option<usize>,
    acts: Steps<Act>,
) -> impl FnOnce(Depth) -> Report {
    let all = || acts.iter().copied().flatten();
    let is_notification = |act: &&Act| matches!(act, Give | GiveInside | GiveAll(_));
    let frees =
        all().filter(is_notification).count() == 1 && !all().any(|act| matches!(act, Linger(_)));
    let waits = all().filter(|act| matches!(act, Take | TakeBy(_))).count();
    play(world, preemptions, acts, move || {
        let [life, mutexs] = [(); 2].map(|()| platform::keep(Life::new(None)));
        let cell = || Word::new(0, Part::Lock(life));
        platform::keep(Place {
            // SAFETY: each cell holds zero.
            condvar: unsafe {
                RawCondvar::<P, Seen>::with(
                    cell(),
                    [cell(), cell()],
                    cell(),
                    cell(),
                    cell(),
                    cell(),
                )
            },
            life,
            mutex: (mutex.make)(mutexs),
            tokens: UnsafeCell::new(0),
            users: Cell::new(waits),
            all_waited: Cell::new(frees),
        })
    })
}

fn acts<P: Platform<Word = Word> + 'static>(
    world: World,
    preemptions: Option<usize>,
    acts: Steps<Act>,
) -> impl FnOnce(Depth) -> Report {
    acts_with::<P>(tas::<P>(), world, preemptions, acts)
}

const FULL: World = World { full: true, ..FUTEX };
const NUMBERLESS: World = World { numberless: 1, ..FUTEX };

models! {
    cond_two: acts::<Halting>(STALE, Some(2), &[&[Take], &[Give]]), [PvWaitNode, PvKickUnlock], [];
    cond_inside: acts::<Halting>(STALE, Some(2), &[&[Take], &[GiveInside]]),
        [PvWaitNode, PvKickUnlock], [];
    cond_token: acts::<Halting>(TOKEN, Some(2), &[&[Take], &[Give]]),
        [PvWaitNode, PvKickUnlock], [];
    cond_addr: acts::<ByAddress>(FUTEX, Some(3), &[&[Take], &[Give]]),
        [PvWaitNode, PvKickUnlock], [];
    cond_spurious: acts::<Halting>(SPURIOUS, Some(2), &[&[Take], &[Give]]),
        [PvWaitNode, PvKickUnlock], [];
    cond_spin: acts::<Spinning>(FUTEX, Some(2), &[&[Take], &[Give]]), [], [];
    cond_queued: acts_with::<Halting>(queued::<Halting>(), FUTEX, Some(2), &[&[Take, Take], &[Give, Give]]),
        [PvWaitNode, PvKickUnlock], [];
    cond_all: acts::<ByAddress>(FUTEX, Some(1), &[&[Take], &[Take], &[GiveAll(2)]]),
        [PvWaitNode, PvKickUnlock], [];
    cond_all_three: acts::<Halting>(FUTEX, Some(0), &[&[Take], &[Take], &[Take], &[GiveAll(3)]]),
        [PvWaitNode, PvKickUnlock], [];
    cond_all_two: acts::<Halting>(STALE, Some(2), &[&[Take], &[GiveAll(1)]]),
        [PvWaitNode, PvKickUnlock], [];
    cond_one_each: acts::<ByAddress>(FUTEX, Some(1), &[&[Take], &[Take], &[Give, Give]]),
        [PvWaitNode, PvKickUnlock], [];
    cond_later: acts::<ByAddress>(TIMEOUT, Some(2), &[&[Take], &[Give, Linger(1)]]),
        [PvWaitNode, PvKickUnlock, LockTimeout], [];
    cond_timed: acts::<Halting>(TIMEOUT, Some(3), &[&[TakeBy(1)], &[Give]]), [LockTimeout], [];
    cond_timed_three: acts::<ByAddress>(TIMEOUT, Some(2), &[&[TakeBy(1)], &[Take], &[Give, Give]]),
        [LockTimeout, PvKickUnlock], [];
    cond_timed_all: acts::<Halting>(TIMEOUT, Some(1), &[&[TakeBy(1)], &[Take], &[GiveAll(2)]]),
        [LockTimeout, PvKickUnlock], [];
    cond_full: acts::<Halting>(FULL, Some(2), &[&[Take], &[Give]]), [PvWaitNode, PvKickUnlock], [];
    cond_numberless: acts::<Halting>(NUMBERLESS, Some(2), &[&[Give], &[Take]]),
        [PvWaitNode, PvKickUnlock], [];
}
