//! Halt polling: the thread of a vCPU that halts looks for a kick for a while before it sleeps, as
//! long as nobody else wants its pCPU. A kick that comes then wakes no thread, and the way back
//! into the guest is all that is left.
//!
//! How long is each vCPU's own, and is learnt: more after a halt that polling would have ended in
//! time, less after one that was too long for it. While it polls, its pCPU counts as idle.
//!
//! Source: Linux 6.12, `virt/kvm/kvm_main.c` (`kvm_vcpu_halt`), with the defaults of its
//! parameters. A guest polls in its idle loop (`haltpoll`), which the waiters of these locks do not
//! pass.

const GROW: u64 = 2;
const GROW_START_NS: u64 = 10_000;
const SHRINK: u64 = 2;

/// What a host knows of the halts of one vCPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Poll {
    /// For how long its next halt polls.
    ns: u64,
    /// When it halted, and on which pCPU, if it is halted or has no pCPU yet.
    since: Option<(u64, u32)>,
}

impl Poll {
    /// It has halted on `pcpu`.
    pub(super) fn begins(&mut self, now: u64, pcpu: Option<u32>) {
        self.since = pcpu.map(|pcpu| (now, pcpu));
    }

    /// It runs again `at` a time: learns from its halt, if it was in one. Hosts poll for `most`.
    pub(super) fn ends(&mut self, at: u64, most: u64) {
        let Some((since, _)) = self.since.take() else { return };
        let halted = at.saturating_sub(since);
        if halted <= self.ns {
            return;
        }
        if self.ns > 0 && halted > most {
            self.ns = Some(self.ns / SHRINK).filter(|&less| less >= GROW_START_NS).unwrap_or(0);
        } else if self.ns < most && halted < most {
            self.ns = (self.ns * GROW).max(GROW_START_NS).min(most);
        }
    }

    /// The pCPU on which it polls, as long as nobody else has wanted that.
    pub(super) fn goes_on(&self, now: u64) -> Option<u32> {
        self.since.filter(|&(since, _)| now < since + self.ns).map(|(_, pcpu)| pcpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vcpu_polls_for_longer_after_short_halts_and_not_after_long_ones() {
        let mut poll = Poll::default();
        let mut halts = |ns: u64, most: u64| {
            poll.begins(5, Some(0));
            poll.ends(5 + ns, most);
            poll.ns
        };
        let found: Vec<u64> = [50, 50, 50, 50, 10, 150].map(|us| halts(us * 1000, 200_000)).into();
        assert_eq!(found, [10_000, 20_000, 40_000, 80_000, 80_000, 160_000]);
        assert_eq!(halts(170_000, 200_000), 200_000, "the most");
        assert_eq!(halts(200_000, 200_000), 200_000);
        let found: Vec<u64> = (0..6).map(|_| halts(300_000, 200_000)).collect();
        assert_eq!(found, [100_000, 50_000, 25_000, 12_500, 0, 0]);
        assert_eq!(halts(5_000, 0), 0, "a host that does not poll");
    }
}
