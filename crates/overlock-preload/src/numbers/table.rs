//! The table of numbers: which is whose.
//!
//! # State
//!
//! `owners` has a cell for each number: its owner, or zero. All numbers ever taken are below
//! `used`. `free` says about how many of those have no owner; it spares most threads the search.
//!
//! # Invariants
//!
//! * I1: a cell changes from zero to an owner, and from an owner to zero, only by compare-exchange.
//!   So a number has one owner, whichever way threads come to it.
//! * I2: `free` may be wrong for a time. Too high, it costs a search; too low, it hides numbers
//!   until the next sweep, which counts anew.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::cell::Cell;

/// See the [module documentation](self).
pub(crate) struct Table<'a, N, O> {
    /// All numbers ever taken are less than this.
    pub(crate) used: &'a N,
    /// About how many numbers below that are free.
    pub(crate) free: &'a N,
    /// The owner of each number, or zero.
    pub(crate) owners: &'a [O],
}

impl<N: Cell<u32>, O: Cell<u64>> Table<'_, N, O> {
    /// Takes a number for `me`: one that was given back, or else a new one below `most`. `None` if
    /// there is neither.
    pub(crate) fn take(&self, me: u64, most: u32) -> Option<usize> {
        self.reuse(me).or_else(|| self.take_new(me, most))
    }

    /// The numbers ever taken.
    fn known(&self) -> &[O] {
        &self.owners[..(self.used.load(Relaxed) as usize).min(self.owners.len())]
    }

    /// Takes a number that was given back.
    fn reuse(&self, me: u64) -> Option<usize> {
        let free = self.free.load(Relaxed);
        if free == 0 {
            return None;
        }
        // ORDERING: Acquire ← the Release in `sweep`, which found the earlier owner gone.
        let take =
            |owner: &O| owner.load(Relaxed) == 0 && owner.compare_exchange(0, me, Acquire).is_ok();
        let index = self.known().iter().position(take);
        match index {
            Some(_) => self.count_down(free),
            // The count was too high, unless it has changed.
            None => {
                let _ = self.free.compare_exchange(free, 0, Relaxed);
            }
        }
        index
    }

    /// Lowers `free` by one. Another thread may have found it too high and made it zero.
    fn count_down(&self, mut free: u32) {
        while let Some(fewer) = free.checked_sub(1) {
            match self.free.compare_exchange(free, fewer, Relaxed) {
                Ok(_) => return,
                Err(now) => free = now,
            }
        }
    }

    /// Takes a number that no thread had yet. A thread that looks for returned numbers can see it
    /// without an owner, and be the first.
    fn take_new(&self, me: u64, most: u32) -> Option<usize> {
        loop {
            let index = self.raise(most)?;
            // ORDERING: Acquire ← the Release in `sweep`, if that other thread is gone already.
            if self.owners[index].compare_exchange(0, me, Acquire).is_ok() {
                return Some(index);
            }
        }
    }

    /// Raises `used` by one, unless it has reached `most`. Returns the number that it passed.
    fn raise(&self, most: u32) -> Option<usize> {
        let mut used = self.used.load(Relaxed);
        while used < most.min(self.owners.len() as u32) {
            match self.used.compare_exchange(used, used + 1, Relaxed) {
                Ok(_) => return Some(used as usize),
                Err(now) => used = now,
            }
        }
        None
    }

    /// Takes back the numbers of owners that are gone. Returns how many numbers have an owner, and
    /// how many are free. One thread at a time.
    pub(crate) fn sweep(&self, is_gone: impl Fn(u64) -> bool) -> (u32, u32) {
        let known = self.known();
        let is_free = |owner: &&O| {
            let who = owner.load(Relaxed);
            // ORDERING: Release → the Acquire in `reuse`. The owner itself ended by a system call,
            // and this thread has seen that by another.
            who == 0 || is_gone(who) && owner.compare_exchange(who, 0, Release).is_ok()
        };
        let free = known.iter().filter(is_free).count();
        self.free.store(free as u32, Relaxed);
        ((known.len() - free) as u32, free as u32)
    }
}
