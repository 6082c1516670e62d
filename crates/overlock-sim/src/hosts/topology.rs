//! The distances between pCPUs.
//!
//! pCPUs are numbered compactly: threads of a core, cores of a cluster, clusters of a socket.

use serde::{Deserialize, Serialize};

/// The most pCPUs that a host can have: the number of bits in a [`CpuSet`].
pub(crate) const PCPUS_MAX: u32 = 512;

/// The number of sockets, and what each consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    pub sockets: u32,
    /// Clusters of a socket: cores that share a last-level cache.
    pub clusters: u32,
    pub cores: u32,
    pub threads: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Distance {
    Same,
    Core,
    Cluster,
    Socket,
    Remote,
}

impl Topology {
    pub const fn pcpus(&self) -> u32 {
        self.sockets * self.clusters * self.cores * self.threads
    }

    const fn within(&self, pcpu: u32, distance: Distance) -> (u32, u32) {
        let size = match distance {
            Distance::Same => 1,
            Distance::Core => self.threads,
            Distance::Cluster => self.threads * self.cores,
            Distance::Socket => self.threads * self.cores * self.clusters,
            Distance::Remote => self.pcpus(),
        };
        let first = pcpu / size * size;
        (first, first + size)
    }
}

/// The distances that are not `Remote`, in ascending order.
const NEAR: [Distance; 4] = [Distance::Same, Distance::Core, Distance::Cluster, Distance::Socket];

/// The distances between all pCPUs of a host, looked up without divisions.
#[derive(Debug)]
pub(crate) struct Distances {
    /// For each pCPU, the spans of pCPU numbers within each of [`NEAR`].
    spans: Vec<[(u32, u32); 4]>,
}

impl Distances {
    pub(crate) fn new(topology: &Topology) -> Self {
        let spans = |pcpu| NEAR.map(|distance| topology.within(pcpu, distance));
        Self { spans: (0..topology.pcpus()).map(spans).collect() }
    }

    /// The least distance within which all of something lies.
    fn least(&self, pcpu: u32, covers: impl Fn(u32, u32) -> bool) -> Distance {
        let spans = NEAR.into_iter().zip(self.spans[pcpu as usize]);
        let mut covering = spans.filter(|&(_, (first, end))| covers(first, end));
        covering.next().map_or(Distance::Remote, |(distance, _)| distance)
    }

    #[inline]
    pub(crate) fn between(&self, one: u32, other: u32) -> Distance {
        self.least(one, |first, end| (first..end).contains(&other))
    }

    #[inline]
    pub(crate) fn furthest(&self, pcpu: u32, set: &CpuSet) -> Distance {
        self.least(pcpu, |first, end| set.lies_within(first, end))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuSet([u64; PCPUS_MAX as usize / 64]);

impl CpuSet {
    pub(crate) fn only(pcpu: u32) -> Self {
        let mut set = Self::default();
        set.insert(pcpu);
        set
    }

    pub(crate) fn insert(&mut self, pcpu: u32) {
        self.0[pcpu as usize / 64] |= 1 << (pcpu % 64);
    }

    pub(crate) fn contains(&self, pcpu: u32) -> bool {
        self.0[pcpu as usize / 64] >> (pcpu % 64) & 1 == 1
    }

    /// Whether all members are at least `first` and below `end`.
    fn lies_within(&self, first: u32, end: u32) -> bool {
        let bits = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
        (0_u32..).step_by(64).zip(self.0).all(|(base, word)| {
            let inside = bits(end.saturating_sub(base)) & !bits(first.saturating_sub(base));
            word & !inside == 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Topology = Topology { sockets: 2, clusters: 2, cores: 3, threads: 2 };

    #[test]
    fn distances_follow_the_numbers() {
        let distances = Distances::new(&HOST);
        let to = |other| distances.between(1, other);
        assert_eq!(HOST.pcpus(), 24);
        assert_eq!([to(1), to(0), to(2)], [Distance::Same, Distance::Core, Distance::Cluster]);
        assert_eq!([to(6), to(12)], [Distance::Socket, Distance::Remote]);
    }

    #[test]
    fn the_furthest_of_a_set_is_the_furthest_of_its_members() {
        let host = Distances::new(&HOST);
        for pcpu in 0..HOST.pcpus() {
            for other in 0..HOST.pcpus() {
                for third in 0..HOST.pcpus() {
                    let mut set = CpuSet::only(other);
                    set.insert(third);
                    let one = host.between(pcpu, other);
                    let most = one.max(host.between(pcpu, third));
                    assert_eq!(host.furthest(pcpu, &set), most, "{pcpu}: {other}, {third}");
                    assert!(set.contains(other) && set.contains(third));
                }
            }
        }
    }
}
