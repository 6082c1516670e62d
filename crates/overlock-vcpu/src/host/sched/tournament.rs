// SPDX-License-Identifier: MIT OR Apache-2.0
//! The least of one key per pCPU: a tournament tree, whose winner is always at hand.
//!
//! It is a binary tree in an array, with its leaves in the order of the pCPUs; each inner node
//! holds the lesser key of its two children. Changing a key takes time logarithmic in the number of
//! pCPUs, and nothing allocates after [`Tournament::new`].

use alloc::vec;
use alloc::vec::Vec;

/// Keys of pCPUs; pCPUs without a key do not take part.
#[derive(Debug)]
pub(super) struct Tournament<K> {
    /// The root is at 1, the children of `n` at `2n` and `2n + 1`.
    nodes: Vec<Option<K>>,
    leaves: usize,
}

impl<K: Copy + Ord> Tournament<K> {
    /// Makes a tournament of `places` without keys; `places` must be at least one.
    pub(super) fn new(places: usize) -> Self {
        let leaves = places.next_power_of_two();
        Self { nodes: vec![None; 2 * leaves], leaves }
    }

    /// Gives `place` this key, or none.
    pub(super) fn set(&mut self, place: usize, key: Option<K>) {
        let mut node = self.leaves + place;
        self.nodes[node] = key;
        while node > 1 {
            node /= 2;
            let winner = match (self.nodes[2 * node], self.nodes[2 * node + 1]) {
                (Some(left), Some(right)) => Some(left.min(right)),
                (left, right) => left.or(right),
            };
            self.nodes[node] = winner;
        }
    }

    /// The least key.
    pub(super) fn least(&self) -> Option<K> {
        self.nodes[1]
    }

    /// The first place whose key passes. If a key passes, all lesser keys must pass too.
    pub(super) fn first(&self, passes: impl Fn(K) -> bool) -> Option<usize> {
        let passes = |node: usize| self.nodes[node].is_some_and(&passes);
        let mut node = 1;
        if !passes(node) {
            return None;
        }
        while node < self.leaves {
            node = if passes(2 * node) { 2 * node } else { 2 * node + 1 };
        }
        Some(node - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn the_winner_is_that_of_a_scan(
            places in 1usize..40,
            changes in proptest::collection::vec((any::<prop::sample::Index>(),
                proptest::option::of(0u8..9)), 1..99),
            bound in 0u8..9,
        ) {
            let mut tree = Tournament::new(places);
            let mut keys = vec![None; places];
            for (place, key) in changes {
                let place = place.index(places);
                tree.set(place, key);
                keys[place] = key;
                prop_assert_eq!(tree.least(), keys.iter().flatten().min().copied());
                let scanned = keys.iter().position(|key| key.is_some_and(|key| key <= bound));
                prop_assert_eq!(tree.first(|key| key <= bound), scanned);
            }
        }
    }
}
