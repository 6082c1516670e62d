//! Cache lines: which pCPU has one, how long a transfer takes, and which vCPUs wait for a change.
//!
//! | access | the line is | it costs |
//! |---|---|---|
//! | load | in the pCPU's cache | `hit` |
//! | load | elsewhere | the transfer from its last owner, and `hit`; the next transfer begins after it, or after `share` if the line had not been written |
//! | locked read-modify-write | in the pCPU's cache alone | `rmw` |
//! | the same | elsewhere, or shared | the transfer from the furthest pCPU that has it, and `rmw` |
//! | store | anywhere | `hit`: it is buffered; the line is transferred as for a read-modify-write |
//!
//! Requests for a line are served in the order of arrival: each transfer begins when the one before
//! has arrived and its access is over. The first half of a transfer is the request's way to the
//! pCPU that has the line: until then that pCPU keeps the line, and its own accesses hit. That is
//! the advantage of a lock's holder, which on real machines takes a free lock again before others
//! see that it is free.
//!
//! A load or a read-modify-write takes effect when the line has arrived. A store takes effect at
//! once, and no other pCPU reads the line before it has arrived; so a buffered store leaves the
//! pCPU that had the line no time. Lines are those of the real addresses, 64 bytes each, so false
//! sharing is real too.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::host_profile::Ns;
use super::topology::{CpuSet, Distance, Distances, Topology};
use crate::engine::Access;
use overlock_results::Rng;

/// The owner of a line that no pCPU owns.
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Copies {
    /// The pCPU that wrote it last, or read it first.
    owner: u32,
    /// Whether it has been written since it was last read.
    dirty: bool,
    /// Whether only the owner has a copy.
    alone: bool,
    sharers: CpuSet,
}

/// A way of a line to a pCPU.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    pcpu: u32,
    writes: bool,
    /// When the pCPUs that have the line lose it, or share it.
    departs: u64,
    /// When the access is over that the transfer is for, if it is a store.
    seen: u64,
}

#[derive(Debug)]
struct Line {
    has: Copies,
    /// Who will have it once all transfers are over.
    will: Copies,
    /// Transfers that have not begun to take effect, in the order of their requests.
    coming: VecDeque<Transfer>,
    /// When the next transfer can begin.
    free_at: u64,
    /// How often its contents have changed.
    version: u32,
    /// vCPUs that sleep until it changes.
    watchers: Vec<u32>,
}

impl Copies {
    fn nowhere() -> Self {
        Self { owner: NOBODY, dirty: false, alone: false, sharers: CpuSet::default() }
    }

    #[inline]
    fn is_alone(&self, pcpu: u32) -> bool {
        self.alone && self.owner == pcpu
    }

    /// Records that `pcpu` has the line, alone if it writes.
    fn give(&mut self, pcpu: u32, writes: bool) {
        if writes {
            *self = Self { owner: pcpu, dirty: true, alone: true, sharers: CpuSet::only(pcpu) };
        } else {
            (self.dirty, self.alone) = (false, false);
            self.sharers.insert(pcpu);
            if self.owner == NOBODY {
                self.owner = pcpu;
            }
        }
    }
}

impl Line {
    fn new() -> Self {
        Self {
            has: Copies::nowhere(),
            will: Copies::nowhere(),
            coming: VecDeque::new(),
            free_at: 0,
            version: 0,
            watchers: Vec::new(),
        }
    }

    /// Lets all transfers take effect that have departed by `now`.
    fn catch_up(&mut self, now: u64) {
        while self.coming.front().is_some_and(|transfer| transfer.departs <= now) {
            let Some(Transfer { pcpu, writes, .. }) = self.coming.pop_front() else { return };
            self.has.give(pcpu, writes);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineId(pub(crate) u32);

/// Where a line is when a pCPU wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    Here,
    /// On its way, until this time.
    Arrives(u64),
}

/// The lines of a run. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Lines {
    distances: Distances,
    costs: Ns,
    jitter_percent: u64,
    /// Each line's index, by its number.
    index: FxHashMap<usize, u32>,
    lines: Vec<Line>,
    /// The last line that was looked up.
    last: (usize, LineId),
    /// How many lines came from another pCPU or from memory.
    pub(crate) transfers: u64,
}

impl Lines {
    pub(crate) fn new(topology: &Topology, costs: Ns, jitter_percent: u64) -> Self {
        let distances = Distances::new(topology);
        let index = FxHashMap::default();
        let lines = Vec::new();
        let last = (usize::MAX, LineId(0));
        Self { distances, costs, jitter_percent, index, lines, last, transfers: 0 }
    }

    #[inline]
    pub(crate) fn find(&mut self, address: usize) -> LineId {
        let number = address >> 6;
        if self.last.0 != number {
            self.last = (number, self.look_up(number));
        }
        self.last.1
    }

    fn look_up(&mut self, number: usize) -> LineId {
        let next = self.lines.len() as u32;
        let line = *self.index.entry(number).or_insert(next);
        if line == next {
            self.lines.push(Line::new());
        }
        LineId(line)
    }

    /// How long a transfer over this distance takes.
    fn latency(&self, distance: Distance) -> u64 {
        match distance {
            Distance::Same => 0,
            Distance::Core => self.costs.smt,
            Distance::Cluster => self.costs.cluster,
            Distance::Socket => self.costs.socket,
            Distance::Remote => self.costs.remote,
        }
    }

    /// How long the transfer of a line between two pCPUs takes.
    pub(crate) fn far_ns(&self, from: u32, to: u32) -> u64 {
        self.latency(self.distances.between(from, to))
    }

    /// Asks for a line on behalf of `pcpu`, which wants to make an access at `now`.
    #[inline]
    pub(crate) fn reach(
        &mut self,
        line: LineId,
        access: Access,
        pcpu: u32,
        now: u64,
        rng: &mut Rng,
    ) -> Reached {
        let here = &mut self.lines[line.0 as usize];
        if !here.coming.is_empty() {
            here.catch_up(now);
            let own = here.coming.iter().find(|transfer| transfer.writes && transfer.pcpu == pcpu);
            if let Some(&Transfer { seen, .. }) = own {
                // Its own store is on its way: a load sees the store's value at once.
                let here = access == Access::Load;
                return if here { Reached::Here } else { Reached::Arrives(seen) };
            }
        }
        let has = &mut here.has;
        if has.is_alone(pcpu) {
            has.dirty |= access != Access::Load;
            here.will.dirty |= access != Access::Load && here.coming.is_empty();
            return Reached::Here;
        }
        if access == Access::Load && has.sharers.contains(pcpu) {
            return Reached::Here;
        }
        self.transfer(line, access, pcpu, now, rng)
    }

    fn transfer(
        &mut self,
        line: LineId,
        access: Access,
        pcpu: u32,
        now: u64,
        rng: &mut Rng,
    ) -> Reached {
        let here = &self.lines[line.0 as usize];
        let writes = access != Access::Load;
        let latency = match here.will.owner {
            NOBODY => self.costs.memory,
            owner => {
                let from = self.distances.between(owner, pcpu);
                let others = || self.distances.furthest(pcpu, &here.will.sharers);
                self.latency(if writes { from.max(others()) } else { from })
            }
        };
        let latency = self.varied(latency, rng);
        let start = now.max(here.free_at);
        let arrives = start + latency;
        let (departs, free_at) = match access {
            Access::Load if !here.will.dirty => (start, start + self.costs.share),
            Access::Load => (start + latency / 2, arrives + self.costs.hit),
            Access::Store => (start, arrives + self.costs.hit),
            Access::ReadModifyWrite => (start + latency / 2, arrives + self.costs.rmw),
        };
        self.transfers += 1;
        let here = &mut self.lines[line.0 as usize];
        here.free_at = free_at;
        here.will.give(pcpu, writes);
        here.coming.push_back(Transfer { pcpu, writes, departs, seen: free_at });
        Reached::Arrives(if access == Access::Store { free_at } else { arrives })
    }

    /// What an access costs once the line is there.
    #[inline]
    pub(crate) fn own_ns(&self, access: Access) -> u64 {
        if access == Access::ReadModifyWrite { self.costs.rmw } else { self.costs.hit }
    }

    /// `ns`, varied a little in either direction. A fraction of a nanosecond is the chance of a
    /// whole one, so that short spans vary too and nothing keeps step for ever.
    pub(crate) fn varied(&self, ns: u64, rng: &mut Rng) -> u64 {
        let most = ns * self.jitter_percent;
        if most == 0 {
            ns
        } else {
            (ns * 100 - most + rng.below(2 * most + 1) + rng.below(100)) / 100
        }
    }

    pub(crate) fn version(&self, line: LineId) -> u32 {
        self.lines[line.0 as usize].version
    }

    /// Records that the line's contents have changed.
    pub(crate) fn change(&mut self, line: LineId) {
        let here = &mut self.lines[line.0 as usize];
        here.version = here.version.wrapping_add(1);
    }

    pub(crate) fn is_watched(&self, line: LineId) -> bool {
        !self.lines[line.0 as usize].watchers.is_empty()
    }

    pub(crate) fn watch(&mut self, line: LineId, vcpu: u32) {
        self.lines[line.0 as usize].watchers.push(vcpu);
    }

    pub(crate) fn unwatch(&mut self, line: LineId, vcpu: u32) {
        let watchers = &mut self.lines[line.0 as usize].watchers;
        if let Some(at) = watchers.iter().position(|&other| other == vcpu) {
            watchers.remove(at);
        }
    }

    /// Takes all vCPUs that watch the line; [`give_back`](Self::give_back) returns their memory.
    pub(crate) fn take_watchers(&mut self, line: LineId) -> Vec<u32> {
        std::mem::take(&mut self.lines[line.0 as usize].watchers)
    }

    pub(crate) fn give_back(&mut self, line: LineId, mut watchers: Vec<u32>) {
        watchers.clear();
        self.lines[line.0 as usize].watchers = watchers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPOLOGY: Topology = Topology { sockets: 2, clusters: 1, cores: 2, threads: 2 };

    fn lines() -> (Lines, Rng) {
        let costs = Ns {
            hit: 1,
            rmw: 6,
            smt: 10,
            cluster: 50,
            socket: 80,
            remote: 120,
            memory: 90,
            share: 5,
            ..Ns::default()
        };
        (Lines::new(&TOPOLOGY, costs, 0), Rng::new(1))
    }

    /// Makes accesses to one line, each by a pCPU at a time, and returns how long they took.
    fn accesses() -> impl FnMut(Access, u32, u64) -> u64 {
        let (mut lines, mut rng) = lines();
        move |what, pcpu, now| {
            let line = lines.find(0x1000);
            let own = lines.own_ns(what);
            match lines.reach(line, what, pcpu, now, &mut rng) {
                Reached::Arrives(at) if what != Access::Store => at - now + own,
                Reached::Arrives(_) | Reached::Here => own,
            }
        }
    }

    /// pCPUs 0 and 1 are a core, 2 and 3 another core of the same socket, and 4 to 7 the other
    /// socket.
    #[test]
    fn an_access_costs_what_owner_sharers_and_distance_say() {
        let mut access = accesses();
        assert_eq!(access(Access::ReadModifyWrite, 0, 1_000), 90 + 6, "from memory");
        assert_eq!(access(Access::ReadModifyWrite, 0, 2_000), 6, "its own");
        assert_eq!(access(Access::Load, 0, 3_000), 1);
        assert_eq!(access(Access::Load, 1, 4_000), 10 + 1, "from the same core");
        assert_eq!(access(Access::Load, 2, 5_000), 50 + 1, "from the same socket");
        assert_eq!(access(Access::Load, 4, 6_000), 120 + 1, "from the other one");
        assert_eq!(access(Access::Load, 4, 7_000), 1, "it has a copy");
        assert_eq!(access(Access::ReadModifyWrite, 0, 8_000), 120 + 6, "copies are called in");
        assert_eq!(access(Access::Load, 4, 9_000), 121, "so the copy is gone");
        assert_eq!(access(Access::Store, 2, 10_000), 1, "stores are buffered");
    }

    #[test]
    fn a_contended_line_serves_one_after_the_other() {
        let mut access = accesses();
        access(Access::ReadModifyWrite, 0, 0);
        let mut ends = [2, 4, 6].map(|pcpu| access(Access::ReadModifyWrite, pcpu, 1_000));
        assert_eq!(ends, [56, 56 + 126, 56 + 126 + 56]);
        // A buffered store delays the next access as much as if its CPU had waited for the store.
        access(Access::Store, 0, 2_000);
        ends[0] = access(Access::ReadModifyWrite, 4, 2_000);
        assert_eq!(ends[0], 121 + 126);
    }

    #[test]
    fn a_pcpu_keeps_its_line_for_half_of_the_time_after_another_has_asked() {
        let mut access = accesses();
        access(Access::ReadModifyWrite, 0, 0);
        assert_eq!(access(Access::ReadModifyWrite, 2, 1_000), 56, "it arrives at 1,050");
        assert_eq!(access(Access::ReadModifyWrite, 0, 1_024), 6, "still here");
        assert_eq!(access(Access::ReadModifyWrite, 0, 1_025), 31 + 50 + 6, "behind the other");
        assert_eq!(access(Access::ReadModifyWrite, 2, 1_060), 6, "there");
    }

    #[test]
    fn a_store_on_its_way_is_seen_by_its_own_pcpu_and_by_no_other() {
        let mut access = accesses();
        access(Access::ReadModifyWrite, 2, 0);
        access(Access::Load, 0, 1_000);
        access(Access::Store, 2, 2_000);
        assert_eq!(access(Access::Load, 2, 2_001), 1);
        assert_eq!(access(Access::Load, 0, 2_001), 50 + 50 + 1, "its copy is gone");
    }

    #[test]
    fn readers_of_a_shared_line_hardly_wait_for_each_other() {
        let mut access = accesses();
        access(Access::ReadModifyWrite, 0, 0);
        let mut read = |pcpu| access(Access::Load, pcpu, 1_000);
        assert_eq!(read(2), 51, "the first takes it from its owner");
        assert_eq!(read(4), 51 + 121, "the second waits for that");
        assert_eq!(read(5), 51 + 5 + 121, "the others come a moment later each");
        assert_eq!(read(6), 51 + 5 + 5 + 121);
    }

    #[test]
    fn neighbours_share_a_line_and_many_lines_are_found_again() {
        let (mut lines, _) = lines();
        let first: Vec<LineId> = (0..5_000).map(|n| lines.find(0x7f00_0000 + n * 64)).collect();
        for (n, id) in first.iter().enumerate() {
            assert_eq!(lines.find(0x7f00_0000 + n * 64 + 63), *id);
        }
        assert_eq!(lines.lines.len(), 5_000);
    }

    #[test]
    fn jitter_stays_within_its_bounds_and_both_sides_occur() {
        let (mut lines, mut rng) = lines();
        lines.jitter_percent = 10;
        let drawn: Vec<u64> = (0..1_000).map(|_| lines.varied(100, &mut rng)).collect();
        assert!(drawn.iter().all(|ns| (90..=110).contains(ns)));
        assert!(drawn.iter().any(|&ns| ns < 95) && drawn.iter().any(|&ns| ns > 105));
        let short: Vec<u64> = (0..1_000).map(|_| lines.varied(3, &mut rng)).collect();
        assert!(short.iter().all(|ns| (2..=4).contains(ns)) && short.contains(&2));
        let sum: u64 = short.iter().sum();
        assert!((2_900..=3_100).contains(&sum), "the mean stays: {sum}");
    }
}
