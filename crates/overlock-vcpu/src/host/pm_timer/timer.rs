//! The timer itself: see the [module documentation](super).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::event::{EventBlock, SciLine, TMR};
use super::read::ReadRule;
use super::state::State;
use super::ticks::{Width, start_of, ticks};
use crate::host::Nanos;

/// The host's clock. Any function that returns [`Nanos`] is one; it must not panic.
pub trait Clock {
    /// The time since the clock's zero, which may be any moment.
    fn now(&self) -> Nanos;
}

impl<F: Fn() -> Nanos> Clock for F {
    fn now(&self) -> Nanos {
        self()
    }
}

/// An ACPI PM timer on a clock `C`, read by a rule `R`, interrupting through `S`.
#[derive(Debug)]
pub struct PmTimer<C, R, S> {
    width: Width,
    clock: C,
    base: Nanos,
    anchor: Nanos,
    /// By how much the clock has moved in all pauses together. It may have been set back meanwhile:
    /// then this is negative, in two's complement.
    skipped: AtomicU64,
    /// When the timer was paused; the end of time while it runs.
    paused: AtomicU64,
    rule: R,
    events: EventBlock<S>,
}

impl<C: Clock, R: ReadRule, S: SciLine> PmTimer<C, R, S> {
    /// Makes a timer that counts from zero. The rule must be new.
    pub fn new(width: Width, clock: C, rule: R, sci: S) -> Self {
        Self::restore(State::new(width), clock, rule, sci)
    }

    /// Makes a timer that continues from `state`. The clock may differ from the old one and belong
    /// to another host; the time since the save does not count. The rule must be new.
    pub fn restore(state: State, clock: C, rule: R, sci: S) -> Self {
        let State { width, elapsed, status, enable } = state;
        Self {
            width,
            base: elapsed,
            anchor: clock.now(),
            skipped: AtomicU64::new(0),
            paused: AtomicU64::new(u64::MAX),
            clock,
            rule,
            events: EventBlock::new(ticks(elapsed) >> width.msb(), status, enable, sci),
        }
    }

    /// Everything that must be remembered. Save while no vCPU runs: an event during the save may be
    /// lost, or happen again after the restore.
    pub fn save(&self) -> State {
        let elapsed = self.catch_up().0;
        let (status, enable) = (self.events.status(), self.events.enable());
        State { width: self.width, elapsed, status, enable }
    }

    /// The guest's time: how long the timer has counted, across all saves and restores.
    pub fn elapsed(&self) -> Nanos {
        // A clock that reads earlier than it did before counts as standing still.
        self.rule.read(|| {
            // Relaxed, here and below: no vCPU runs while these change.
            let now = match self.paused.load(Relaxed) {
                u64::MAX => self.clock.now().0,
                paused => paused,
            };
            self.base + self.after_zero(Nanos(now))
        })
    }

    /// When the guest's time was `base`, by the host's clock with its moves in pauses.
    fn zero(&self) -> i128 {
        let skipped = self.skipped.load(Relaxed).cast_signed();
        i128::from(self.anchor.0) + i128::from(skipped)
    }

    /// How long after that this time of the host's clock is; nothing if it is before.
    fn after_zero(&self, now: Nanos) -> Nanos {
        let after = i128::from(now.0) - self.zero();
        Nanos(u64::try_from(after.max(0)).unwrap_or(u64::MAX))
    }

    /// Stops the guest's time where it is. Call it once no vCPU runs any more; a second call does
    /// nothing.
    pub fn pause(&self) {
        let now = self.clock.now().0;
        // ORDERING: none is needed beyond that of stopping the vCPUs.
        let _ = self.paused.compare_exchange(u64::MAX, now, Relaxed, Relaxed);
    }

    /// Lets the guest's time continue from where it was paused, wherever the host's clock has been
    /// set meanwhile. Call it before any vCPU runs again.
    pub fn resume(&self) {
        let paused = self.paused.load(Relaxed);
        if paused != u64::MAX {
            let missed = self.clock.now().0.wrapping_sub(paused);
            // Wraps around like the sum that it is part of.
            self.skipped.fetch_add(missed, Relaxed);
            self.paused.store(u64::MAX, Relaxed);
        }
    }

    /// The timer's register: the count, truncated to the timer's width.
    pub fn count(&self) -> u32 {
        // Truncating to 32 bits is the first part of truncating to the width.
        ticks(self.elapsed()) as u32 & self.width.mask()
    }

    /// The status register: [`TMR`] if the status is set.
    pub fn status(&self) -> u16 {
        self.catch_up();
        if self.events.status() { TMR } else { 0 }
    }

    /// Clears the status bits that are ones in `ones`, as a write to the register does.
    pub fn clear_status(&self, ones: u16) {
        if ones & TMR != 0 {
            self.catch_up();
            self.events.clear_status();
        }
    }

    /// The enable register: [`TMR`] if the event is enabled.
    pub fn enable(&self) -> u16 {
        if self.events.enable() { TMR } else { 0 }
    }

    /// Writes the enable register.
    pub fn set_enable(&self, bits: u16) {
        self.catch_up();
        self.events.set_enable(bits & TMR != 0);
    }

    /// When, by the host's clock, the count's highest bit changes next: the time to call
    /// [`service`](Self::service). `None` if that is after the end of time, or the timer is paused.
    pub fn next_flip(&self) -> Option<Nanos> {
        if self.paused.load(Relaxed) != u64::MAX {
            return None;
        }
        let next = (ticks(self.elapsed()) >> self.width.msb()) + 1;
        let flip = start_of(next << self.width.msb())?;
        let at = self.zero() + i128::from((flip - self.base).0);
        u64::try_from(at.max(0)).ok().map(Nanos)
    }

    /// Sets the status if the highest bit has changed. Returns how many changes this call has
    /// found.
    pub fn service(&self) -> u64 {
        self.catch_up().1
    }

    /// Brings the status up to date. Returns the guest's time and how many flips this call found.
    fn catch_up(&self) -> (Nanos, u64) {
        let elapsed = self.elapsed();
        (elapsed, self.events.note(ticks(elapsed) >> self.width.msb()))
    }
}
