// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spin loops that cost events only when something happens.
//!
//! A waiting loop loads some words and pauses, again and again. As long as none of their lines
//! changes, the next round is like the last one, except for the clock. So a pause after a round
//! that only loaded lasts until one of these lines changes, or for a limited time: an eighth of the
//! time since the loop last saw a change, after which the locks read the clock again. A loop thus
//! exceeds its budget by at most an eighth. Locks that never read the clock sleep until a line
//! changes; if the host wants reports, every loop sleeps at most until the end of the pause window.
//!
//! A woken spinner counts as having loaded in vain once in each pause until then, and sees the
//! change at its next load.

use super::coherence::{LineId, Lines};

/// How many lines a loop may read and still sleep.
const LINES: usize = 6;

/// The most nanoseconds between two pauses of one loop; after a longer gap they count as different
/// loops. Hardware uses 128 cycles, but on hardware no load of a contended line comes between.
pub(crate) const GAP_NS: u64 = 4_000;

/// A vCPU's spin loop, if it is in one.
#[derive(Debug, Default)]
pub(crate) struct Loop {
    /// The lines read in this round, and their versions at that time.
    read: [(u32, u32); LINES],
    reads: usize,
    /// Whether it has written, or read more lines than there is room for.
    busy: bool,
    /// Whether the pause of this round has begun, so that the next load begins another round.
    paused: bool,
    /// Since when every round has been like the last.
    since: u64,
    /// The lines of the last round, hashed.
    key: u64,
    /// When the current loop of pauses began, and its last pause.
    pub(crate) first_pause: u64,
    pub(crate) last_pause: u64,
    /// Since when it sleeps, if it does.
    asleep: Option<u64>,
}

impl Loop {
    /// Records a read by the vCPU.
    #[inline]
    pub(crate) fn reads(&mut self, line: LineId, version: u32) {
        if std::mem::take(&mut self.paused) {
            (self.reads, self.busy) = (0, false);
        }
        if self.read[..self.reads].iter().any(|&(read, _)| read == line.0) {
            return;
        }
        match self.read.get_mut(self.reads) {
            Some(place) => {
                *place = (line.0, version);
                self.reads += 1;
            }
            None => self.busy = true,
        }
    }

    /// Records a write by the vCPU: this round differs from the last.
    #[inline]
    pub(crate) fn writes(&mut self) {
        if std::mem::take(&mut self.paused) {
            self.reads = 0;
        }
        self.busy = true;
    }

    /// How long the vCPU may sleep in the pause that begins at `at`; `None` if it can't.
    pub(crate) fn sleeps(&mut self, at: u64, bounded: bool, lines: &Lines) -> Option<u64> {
        self.paused = true;
        let read = &self.read[..self.reads];
        let key = read.iter().fold(1, |key: u64, &(line, _)| key.rotate_left(9) ^ u64::from(line));
        let changed = read.iter().any(|&(line, version)| lines.version(LineId(line)) != version);
        if std::mem::replace(&mut self.key, key) != key || changed || self.busy || self.reads == 0 {
            self.since = at;
            return None;
        }
        Some(if bounded { (at - self.since) / 8 } else { u64::MAX })
    }

    /// Puts the vCPU to sleep.
    pub(crate) fn falls_asleep(&mut self, at: u64, vcpu: u32, lines: &mut Lines) {
        self.asleep = Some(at);
        for &(line, _) in &self.read[..self.reads] {
            lines.watch(LineId(line), vcpu);
        }
    }

    /// Records that `by`, a watched line, has changed, which can be seen at `seen`. Returns when
    /// the vCPU loads it.
    pub(crate) fn woken(
        &mut self,
        by: LineId,
        seen: u64,
        pause: u64,
        vcpu: u32,
        lines: &mut Lines,
    ) -> u64 {
        let asleep = self.asleep.take().unwrap_or(seen);
        for &(line, _) in self.read[..self.reads].iter().filter(|&&(line, _)| line != by.0) {
            lines.unwatch(LineId(line), vcpu);
        }
        asleep + seen.saturating_sub(asleep).div_ceil(pause) * pause
    }

    /// Ends the vCPU's sleep, whatever the lines do. Returns when it fell asleep by its own clock,
    /// which may be ahead of the machine's and must not go back.
    pub(crate) fn wakes(&mut self, vcpu: u32, lines: &mut Lines) -> Option<u64> {
        let asleep = self.asleep.take()?;
        for &(line, _) in &self.read[..self.reads] {
            lines.unwatch(LineId(line), vcpu);
        }
        Some(asleep)
    }

    /// Whether it sleeps.
    pub(crate) const fn is_asleep(&self) -> bool {
        self.asleep.is_some()
    }

    /// The loop that a sample would find it in; `None` if it is in none.
    pub(crate) const fn found(&self) -> Option<u64> {
        if self.paused || self.is_asleep() { Some(self.key) } else { None }
    }
}
