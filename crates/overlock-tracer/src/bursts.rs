// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the clocks of a program's processors are sampled without root.
//!
//! Such a clock belongs to a thread, so the kernel sets a timer each time that the thread gets a
//! processor. That is dear where threads switch often: it is then done in bursts only.

use crate::platform;
use std::os::fd::OwnedFd;

/// The events of the clocks, and for how long they were on.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    events: Vec<OwnedFd>,
    is_off: bool,
    since: u64,
    on_ns: u64,
    off_ns: u64,
    switches: u64,
    /// How long it takes to turn all clocks on or off.
    cost_ns: u64,
}

/// So many switches in a second are many.
const MANY: u64 = 20_000;
/// The length of a burst, and of what is between two of them.
const ON_NS: u64 = 10_000_000;
const OFF_NS: u64 = 90_000_000;
/// Turning clocks on and off may take this part of the time: one of so much.
const SHARE: u64 = 50;

impl Bursts {
    pub(crate) fn add(&mut self, event: OwnedFd) {
        self.events.push(event);
    }

    /// Turns the clocks on or off if it is time to; `switches` is how often threads have switched.
    pub(crate) fn turn(&mut self, switches: u64) {
        let now = platform::now_ns();
        if self.since == 0 {
            self.since = now;
        }
        let passed = now - self.since;
        let length = if self.is_off { OFF_NS } else { ON_NS };
        if passed < length.max(self.cost_ns * SHARE) || self.events.is_empty() {
            return;
        }
        let are_many = (switches - self.switches) * 1_000_000_000 / passed >= MANY;
        self.count(now);
        self.switches = switches;
        if self.is_off || are_many {
            self.is_off = !self.is_off;
            self.events.iter().for_each(|event| platform::turn(event, !self.is_off));
            self.cost_ns = platform::now_ns() - now;
        }
    }

    fn count(&mut self, now: u64) {
        let sum = if self.is_off { &mut self.off_ns } else { &mut self.on_ns };
        *sum += now - self.since;
        self.since = now;
    }

    pub(crate) fn events(&self) -> &[OwnedFd] {
        &self.events
    }

    /// Returns how many times longer the program ran than its clocks were sampled.
    pub(crate) fn stretch(&mut self) -> f64 {
        self.count(platform::now_ns().max(self.since));
        (self.on_ns + self.off_ns) as f64 / self.on_ns.max(1) as f64
    }
}
