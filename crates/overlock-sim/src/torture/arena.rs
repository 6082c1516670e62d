//! The memory in which the locks, slots and tables of a run lie: always at the same addresses.
//!
//! Every run lays this memory out in the same order. A process performs one run at a time in it:
//! see [`Region`].
//!
//! # State
//!
//! ```text
//!  BASE      +64       +128           LINES * 64                    SIZE
//!   | lock 0 | lock 1 |   ...         | slots, then table, ...      |
//! ```

use std::ptr;
use std::sync::MutexGuard;

use crate::engine::Region;

/// 64 GiB: above what a process that isn't position-independent uses, and far below where other
/// processes and the kernel place their mappings.
const BASE: usize = 0x10_0000_0000;
const SIZE: usize = 1 << 20;
/// How many lines there are, of one lock each.
pub(crate) const LINES: usize = 64;
const LINE: usize = 64;

static REGION: Region = Region::new(BASE, SIZE);

/// The right to use the memory; a run that has it runs alone.
#[derive(Debug)]
pub(crate) struct Arena {
    _turn: MutexGuard<'static, ()>,
    used: usize,
}

impl Arena {
    /// Waits until no other run uses the memory, and clears it.
    ///
    /// # Panics
    /// If the system refuses the memory.
    pub(crate) fn enter() -> Self {
        let turn = REGION.take();
        // SAFETY: the mapping is SIZE bytes long and is never removed. This thread has the turn:
        // the previous run has ended, and no reference into the memory has outlived it (see `put`).
        unsafe { ptr::write_bytes(ptr::with_exposed_provenance_mut::<u8>(BASE), 0, SIZE) };
        Self { _turn: turn, used: LINES * LINE }
    }

    pub(crate) fn line(index: usize) -> *mut u8 {
        assert!(index < LINES);
        ptr::with_exposed_provenance_mut(BASE + index * LINE)
    }

    /// Puts `value` into the memory for the rest of this run. It is never dropped.
    ///
    /// The reference is valid until the next [`Arena::enter`]; it is `'static` because platforms
    /// require that. It must not leave the run.
    pub(crate) fn put<T>(&mut self, value: T) -> &'static T {
        let at = (BASE + self.used).next_multiple_of(align_of::<T>().max(8));
        self.used = at + size_of::<T>() - BASE;
        assert!(self.used <= SIZE, "the memory of a run is full");
        let place = ptr::with_exposed_provenance_mut::<T>(at);
        // SAFETY: the place is inside the mapping, aligned, and not given out before in this run.
        unsafe { place.write(value) };
        // SAFETY: the value is initialised, and only shared references to it exist until the run
        // ends.
        unsafe { &*place }
    }

    pub(crate) fn put_all<T>(&mut self, count: usize, make: impl FnMut() -> T) -> &'static [T] {
        let all: Vec<&'static T> =
            std::iter::repeat_with(make).take(count).map(|value| self.put(value)).collect();
        let Some(first) = all.first() else { return &[] };
        assert!(size_of::<T>().is_multiple_of(8), "values side by side leave no gaps");
        // SAFETY: `put` has laid out `count` values one after another: each size is a multiple of
        // the alignment, to which `put` rounds up.
        unsafe { std::slice::from_raw_parts(ptr::from_ref(*first), count) }
    }

    /// Reads the 32 bits at `offset`, which several cells may share, on behalf of oracles.
    pub(crate) fn peek(offset: u32) -> u32 {
        assert!(offset as usize + 4 <= SIZE && offset.is_multiple_of(4));
        // SAFETY: the place is inside the mapping, which is initialised, and aligned. Only cells
        // and padding ever lie here, and no other thread has the turn.
        unsafe { ptr::with_exposed_provenance::<u32>(BASE + offset as usize).read() }
    }

    /// Clears the line of a lock, which turns it into a new, unlocked one.
    pub(crate) fn clear_line(index: usize) {
        Self::clear((index * LINE) as u32, LINE);
    }

    pub(crate) fn clear(offset: u32, bytes: usize) {
        assert!(offset as usize + bytes <= SIZE);
        let at = ptr::with_exposed_provenance_mut::<u8>(BASE + offset as usize);
        // SAFETY: the place is inside the mapping and holds nothing but cells, whose contents may
        // change under shared references; zero is a valid value of each, and no other thread has
        // the turn.
        unsafe { ptr::write_bytes(at, 0, bytes) };
    }

    pub(crate) fn offset(address: usize) -> u32 {
        u32::try_from(address.wrapping_sub(BASE)).unwrap_or(u32::MAX)
    }

    /// The lock in whose line an offset lies, and the offset within that line.
    pub(crate) fn lock_at(offset: u32) -> Option<(usize, u32)> {
        let (line, rest) = (offset as usize / LINE, offset % LINE as u32);
        (line < LINES).then_some((line, rest))
    }
}
