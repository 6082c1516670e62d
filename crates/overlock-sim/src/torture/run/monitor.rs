//! What CPUs do with monitors: they give tokens, notify, wait for tokens, and take them.
//!
//! A CPU whose wait ends without a notification, because its time is over or because it is
//! cancelled, leaves without a look at the tokens. So a notification that goes to it is lost, and
//! the machine sees a token for which no waiter comes.
//!
//! The first CPU, and every interrupt, waits only for a limited time: there is always one that
//! gives, and that releases all others when there is no more work. So does one that has another
//! lock meanwhile.
//!
//! Some only lock and release, and may give up: waiters that come back meet them in the queue.

use super::job::{Job, acquire, is_usable, release, verbs};
use crate::torture::conditions::{Hold, Verb};
use crate::torture::kind::Role;
use crate::torture::machine::TorturedMachine;
use crate::torture::machine::calls::{self, with};
use crate::torture::script::{Part, Script};

/// Whom a CPU that gives tokens notifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notifies {
    One,
    All,
}

/// A random operation on a monitor.
pub(super) fn perform(job: Job) {
    if with(|m| m.rng.one_in(4)) {
        return lock(job);
    }
    let gives = with(|m| (m.rng.one_in(2), m.rng.one_in(4), m.rng.one_in(2)));
    let (gives, to_all, inside) = gives;
    if !gives {
        let limited = with(|m| m.cpu() == 0 || m.cpus[m.cpu()].level > 0);
        take(Job { verb: if limited { Verb::Until } else { job.verb }, ..job });
    } else if to_all {
        give(job, 3, Notifies::All, inside);
    } else {
        give(job, 1, Notifies::One, inside);
    }
}

/// What a CPU does in a script: the first gives what the others wait for.
pub(super) fn play(script: &Script, part: Part, cpu: usize) {
    let wanted = (1..script.cpus).filter(|&cpu| !script.locks(cpu));
    let wanted: u64 = wanted.map(|cpu| script.rounds[cpu]).sum();
    for round in 0..part.rounds {
        let first = round == 0;
        let timed = first && part.timeout_ns > 0;
        let job = Job {
            lock: part.locks[0],
            verb: if timed { Verb::Until } else { Verb::Lock },
            timeout_ns: part.timeout_ns,
            on_its_way_ns: part.on_its_way_ns,
            hold_ns: part.hold_ns[usize::from(!first)],
            ..Job::PLAIN
        };
        if script.locks(cpu) {
            lock(job);
        } else if cpu != 0 {
            take(job);
        } else if round + 1 == part.rounds {
            give(job, (wanted - round) as u32, Notifies::All, true);
        } else {
            give(job, 1, Notifies::One, first);
        }
        calls::spend(part.pause_ns);
    }
}

/// Takes the lock, or gives up, and releases it.
fn lock(job: Job) {
    if acquire(job) {
        calls::compute(job.hold_ns);
        release(job.lock, Hold::Write);
    }
}

/// Ends all waits that have no deadline: there will be no more tokens.
pub(super) fn release_all() {
    for lock in 0..with(|m| m.world.locks) {
        let waits = with(|m| m.locks[lock].kind.role == Role::Monitor && !m.locks[lock].freed);
        if waits && with(|m| is_usable(m, lock)) {
            give(Job { lock, ..Job::PLAIN }, 0, Notifies::All, true);
        }
    }
}

/// Adds tokens, and notifies inside of the critical section or after it.
fn give(job: Job, tokens: u32, whom: Notifies, inside: bool) {
    acquire(Job { verb: Verb::Lock, ..job });
    calls::compute(job.hold_ns);
    with(|m| {
        let model = &mut m.locks[job.lock];
        model.tokens += tokens;
        model.notifiers += 1;
        // It uses the monitor until it has notified.
        model.users += u32::from(!inside);
    });
    if inside {
        notify(job.lock, whom);
    }
    release(job.lock, Hold::Write);
    if !inside {
        notify(job.lock, whom);
        with(|m| m.locks[job.lock].users -= 1);
    }
}

fn notify(lock: usize, whom: Notifies) {
    with(|m| m.begin(lock, Some(Verb::Notify), None, Hold::Write));
    verbs(lock).notify(whom == Notifies::All);
    with(TorturedMachine::end_notify);
}

/// Waits until there is a token, and takes it.
fn take(job: Job) {
    let Job { lock, .. } = job;
    let deadline = with(|m| {
        let at = m.core.now + m.skew() + job.timeout_ns;
        (job.verb != Verb::Lock).then_some(at)
    });
    acquire(Job { verb: Verb::Lock, ..job });
    let mut notified = true;
    while notified && with(|m| m.locks[lock].tokens == 0 && !m.draining) {
        with(|m| m.begin_wait(lock, deadline));
        notified = verbs(lock).wait(deadline);
        with(|m| m.end_wait(notified));
    }
    if notified {
        with(|m| m.locks[lock].tokens = m.locks[lock].tokens.saturating_sub(1));
        calls::compute(job.hold_ns);
    }
    release(lock, Hold::Write);
}
