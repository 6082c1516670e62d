// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set of pCPUs that finds its first member without examining all of them.

use alloc::vec;
use alloc::vec::Vec;

use super::config::CPUS_MAX;
use crate::host::Pcpu;

const BITS: usize = u64::BITS as usize;

// `filled` has a bit for each word.
const _: () = assert!(CPUS_MAX as usize <= BITS * BITS);

/// A set of pCPUs: one bit per pCPU, and one bit per word that is not empty.
#[derive(Clone, Debug)]
pub(super) struct PcpuSet {
    words: Vec<u64>,
    filled: u64,
}

impl PcpuSet {
    /// An empty set with room for the first `count` pCPUs.
    pub(super) fn new(count: u32) -> Self {
        Self { words: vec![0; (count as usize).div_ceil(BITS)], filled: 0 }
    }

    /// The set of the first `count` pCPUs.
    pub(super) fn full(count: u32) -> Self {
        let mut set = Self::new(count);
        (0..count).for_each(|pcpu| set.set(Pcpu(pcpu), true));
        set
    }

    /// Adds `pcpu` or removes it.
    pub(super) fn set(&mut self, Pcpu(pcpu): Pcpu, inside: bool) {
        let (at, bit) = (pcpu as usize / BITS, 1 << (pcpu as usize % BITS));
        let word = &mut self.words[at];
        *word = if inside { *word | bit } else { *word & !bit };
        let filled = 1 << at;
        self.filled = if *word == 0 { self.filled & !filled } else { self.filled | filled };
    }

    pub(super) fn has(&self, Pcpu(pcpu): Pcpu) -> bool {
        self.words[pcpu as usize / BITS] & (1 << (pcpu as usize % BITS)) != 0
    }

    /// The first member.
    pub(super) fn first(&self) -> Option<Pcpu> {
        let at = self.filled.trailing_zeros() as usize;
        let word = self.words.get(at)?;
        Some(Pcpu((at * BITS) as u32 + word.trailing_zeros()))
    }

    /// All members, in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Pcpu> + '_ {
        (0..).step_by(BITS).zip(&self.words).flat_map(|(first, &word)| {
            (0..u64::BITS).filter(move |bit| word & (1 << bit) != 0).map(move |b| Pcpu(first + b))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_found_and_all_are_listed() {
        let mut set = PcpuSet::new(CPUS_MAX);
        assert_eq!(set.first(), None);
        for pcpu in [2047, 700, 64, 63] {
            set.set(Pcpu(pcpu), true);
            assert_eq!(set.first(), Some(Pcpu(pcpu)));
        }
        assert!(set.iter().eq([63, 64, 700, 2047].map(Pcpu)));
        set.set(Pcpu(63), false);
        set.set(Pcpu(64), false);
        assert_eq!((set.first(), set.has(Pcpu(63))), (Some(Pcpu(700)), false));
    }
}
