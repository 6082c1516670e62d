//! Random numbers: SplitMix64, the only source of chance in a run.
//!
//! Source: G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
//! 2014.

#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True once in `n` times; never if `n` is 0.
    pub fn one_in(&mut self, n: u32) -> bool {
        n != 0 && self.below(u64::from(n)) == 0
    }

    /// A number from 1 to about `most`, each order of magnitude equally likely; 0 if `most` is 0.
    pub fn magnitude(&mut self, most: u64) -> u64 {
        if most == 0 {
            return 0;
        }
        let top = 1 << self.below(u64::from(u64::BITS - most.leading_zeros()));
        (top + self.below(top)).min(most)
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

pub fn seed_of(seed: u64, index: u64) -> u64 {
    Rng::new(seed ^ index.wrapping_mul(0xd134_2543_de82_ef95)).bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_cover_the_whole_range() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..10_000).map(|_| rng.magnitude(1_000_000)).collect();
        assert!(drawn.iter().all(|n| (1..=1_000_000).contains(n)));
        for decade in [1, 10, 100, 1_000, 10_000, 100_000] {
            assert!(drawn.iter().any(|n| (decade..decade * 10).contains(n)), "{decade}");
        }
        assert_eq!(rng.magnitude(0), 0);
    }

    #[test]
    fn a_chance_of_one_in_n_is_one_in_n() {
        let mut rng = Rng::new(2);
        let hits = (0..100_000).filter(|_| rng.one_in(10)).count();
        assert!((9_500..10_500).contains(&hits), "{hits}");
        assert!(!(0..1_000).any(|_| rng.one_in(0)));
    }
}
