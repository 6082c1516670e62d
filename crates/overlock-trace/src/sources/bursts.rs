//! Events that are dear where threads switch often, recorded in bursts.
//!
//! Without root, the clock that samples what a thread does belongs to the thread, so the kernel
//! sets a timer each time that the thread gets a processor. With root, the kernel walks its own
//! stack to tell why a thread leaves its processor.

use crate::sources::platform;
use std::os::fd::OwnedFd;

/// The events, and for how long they were on.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    events: Vec<OwnedFd>,
    /// Those that are on when the others are off.
    instead: Vec<OwnedFd>,
    is_off: bool,
    since: u64,
    on_ns: u64,
    off_ns: u64,
    switches: u64,
    /// When it was last asked, while they were off, how often threads switch, and how often they
    /// had.
    asked: (u64, u64),
    /// How long it takes to turn all of them on or off.
    cost_ns: u64,
}

/// So many switches in a second are many.
const MANY: u64 = 20_000;
/// The length of a burst, and of what is between two of them.
const ON_NS: u64 = 10_000_000;
const OFF_NS: u64 = 90_000_000;
/// The same where other events tell meanwhile, and know most by what the last bursts have told.
const REPLACED_NS: u64 = 490_000_000;
/// There, they are on again as soon as threads switch less often for so long.
const FEW_NS: u64 = 20_000_000;
/// Turning them on and off may take this part of the time: one of so much.
const SHARE: u64 = 50;

impl Bursts {
    pub(crate) fn add(&mut self, event: OwnedFd) {
        self.events.push(event);
    }

    /// Adds an event that is off for as long as the others are on.
    pub(crate) fn add_instead(&mut self, event: OwnedFd) {
        self.instead.push(event);
    }

    /// Turns the events on or off if it is time to; `switches` is how often threads have switched.
    pub(crate) fn turn(&mut self, switches: u64, may_be_off: bool) {
        self.turn_at(platform::now_ns(), switches, may_be_off);
    }

    fn turn_at(&mut self, now: u64, switches: u64, may_be_off: bool) {
        if self.since == 0 {
            self.since = now;
        }
        let passed = now - self.since;
        let is_enough = self.is_off && !self.instead.is_empty() && self.are_few(now, switches);
        let length = match self.is_off {
            false => ON_NS,
            true if is_enough => 0,
            true if self.instead.is_empty() => OFF_NS,
            true => REPLACED_NS,
        };
        if passed < length.max(self.cost_ns * SHARE) || self.events.is_empty() {
            return;
        }
        let are_many = (switches - self.switches) * 1_000_000_000 / passed >= MANY && may_be_off;
        self.count(now);
        self.switches = switches;
        if self.is_off || are_many {
            let start = platform::now_ns();
            self.is_off = !self.is_off;
            self.asked = (now, switches);
            // Between the two calls both tell, which is better than neither.
            let (on, off) = match self.is_off {
                true => (&self.instead, &self.events),
                false => (&self.events, &self.instead),
            };
            on.iter().for_each(|event| platform::turn(event, true));
            off.iter().for_each(|event| platform::turn(event, false));
            self.cost_ns = platform::now_ns() - start;
        }
    }

    /// Returns whether threads have switched seldom since this was asked last, if that is long
    /// enough ago to say so.
    fn are_few(&mut self, now: u64, switches: u64) -> bool {
        let (then, before) = self.asked;
        let passed = now - then;
        if passed < FEW_NS {
            return false;
        }
        self.asked = (now, switches);
        (switches - before) * 1_000_000_000 / passed < MANY
    }

    fn count(&mut self, now: u64) {
        let sum = if self.is_off { &mut self.off_ns } else { &mut self.on_ns };
        *sum += now - self.since;
        self.since = now;
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &OwnedFd> {
        self.events.iter().chain(&self.instead)
    }

    /// Returns how many times longer the program ran than the events were on.
    pub(crate) fn stretch(&mut self) -> f64 {
        self.count(platform::now_ns().max(self.since));
        (self.on_ns + self.off_ns) as f64 / self.on_ns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const MS: u64 = 1_000_000;

    /// A program that begins to idle may tell of its switches by these events only.
    #[test]
    fn events_are_on_again_as_soon_as_switches_are_few() {
        let event = || OwnedFd::from(File::open("/dev/null").unwrap());
        let mut bursts = Bursts::default();
        bursts.add(event());
        bursts.add_instead(event());
        let mut turn = |at_ms: u64, switches| {
            // However long the calls take here.
            bursts.cost_ns = 0;
            bursts.turn_at(at_ms * MS, switches, true);
            bursts.is_off
        };
        assert!(!turn(10, 0));
        assert!(turn(20, 1000), "there were 100 in a millisecond");
        assert!(turn(40, 3000), "they are as many as before");
        assert!(turn(55, 3000), "it may be a pause of the reader");
        assert!(!turn(60, 3000), "there were none for 20 ms");
        assert!(!turn(70, 3010), "and they stay few");
    }
}
