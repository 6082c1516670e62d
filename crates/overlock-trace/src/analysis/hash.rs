//! Maps by numbers of threads, addresses of words and the like, which each record asks several of:
//! the standard library's hash takes a third of the reader's time.

use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Numbers>>;
pub(crate) type HashSet<K> = std::collections::HashSet<K, BuildHasherDefault<Numbers>>;

/// A multiplication for each number. A program that makes its addresses collide slows down the
/// trace of itself only.
#[derive(Clone, Copy, Default)]
pub(crate) struct Numbers(u64);

impl Hasher for Numbers {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio's part behind the point.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn finish(&self) -> u64 {
        // The lower bits of a product say little, and choose the place.
        self.0.rotate_left(26)
    }
}
