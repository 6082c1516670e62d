//! Which vCPUs have been interrupted and have not answered: what a host knows without being told.
//!
//! After a TLB shoot-down the sender spins until every receiver has answered, often with a lock
//! held, and a receiver that is off CPU cannot answer. The host has carried the interrupts, so it
//! knows their senders and receivers. It assumes that a receiver answers when it next enters the
//! guest, or when the embedder says so ([`Event::Answered`](crate::host::sched::Event::Answered)).

use alloc::vec;
use alloc::vec::Vec;

use super::Notice;
use crate::host::{Nanos, Vcpu};

/// How long an unanswered IPI counts. 50 ms, as in W. Li's series of 2025: longer than any vCPU
/// should wait for its slice, short enough to forget IPIs that need no answer.
const WINDOW: Nanos = Nanos::from_millis(50);

/// How many senders each receiver remembers: the latest ones. Several shoot-downs are under way at
/// a time only under different locks.
const SENDERS: usize = 4;

/// The latest unanswered IPIs of each vCPU.
#[derive(Clone, Debug)]
pub(super) struct Debts {
    /// For each receiver, the senders since it last ran or answered, the latest first.
    owed: Vec<[Option<(Vcpu, Nanos)>; SENDERS]>,
}

impl Debts {
    /// No debts, in a guest of `vcpus`.
    pub(super) fn new(vcpus: u32) -> Self {
        Self { owed: vec![[None; SENDERS]; vcpus as usize] }
    }

    /// Records an IPI, or an answer.
    pub(super) fn notice(&mut self, now: Nanos, notice: Notice) {
        match notice {
            Notice::Ipi { from, to } => {
                let Some(owed) = self.owed.get_mut(to.index()) else { return };
                let known = owed.iter().position(|debt| debt.is_some_and(|(of, _)| of == from));
                owed[..=known.unwrap_or(SENDERS - 1)].rotate_right(1);
                owed[0] = Some((from, now));
            }
            Notice::Runs(vcpu) | Notice::Answered(vcpu) => {
                if let Some(owed) = self.owed.get_mut(vcpu.index()) {
                    *owed = [None; SENDERS];
                }
            }
            Notice::Worked(_) => {}
        }
    }

    /// Whether `vcpu` owes any vCPU an answer.
    pub(super) fn pending(&self, vcpu: Vcpu, now: Nanos) -> bool {
        self.senders(vcpu, now).next().is_some()
    }

    pub(super) fn owes(&self, vcpu: Vcpu, asker: Vcpu, now: Nanos) -> bool {
        self.senders(vcpu, now).any(|from| from == asker)
    }

    /// The vCPUs that owe `asker` an answer.
    pub(super) fn debtors(&self, asker: Vcpu, now: Nanos) -> impl Iterator<Item = Vcpu> + '_ {
        (0..).map(Vcpu).take(self.owed.len()).filter(move |&vcpu| self.owes(vcpu, asker, now))
    }

    fn senders(&self, vcpu: Vcpu, now: Nanos) -> impl Iterator<Item = Vcpu> + '_ {
        let owed = self.owed.get(vcpu.index()).into_iter().flatten().flatten();
        owed.filter(move |&&(_, at)| now - at <= WINDOW).map(|&(from, _)| from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_senders_are_remembered_once_each_until_an_answer() {
        let (mut debts, to) = (Debts::new(9), Vcpu(8));
        for (at, from) in [(1, 0), (2, 1), (3, 0), (4, 2), (5, 3), (6, 4)] {
            debts.notice(Nanos(at), Notice::Ipi { from: Vcpu(from), to });
        }
        let now = Nanos(7);
        let known: Vec<_> = debts.senders(to, now).map(|vcpu| vcpu.0).collect();
        assert_eq!(known, [4, 3, 2, 0], "the fifth is forgotten");
        assert!(debts.owes(to, Vcpu(0), now) && !debts.owes(to, Vcpu(1), now));
        assert!(debts.debtors(Vcpu(3), now).eq([to]));
        assert!(debts.pending(to, Nanos(6) + WINDOW) && !debts.pending(to, Nanos(7) + WINDOW));
        debts.notice(now, Notice::Worked(to));
        assert!(debts.pending(to, now), "it may have worked without an answer");
        debts.notice(now, Notice::Answered(to));
        assert!(!debts.pending(to, now));
    }
}
