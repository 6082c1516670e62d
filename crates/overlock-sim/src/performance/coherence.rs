// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cache lines: which pCPU has one, how long a transfer takes, and which vCPUs wait for a change.
//!
//! | access | the line is | it costs |
//! |---|---|---|
//! | load | in the pCPU's cache | `hit` |
//! | load | elsewhere | the transfer from its last owner; the next transfer begins after it, or after `share` if the line had not been written |
//! | locked read-modify-write | in the pCPU's cache alone | `rmw` |
//! | the same | elsewhere, or shared | the transfer from the furthest pCPU that has it, and `rmw`; no other pCPU gets the line meanwhile |
//! | store | anywhere | `hit`: it is buffered; the line is transferred as for a read-modify-write |
//!
//! A line in transfer serves one request at a time, in the order of arrival: that is what a
//! contended lock word costs. Lines are those of the real addresses, 64 bytes each, so false
//! sharing is real too.

use super::host_profile::Ns;
use super::topology::{CpuSet, Distance, Distances, Topology};
use crate::engine::Access;
use overlock_world::Rng;

/// The owner of a line that no pCPU owns.
const NOBODY: u32 = u32::MAX;

/// One cache line.
#[derive(Debug)]
struct Line {
    /// The pCPU that wrote it last, or read it first.
    owner: u32,
    /// Whether it has been written since it was last read.
    dirty: bool,
    /// Whether only the owner has a copy.
    alone: bool,
    /// How often its contents have changed.
    version: u32,
    /// The time at which its current transfer ends.
    busy_until: u64,
    /// pCPUs that have a copy.
    sharers: CpuSet,
    /// vCPUs that sleep until it changes.
    watchers: Vec<u32>,
}

/// The number of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineId(pub(crate) u32);

/// The result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// When the CPU continues.
    pub(crate) at: u64,
    /// When others can see the access.
    pub(crate) seen: u64,
}

/// The lines of a run. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Lines {
    distances: Distances,
    costs: Ns,
    jitter_percent: u64,
    /// The lines by the hash of their number: each entry is that number plus one, and the line's
    /// index.
    index: Vec<(usize, u32)>,
    lines: Vec<Line>,
    /// The last line that was looked up.
    last: (usize, LineId),
    /// How many lines came from another pCPU or from memory.
    pub(crate) transfers: u64,
}

impl Lines {
    pub(crate) fn new(topology: &Topology, costs: Ns, jitter_percent: u64) -> Self {
        let distances = Distances::new(topology);
        let index = vec![(0, 0); 1024];
        let lines = Vec::new();
        let last = (usize::MAX, LineId(0));
        Self { distances, costs, jitter_percent, index, lines, last, transfers: 0 }
    }

    /// The line of this address.
    #[inline]
    pub(crate) fn find(&mut self, address: usize) -> LineId {
        let number = address >> 6;
        if self.last.0 != number {
            self.last = (number, self.look_up(number));
        }
        self.last.1
    }

    fn look_up(&mut self, number: usize) -> LineId {
        if self.lines.len() * 2 > self.index.len() {
            let old = std::mem::take(&mut self.index);
            self.index = vec![(0, 0); old.len() * 4];
            for (key, line) in old.into_iter().filter(|&(key, _)| key != 0) {
                let at = self.place(key);
                self.index[at] = (key, line);
            }
        }
        let at = self.place(number + 1);
        if self.index[at].0 == 0 {
            self.index[at] = (number + 1, self.lines.len() as u32);
            self.lines.push(Line {
                owner: NOBODY,
                dirty: false,
                alone: false,
                version: 0,
                busy_until: 0,
                sharers: CpuSet::default(),
                watchers: Vec::new(),
            });
        }
        LineId(self.index[at].1)
    }

    /// The position of this key in the index, or the free one where it belongs.
    fn place(&self, key: usize) -> usize {
        let mask = self.index.len() - 1;
        let mut at = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 32 & mask;
        while self.index[at].0 != 0 && self.index[at].0 != key {
            at = (at + 1) & mask;
        }
        at
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

    /// Performs an access to a line by `pcpu` at `now`.
    #[inline]
    pub(crate) fn access(
        &mut self,
        line: LineId,
        access: Access,
        pcpu: u32,
        now: u64,
        rng: &mut Rng,
    ) -> Done {
        let here = &mut self.lines[line.0 as usize];
        let mine = here.alone && here.owner == pcpu;
        if access == Access::Load {
            if mine || here.sharers.contains(pcpu) {
                return Done { at: now + self.costs.hit, seen: now };
            }
            return self.fetch(line, pcpu, now, rng);
        }
        let own = if access == Access::Store { self.costs.hit } else { self.costs.rmw };
        if mine {
            here.dirty = true;
            return Done { at: now + own, seen: now + own };
        }
        self.call_in(line, access, pcpu, (now, own), rng)
    }

    /// Takes a line away from all other pCPUs, and performs `pcpu`'s write.
    fn call_in(
        &mut self,
        line: LineId,
        access: Access,
        pcpu: u32,
        (now, own): (u64, u64),
        rng: &mut Rng,
    ) -> Done {
        let here = &self.lines[line.0 as usize];
        let latency = match here.owner {
            NOBODY => self.costs.memory,
            owner => {
                let owner = self.distances.between(owner, pcpu);
                self.latency(owner.max(self.distances.furthest(pcpu, &here.sharers)))
            }
        };
        let seen = now.max(here.busy_until) + self.varied(latency, rng) + own;
        self.transfers += 1;
        let here = &mut self.lines[line.0 as usize];
        (here.owner, here.dirty, here.alone) = (pcpu, true, true);
        here.sharers = CpuSet::only(pcpu);
        here.busy_until = seen;
        Done { at: if access == Access::Store { now + own } else { seen }, seen }
    }

    /// Brings a copy of a line to `pcpu`.
    fn fetch(&mut self, line: LineId, pcpu: u32, now: u64, rng: &mut Rng) -> Done {
        let here = &self.lines[line.0 as usize];
        let latency = match here.owner {
            NOBODY => self.costs.memory,
            owner => self.latency(self.distances.between(owner, pcpu)),
        };
        let start = now.max(here.busy_until);
        let at = start + self.varied(latency, rng) + self.costs.hit;
        let share = self.costs.share;
        self.transfers += 1;
        let here = &mut self.lines[line.0 as usize];
        here.busy_until = if here.dirty { at } else { start + share };
        here.dirty = false;
        here.sharers.insert(pcpu);
        here.alone = false;
        if here.owner == NOBODY {
            here.owner = pcpu;
        }
        Done { at, seen: at }
    }

    /// `ns`, varied a little in either direction.
    pub(crate) fn varied(&self, ns: u64, rng: &mut Rng) -> u64 {
        let most = ns * self.jitter_percent / 100;
        if most == 0 { ns } else { ns - most + rng.below(2 * most + 1) }
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

    /// Ends the watch of one vCPU, if it watches.
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

    /// pCPUs 0 and 1 are a core, 2 and 3 another core of the same socket, and 4 to 7 the other
    /// socket.
    #[test]
    fn an_access_costs_what_owner_sharers_and_distance_say() {
        let (mut lines, mut rng) = lines();
        let mut access = |what, pcpu, now| {
            let line = lines.find(0x1000);
            let Done { at, .. } = lines.access(line, what, pcpu, now, &mut rng);
            at - now
        };
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
        let (mut lines, mut rng) = lines();
        let line = lines.find(0x1000);
        lines.access(line, Access::ReadModifyWrite, 0, 0, &mut rng);
        let mut ends = [2, 4, 6].map(|pcpu| {
            lines.access(line, Access::ReadModifyWrite, pcpu, 1_000, &mut rng).at - 1_000
        });
        assert_eq!(ends, [56, 56 + 126, 56 + 126 + 56]);
        // A buffered store delays the next access as much as if its CPU had waited for the store.
        lines.access(line, Access::Store, 0, 2_000, &mut rng);
        ends[0] = lines.access(line, Access::ReadModifyWrite, 4, 2_000, &mut rng).at - 2_000;
        assert_eq!(ends[0], 121 + 126);
    }

    #[test]
    fn readers_of_a_shared_line_hardly_wait_for_each_other() {
        let (mut lines, mut rng) = lines();
        let line = lines.find(0x1000);
        lines.access(line, Access::ReadModifyWrite, 0, 0, &mut rng);
        let mut read = |pcpu| lines.access(line, Access::Load, pcpu, 1_000, &mut rng).at - 1_000;
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
    }
}
