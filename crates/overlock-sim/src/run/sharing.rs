// SPDX-License-Identifier: MIT OR Apache-2.0
//! What CPUs do with read-write locks beyond taking and releasing them.

use super::job::{Job, acquire, release, verbs};
use crate::kind::Role;
use crate::machine::Machine;
use crate::machine::calls::{self, with};
use crate::world::{Hold, Verb};

/// What a random acquisition takes a lock for.
pub(super) fn hold(m: &mut Machine, lock: usize) -> Hold {
    match m.locks[lock].kind.role {
        Role::ReadWrite => m.rng.pick(&[Hold::Write, Hold::Read, Hold::Read, Hold::Upgradable]),
        _ => Hold::Write,
    }
}

/// A reader reads once more, an upgradable one upgrades if its deadline allows, and a writer goes
/// on reading. Returns what the lock is held for then.
pub(super) fn change(job: Job) -> Hold {
    let Job { lock, hold, .. } = job;
    match hold {
        Hold::Read | Hold::Again => {
            acquire(Job { verb: Verb::Lock, hold: Hold::Again, on_its_way_ns: 0, ..job });
            calls::compute(job.hold_ns);
            release(lock, Hold::Again);
            Hold::Read
        }
        Hold::Upgradable => {
            let deadline = with(|m| {
                let at = m.core.now + m.skew() + job.timeout_ns;
                let deadline = (job.verb == Verb::Until).then_some(at);
                m.begin_upgrade(lock, deadline);
                deadline
            });
            let got = verbs(lock).upgrade(deadline);
            with(|m| m.end_upgrade(got));
            calls::compute(job.hold_ns);
            if got { Hold::Write } else { Hold::Upgradable }
        }
        Hold::Write => {
            with(|m| m.begin_downgrade(lock, hold));
            verbs(lock).downgrade(hold);
            with(Machine::end_downgrade);
            calls::compute(job.hold_ns);
            Hold::Read
        }
    }
}
