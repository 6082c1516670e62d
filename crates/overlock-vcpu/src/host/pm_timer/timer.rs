//! The timer itself: see the [module documentation](super).

use super::event::{EventBlock, SciLine, TMR};
use super::read::ReadRule;
use super::ticks::{Width, start_of, ticks};
use crate::host::Nanos;

/// The host's clock. Any function that returns [`Nanos`] is one; it must not panic.
pub trait HostClock {
    /// The time since the clock's zero, which may be any moment.
    fn now(&self) -> Nanos;
}

impl<F: Fn() -> Nanos> HostClock for F {
    fn now(&self) -> Nanos {
        self()
    }
}

/// Everything that a timer must remember while its guest does not run. To continue, pass it to
/// [`PmTimer::restore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerState {
    /// How many bits the guest sees.
    pub width: Width,
    /// The guest's time.
    pub elapsed: Nanos,
    /// `TMR_STS`.
    pub status: bool,
    /// `TMR_EN`.
    pub enable: bool,
}

impl TimerState {
    /// The state of a timer that has not counted yet.
    pub const fn new(width: Width) -> Self {
        Self { width, elapsed: Nanos::ZERO, status: false, enable: false }
    }
}

/// An ACPI PM timer on a clock `C`, read by a rule `R`, interrupting through `S`.
#[derive(Debug)]
pub struct PmTimer<C, R, S> {
    width: Width,
    clock: C,
    base: Nanos,
    anchor: Nanos,
    rule: R,
    events: EventBlock<S>,
}

impl<C: HostClock, R: ReadRule, S: SciLine> PmTimer<C, R, S> {
    /// Makes a timer that counts from zero. The rule must be new.
    pub fn new(width: Width, clock: C, rule: R, sci: S) -> Self {
        Self::restore(TimerState::new(width), clock, rule, sci)
    }

    /// Makes a timer that continues from `state`. The clock may differ from the old one and belong
    /// to another host; the time since the save does not count. The rule must be new.
    pub fn restore(state: TimerState, clock: C, rule: R, sci: S) -> Self {
        let TimerState { width, elapsed, status, enable } = state;
        Self {
            width,
            base: elapsed,
            anchor: clock.now(),
            clock,
            rule,
            events: EventBlock::new(ticks(elapsed) >> width.msb(), status, enable, sci),
        }
    }

    /// Everything that must be remembered. Save while no vCPU runs: an event during the save may be
    /// lost, or happen again after the restore.
    pub fn save(&self) -> TimerState {
        let elapsed = self.catch_up().0;
        let (status, enable) = (self.events.status(), self.events.enable());
        TimerState { width: self.width, elapsed, status, enable }
    }

    /// The guest's time: how long the timer has counted, across all saves and restores.
    pub fn elapsed(&self) -> Nanos {
        // A clock that reads earlier than it did before counts as standing still.
        self.rule.read(|| self.base + Nanos(self.clock.now().0.saturating_sub(self.anchor.0)))
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
    /// [`service`](Self::service). `None` if that is after the end of time.
    pub fn next_flip(&self) -> Option<Nanos> {
        let next = (ticks(self.elapsed()) >> self.width.msb()) + 1;
        let flip = start_of(next << self.width.msb())?;
        self.anchor.0.checked_add((flip - self.base).0).map(Nanos)
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
