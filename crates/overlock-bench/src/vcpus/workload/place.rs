//! A vCPU's relation to the locks: one word that only the vCPU writes, on a line of its own.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | neither waits nor holds |
//! | 2·n + 1 | waits for lock n |
//! | 2·n + 2 | holds lock n |
//!
//! So a vCPU never appears both to hold a lock and to wait for it. One that waited never appears to
//! do neither; one that took the lock at its first attempt does so between the attempt and the next
//! store. The store on taking the lock is the only one in the critical section. Host and oracle
//! read these words; waiters do not, so the line is not contended.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Place {
    word: AtomicU32,
    /// When it began to wait, by its own clock.
    since_ns: AtomicU64,
}

impl Place {
    /// Records that it waits for lock `at` from now on.
    #[inline]
    pub(crate) fn waits(&self, at: usize, now_ns: u64) {
        self.since_ns.store(now_ns, Relaxed);
        self.word.store(2 * at as u32 + 1, Relaxed);
    }

    /// Records that it has taken lock `at`.
    #[inline(always)]
    pub(crate) fn holds(&self, at: usize) {
        self.word.store(2 * at as u32 + 2, Relaxed);
    }

    /// Records that it is about to release its lock.
    #[inline(always)]
    pub(crate) fn releases(&self) {
        self.word.store(0, Relaxed);
    }

    /// The lock that it waits for, and since when.
    #[inline]
    pub(crate) fn waits_for(&self) -> Option<(usize, u64)> {
        let word = self.word.load(Relaxed);
        (word % 2 == 1).then(|| (word as usize / 2, self.since_ns.load(Relaxed)))
    }

    #[inline]
    pub(crate) fn held(&self) -> Option<usize> {
        let word = self.word.load(Relaxed);
        (word != 0 && word.is_multiple_of(2)).then(|| word as usize / 2 - 1)
    }
}

pub(crate) fn waiters(places: &[Place], at: usize) -> impl Iterator<Item = (u32, u64)> + '_ {
    let waits = move |(vcpu, place): (u32, &Place)| {
        place.waits_for().filter(|&(lock, _)| lock == at).map(|(_, since)| (vcpu, since))
    };
    (0..).zip(places).filter_map(waits)
}

pub(crate) fn holder(places: &[Place], at: usize) -> Option<u32> {
    (0..).zip(places).find(|(_, place)| place.held() == Some(at)).map(|(vcpu, _)| vcpu)
}

/// The vCPUs that will have a lock of strict order before `spinner`, which waits for lock number
/// `at`: the next one first.
pub(crate) fn before(places: &[Place], at: usize, spinner: u32) -> impl Iterator<Item = u32> + '_ {
    let own = places[spinner as usize].waits_for().map_or(0, |(_, since)| since);
    let after = move |after: u64| {
        let next = waiters(places, at).filter(move |&(_, since)| after < since && since < own);
        next.min_by_key(|&(_, since)| since)
    };
    std::iter::successors(after(0), move |&(_, since)| after(since)).map(|(vcpu, _)| vcpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_of_three_and_the_line_is_told_in_order() {
        let places: [Place; 5] = std::array::from_fn(|_| Place::default());
        assert_eq!((places[0].waits_for(), places[0].held()), (None, None));
        for (vcpu, since) in [(1, 30), (2, 10), (3, 20), (4, 40)] {
            places[vcpu].waits(7, since);
        }
        places[0].holds(7);
        assert_eq!((holder(&places, 7), holder(&places, 6)), (Some(0), None));
        assert_eq!(before(&places, 7, 1).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(before(&places, 7, 2).count(), 0);
        places[2].holds(7);
        assert_eq!((places[2].waits_for(), places[2].held()), (None, Some(7)));
        assert_eq!(waiters(&places, 7).count(), 3);
        places[2].releases();
        assert_eq!((places[2].waits_for(), places[2].held()), (None, None));
    }
}
