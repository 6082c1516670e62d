//! What CPUs do with read-write locks beyond taking and releasing them.

use super::job::{Job, acquire, release, verbs};
use crate::torture::conditions::{Hold, Verb};
use crate::torture::kind::Role;
use crate::torture::machine::TorturedMachine;
use crate::torture::machine::calls::{self, with};

/// What a random acquisition takes a lock for.
pub(super) fn hold(m: &mut TorturedMachine, lock: usize) -> Hold {
    match m.locks[lock].kind.role {
        Role::ReadWrite => m.rng.pick(&[Hold::Write, Hold::Read, Hold::Read, Hold::Upgradable]),
        _ => Hold::Write,
    }
}

/// A reader reads once more, an upgradable one upgrades if its verb allows or goes on reading, and
/// a writer goes on reading, perhaps with the right to upgrade. Returns what the lock is held for
/// then.
pub(super) fn change(job: Job) -> Hold {
    let Job { lock, hold, verb, .. } = job;
    let tries = verb == Verb::Try;
    match hold {
        Hold::Read | Hold::Again => {
            acquire(Job { verb: Verb::Lock, hold: Hold::Again, on_its_way_ns: 0, ..job });
            calls::compute(job.hold_ns);
            release(lock, Hold::Again);
            Hold::Read
        }
        Hold::Upgradable if tries && with(|m| m.script.is_some() || m.rng.one_in(2)) => {
            downgrade(job, Hold::Read)
        }
        Hold::Upgradable => {
            let deadline = with(|m| {
                let at = m.core.now + m.skew() + job.timeout_ns;
                let deadline = (verb == Verb::Until).then_some(at);
                m.begin(lock, Some(verb), deadline, Hold::Write);
                deadline
            });
            let got = if tries { verbs(lock).try_upgrade() } else { verbs(lock).upgrade(deadline) };
            with(|m| m.end_upgrade(got));
            calls::compute(job.hold_ns);
            if got { Hold::Write } else { Hold::Upgradable }
        }
        Hold::Write => downgrade(job, if tries { Hold::Upgradable } else { Hold::Read }),
    }
}

fn downgrade(job: Job, to: Hold) -> Hold {
    with(|m| m.begin_downgrade(job.lock, job.hold, to));
    verbs(job.lock).downgrade(job.hold, to);
    with(TorturedMachine::end_downgrade);
    calls::compute(job.hold_ns);
    to
}
