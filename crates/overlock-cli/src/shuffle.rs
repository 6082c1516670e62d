// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which locks take turns: random to the machine, the same for the same seed.

/// Returns `0..len` in the order of a round: a Fisher-Yates shuffle by an xorshift generator.
pub(crate) fn shuffled(len: usize, seed: u64, round: usize) -> Vec<usize> {
    let mut state = (seed ^ (round as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1;
    let mut next = move |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap_or(0) % bound
    };
    let mut order: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        order.swap(last, next(last + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::shuffled;

    #[test]
    fn a_round_has_every_lock_once_in_an_order_of_its_own() {
        let orders: Vec<_> = (0..20).map(|round| shuffled(12, 7, round)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..12).collect::<Vec<_>>());
        }
        assert_eq!(orders[3], shuffled(12, 7, 3));
        assert!(orders.windows(2).all(|pair| pair[0] != pair[1]));
        assert_ne!(shuffled(12, 8, 3), orders[3]);
    }
}
