// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spin loops cost events only where something happens.
//!
//! A loop that waits looks at some words and pauses, again and again. As long as none of their
//! lines changes, the next round is like the last one, but for the clock. So a pause after a round
//! of loads alone lasts until one of these lines changes, or for a while: an eighth of the time
//! since the loop last saw a change, after which the locks look at the clock again. A budget is
//! outstayed by an eighth at most that way. Locks that never look at the clock sleep until a line
//! changes; so does everyone until the end of the pause window, where the host wants to be told.
//!
//! A woken spinner has looked in vain once in each pause until then, and sees the change at its
//! next look.

use super::coherence::{LineId, Lines};

/// How many lines a loop may look at and still sleep.
const LINES: usize = 6;

/// Nanoseconds between two pauses of one loop, at most: longer and it counts as another loop.
/// Hardware says 128 cycles, but sees no look at a contended line come between.
pub(crate) const GAP_NS: u64 = 4_000;

/// A vCPU's spin loop, if it is in one.
#[derive(Debug, Default)]
pub(crate) struct Loop {
    /// Lines that were read in this round, and their versions then.
    read: [(u32, u32); LINES],
    reads: usize,
    /// It has read more lines than there is room for, or written.
    busy: bool,
    /// The pause of this round has begun: the next load begins another round.
    paused: bool,
    /// Since when every round was like the last.
    since: u64,
    /// The lines of the last round, hashed.
    key: u64,
    /// When the loop of pauses that it is in began, and its last pause.
    pub(crate) first_pause: u64,
    pub(crate) last_pause: u64,
    /// It sleeps, since then.
    asleep: Option<u64>,
}

impl Loop {
    /// The vCPU reads.
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

    /// The vCPU writes: this is no round like the last.
    #[inline]
    pub(crate) fn writes(&mut self) {
        if std::mem::take(&mut self.paused) {
            self.reads = 0;
        }
        self.busy = true;
    }

    /// For how long the vCPU may sleep in the pause that begins at `at`; nothing if it can't.
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

    /// The vCPU falls asleep.
    pub(crate) fn falls_asleep(&mut self, at: u64, vcpu: u32, lines: &mut Lines) {
        self.asleep = Some(at);
        for &(line, _) in &self.read[..self.reads] {
            lines.watch(LineId(line), vcpu);
        }
    }

    /// `by`, which it watches, has changed and can be seen at `seen`; says when it looks.
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

    /// The vCPU does not sleep any more, whatever the lines do. Says when it fell asleep by its own
    /// clock, which may be ahead of the machine's and must not go back.
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

    /// Which loop it is in, as a sample would see it; nothing if it is in none.
    pub(crate) const fn found(&self) -> Option<u64> {
        if self.paused || self.is_asleep() { Some(self.key) } else { None }
    }
}
