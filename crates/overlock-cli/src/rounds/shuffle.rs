//! The order in which locks take turns: random to the machine, the same for the same seed.

use overlock_results::{Rng, seed_of};

/// Returns `0..len` in the order of a round.
pub(super) fn shuffled(len: usize, seed: u64, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    Rng::new(seed_of(seed, round as u64)).shuffle(&mut order);
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
