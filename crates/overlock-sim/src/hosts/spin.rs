//! Spin loops that cost events only when something happens.
//!
//! A waiting loop loads some words and pauses, once or several times, again and again: a round. As
//! long as none of the lines changes, the next round is like the last one, except for the clock. So
//! a vCPU that has made a round can skip rounds: it sleeps from its first pause in one round to its
//! first pause in a later one, and loads when it would have loaded. A loop that reads the clock,
//! which the locks do after each sixteenth pause, sleeps once between two readings, for an eighth
//! of the time since it last saw a change, and thus exceeds its budget by at most an eighth. A loop
//! that does not read the clock sleeps until a line changes; if the host wants reports, every loop
//! sleeps at most until the end of the pause window.
//!
//! A woken spinner counts as having loaded in vain once in each round until then, and sees the
//! change at its next load. If that change was to another word of the line, this load is in vain
//! too. Where a round is that load and one pause, the machine makes it, with the same cost and at
//! the same time, and the vCPU sleeps on without a change of coroutine: on a contended ticket lock,
//! that is every second load.

use super::coherence::{LineId, Lines};

/// How many lines a loop may read and still sleep.
const LINES: usize = 6;

/// The most nanoseconds between two pauses of one loop; after a longer gap they count as different
/// loops. Hardware uses 128 cycles, but on hardware no load of a contended line comes between.
pub(crate) const GAP_NS: u64 = 4_000;

/// The most pauses of a loop between two readings of the clock; one with more reads none.
const CLOCKLESS: u32 = 64;

/// A load that is all that a round does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Only {
    pub(crate) word: usize,
    pub(crate) order_ns: u64,
    pub(crate) done: u64,
}

/// A vCPU's spin loop, if it is in one.
#[derive(Debug, Default)]
pub(crate) struct Loop {
    /// The lines read in this round, and their versions at that time.
    read: [(u32, u32); LINES],
    reads: usize,
    /// The only access of this round.
    only: Option<Only>,
    /// If it was woken by another word than that of its only load: the version of the line, which
    /// holds as long as the load would be in vain.
    vain: Option<u32>,
    /// Whether the line is on its way for that load.
    is_coming: bool,
    /// Whether it has written, or read more lines than there is room for.
    busy: bool,
    /// Whether a pause of this round has begun, so that the next load begins another round.
    paused: bool,
    /// Whether a line of this round had to come.
    fetched: bool,
    /// When this round first loaded, the line being there.
    loaded_at: u64,
    /// When the first pause of the last round began, if the rounds have followed each other since.
    paused_at: Option<u64>,
    /// How long a round takes whose lines are there, and how long after its first pause the next
    /// round loads; 0 if no such round has been seen.
    round_ns: u64,
    loads_after: u64,
    /// Pauses since the last reading of the clock, and whether the loop has slept since.
    unclocked: u32,
    slept: bool,
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

/// For how long a loop may skip its rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    No,
    /// For so many nanoseconds, a number of whole rounds.
    For(u64),
    UntilChange,
}

impl Loop {
    #[inline]
    pub(crate) fn reads(&mut self, line: LineId, version: u32, began: u64, load: Only) {
        self.only = None;
        if std::mem::take(&mut self.paused) {
            (self.reads, self.busy, self.only, self.loaded_at) = (0, false, Some(load), began);
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

    /// Records that the line of the vCPU's next access has to come.
    #[inline]
    pub(crate) fn fetches(&mut self) {
        self.fetched = true;
    }

    /// Records that the vCPU has read the clock.
    #[inline]
    pub(crate) fn reads_clock(&mut self) {
        (self.unclocked, self.slept) = (0, false);
    }

    /// Records a write by the vCPU: this round differs from the last.
    #[inline]
    pub(crate) fn writes(&mut self) {
        self.only = None;
        if std::mem::take(&mut self.paused) {
            self.reads = 0;
        }
        self.busy = true;
    }

    /// Records a pause that begins at `at`. Returns for how long the vCPU may skip its rounds.
    pub(crate) fn pauses(&mut self, at: u64, bounded: bool, lines: &Lines) -> Sleep {
        self.unclocked = self.unclocked.saturating_add(1);
        if std::mem::replace(&mut self.paused, true) {
            return Sleep::No;
        }
        let last = self.paused_at.replace(at);
        let fetched = std::mem::take(&mut self.fetched);
        let read = &self.read[..self.reads];
        let key = read.iter().fold(1, |key: u64, &(line, _)| key.rotate_left(9) ^ u64::from(line));
        let changed = read.iter().any(|&(line, version)| lines.version(LineId(line)) != version);
        if std::mem::replace(&mut self.key, key) != key || self.busy || self.reads == 0 {
            (self.since, self.round_ns) = (at, 0);
            return Sleep::No;
        }
        if let Some(last) = last.filter(|&last| last < at && !fetched) {
            self.round_ns = at - last;
        }
        if changed {
            self.since = at;
            return Sleep::No;
        }
        if self.round_ns == 0 {
            return Sleep::No;
        }
        self.loads_after = self.round_ns.saturating_sub(at - self.loaded_at);
        if !bounded || self.unclocked > CLOCKLESS {
            return Sleep::UntilChange;
        }
        let span = (at - self.since) / 8 / self.round_ns * self.round_ns;
        if span == 0 || std::mem::replace(&mut self.slept, true) {
            return Sleep::No;
        }
        Sleep::For(span)
    }

    /// The vCPU has skipped rounds, to the one whose first pause begins at `at`.
    pub(crate) fn skips_to(&mut self, at: u64) {
        self.paused_at = Some(at);
    }

    /// The vCPU does something else between this pause and the next.
    pub(crate) fn breaks_off(&mut self) {
        self.paused_at = None;
    }

    /// Puts the vCPU to sleep in the pause that begins at `at`, `until` a time that is `None` if
    /// only a change of a line ends it.
    pub(crate) fn falls_asleep(
        &mut self,
        at: u64,
        until: Option<u64>,
        pause: u64,
        vcpu: u32,
        lines: &mut Lines,
    ) {
        self.asleep = Some(at);
        // A round that takes time beyond its load and one pause does more.
        let is_all = |only: &Only| only.done == at && self.loads_after == pause;
        self.only = self.only.filter(|only| until.is_none() && is_all(only));
        for &(line, _) in &self.read[..self.reads] {
            lines.watch(LineId(line), vcpu);
        }
    }

    /// Records that `word` of the watched line `by` has changed, which can be seen at `seen`.
    /// Returns when the first pause ends of the round after which the vCPU loads it.
    pub(crate) fn woken(
        &mut self,
        (by, word): (LineId, usize),
        seen: u64,
        pause: u64,
        vcpu: u32,
        lines: &mut Lines,
    ) -> u64 {
        let asleep = self.asleep.take().unwrap_or(seen);
        // Accesses to a word all have its width, so another address is another word.
        let in_vain = self.only.is_some_and(|only| only.word != word);
        self.vain = in_vain.then(|| lines.version(by));
        for &(line, _) in self.read[..self.reads].iter().filter(|&&(line, _)| line != by.0) {
            lines.unwatch(LineId(line), vcpu);
        }
        let rounds = seen.saturating_sub(asleep + self.loads_after).div_ceil(self.round_ns.max(1));
        let paused_at = asleep + rounds * self.round_ns;
        self.paused_at = Some(paused_at);
        paused_at + pause
    }

    /// The line and the load that the woken vCPU would make in vain, if it still would, and whether
    /// the line has been asked for.
    pub(crate) fn takes_in_vain(&mut self, lines: &Lines) -> Option<(LineId, Only, bool)> {
        let version = self.vain?;
        let is_coming = std::mem::take(&mut self.is_coming);
        let line = LineId(self.read[0].0);
        let only = self.only.filter(|_| lines.version(line) == version);
        if only.is_none() {
            self.vain = None;
        }
        only.map(|only| (line, only, is_coming))
    }

    /// Records that the line is on its way for the load that the machine makes.
    pub(crate) fn awaits_line(&mut self) {
        (self.is_coming, self.fetched) = (true, true);
    }

    /// Records that the machine has made the load, and puts the vCPU to sleep again.
    pub(crate) fn sleeps_on(&mut self, line: LineId, load: Only, vcpu: u32, lines: &mut Lines) {
        (self.vain, self.fetched) = (None, false);
        self.read[0].1 = lines.version(line);
        self.only = Some(load);
        self.asleep = Some(load.done);
        lines.watch(line, vcpu);
    }

    /// Ends the vCPU's sleep, whatever the lines do. Returns when it fell asleep by its own clock,
    /// which may be ahead of the machine's and must not go back.
    pub(crate) fn wakes(&mut self, vcpu: u32, lines: &mut Lines) -> Option<u64> {
        (self.vain, self.is_coming) = (None, false);
        let asleep = self.asleep.take()?;
        self.breaks_off();
        for &(line, _) in &self.read[..self.reads] {
            lines.unwatch(LineId(line), vcpu);
        }
        Some(asleep)
    }

    pub(crate) const fn is_asleep(&self) -> bool {
        self.asleep.is_some()
    }

    /// The loop that a sample would find it in; `None` if it is in none.
    pub(crate) const fn found(&self) -> Option<u64> {
        if self.paused || self.is_asleep() { Some(self.key) } else { None }
    }
}
