//! An acquisition, and what CPUs do for all of them.

use crate::torture::conditions::{Hold, Verb};
use crate::torture::kind::{Kind, LockVerbs};
use crate::torture::machine::TorturedMachine;
use crate::torture::machine::calls::{self, with};

#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) lock: usize,
    pub(super) verb: Verb,
    pub(super) hold: Hold,
    /// Whether it changes what it holds the lock for in the middle.
    pub(super) changes: bool,
    pub(super) timeout_ns: u64,
    pub(super) on_its_way_ns: u64,
    pub(super) hold_ns: u64,
    /// Another lock to take inside.
    pub(super) inner: Option<usize>,
}

impl Job {
    pub(super) const PLAIN: Self = Self {
        lock: 0,
        verb: Verb::Lock,
        hold: Hold::Write,
        changes: false,
        timeout_ns: 0,
        on_its_way_ns: 0,
        hold_ns: 0,
        inner: None,
    };
}

/// Whether there is a lock there, or one can be put there again.
pub(super) fn is_usable(m: &mut TorturedMachine, lock: usize) -> bool {
    if m.locks[lock].freed {
        m.revive(lock);
    }
    m.locks[lock].closing.is_none()
}

/// Takes a lock. Returns whether it did.
pub(super) fn acquire(job: Job) -> bool {
    let hold = job.hold;
    let (verbs, verb, deadline) = with(|m| {
        let now = m.core.now + m.skew();
        let Kind { timed, .. } = *m.locks[job.lock].kind;
        let verb = if job.verb == Verb::Until && !timed { Verb::Try } else { job.verb };
        let deadline = (verb == Verb::Until).then_some(now + job.timeout_ns);
        m.begin_lock(job.lock, verb, deadline, hold);
        (m.locks[job.lock].verbs, verb, deadline)
    });
    calls::spend(job.on_its_way_ns);
    let got = match (verb, deadline) {
        (Verb::Until, Some(deadline)) => verbs.try_lock_until(hold, deadline),
        (Verb::Try, _) => verbs.try_lock(hold),
        _ => {
            verbs.lock(hold);
            true
        }
    };
    with(|m| m.end_lock(got));
    got
}

pub(super) fn release(lock: usize, hold: Hold) {
    let (verbs, fair) = with(|m| {
        let fair = m.begin_unlock(lock, hold);
        (m.locks[lock].verbs, fair)
    });
    if fair {
        verbs.unlock_fair(hold);
    } else {
        verbs.unlock(hold);
    }
    with(TorturedMachine::end_unlock);
}

/// The lock, as CPUs use it.
pub(super) fn verbs(lock: usize) -> &'static dyn LockVerbs {
    with(|m| m.locks[lock].verbs)
}
