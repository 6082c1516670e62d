//! Which vCPU ran where, and which waited for and held which lock, for a part of a run.
//!
//! Each event is recorded where it is known anyway: the host's decisions under the lock of its own
//! state, and a vCPU's times after the release, from clock readings that it needs in any case. Room
//! is reserved before the run. A recorder that has none left stops recording, and the timeline then
//! ends there for all. A run without a timeline pays one branch for each critical section and each
//! decision.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;

use overlock_results::{Accounts, Timeline};

use crate::RunConfig;

mod notes;
mod window;

pub use notes::Notes;
pub use window::{Window, prepared};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) lock: u32,
    pub(crate) asked_ns: u64,
    pub(crate) taken_ns: u64,
    pub(crate) released_ns: u64,
}

impl Window {
    /// The part in the middle of a run that the configuration asks for.
    pub fn of(config: &RunConfig<'_>) -> Option<Self> {
        let ns = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let from_ns = ns(config.duration) / 2;
        config.timeline.map(|span| Window { from_ns, to_ns: from_ns.saturating_add(ns(span)) })
    }
}

/// The critical sections of one vCPU, which it writes itself.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Log {
    window: Window,
    holds: UnsafeCell<Vec<Hold>>,
}

// SAFETY: `note` and `read` document who may call them and when.
unsafe impl Sync for Log {}

impl Log {
    pub(crate) fn new(window: Window, vcpus: u32) -> Self {
        // These are not zeros, which the system would provide without writing them.
        let (lock, ns) = (u32::MAX, u64::MAX);
        let blank = Hold { lock, asked_ns: ns, taken_ns: ns, released_ns: ns };
        Self { window, holds: UnsafeCell::new(prepared(vcpus, blank)) }
    }

    /// Records a critical section, if it is within the window and there is room. It allocates
    /// nothing.
    ///
    /// # Safety
    /// Only one thread calls this, and no other thread reads meanwhile.
    #[inline]
    pub(crate) unsafe fn note(&self, hold: Hold) {
        if self.window.has(hold.asked_ns, hold.released_ns) {
            // SAFETY: the caller guarantees it.
            let holds = unsafe { &mut *self.holds.get() };
            if holds.len() < holds.capacity() {
                holds.push(hold);
            }
        }
    }

    /// The recorded sections, and whether there was room for all of them.
    ///
    /// # Safety
    /// The vCPU that records has ended.
    unsafe fn read(&self) -> (&[Hold], bool) {
        // SAFETY: the caller guarantees it.
        let holds = unsafe { &*self.holds.get() };
        (holds, holds.len() < holds.capacity())
    }
}

/// Combines the records of the host and the vCPUs. All vCPUs have ended.
pub(crate) fn combined(
    window: Window,
    ended_ns: u64,
    vcpus: &[Accounts],
    logs: &[Log],
) -> Timeline {
    let mut to_ns = window.to_ns.min(ended_ns);
    let (mut stints, mut holds) = (Vec::new(), Vec::new());
    for life in vcpus {
        to_ns = to_ns.min(life.stints.last().map_or(to_ns, |last| last.4));
        stints.extend(life.stints.iter().copied());
    }
    for (vcpu, log) in (0..).zip(logs) {
        // SAFETY: all vCPUs have ended.
        let (own, is_whole) = unsafe { log.read() };
        if let Some(last) = own.last().filter(|_| !is_whole) {
            to_ns = to_ns.min(last.released_ns);
        }
        holds.extend(own.iter().map(|h| (vcpu, h.lock, h.asked_ns, h.taken_ns, h.released_ns)));
    }
    stints.retain(|stint| stint.3 < to_ns);
    holds.retain(|hold| hold.2 < to_ns);
    holds.sort_unstable_by_key(|hold| hold.3);
    end_at_the_next(&mut holds);
    Timeline { from_ns: window.from_ns.min(to_ns), to_ns, stints, holds }
}

/// Ends each critical section no later than where the next one under the same lock begins: a
/// release is stamped once its kick is done, and by then another vCPU often has the lock.
fn end_at_the_next(holds: &mut [(u32, u32, u64, u64, u64)]) {
    let mut next = BTreeMap::new();
    for (_, lock, _, taken_ns, released_ns) in holds.iter_mut().rev() {
        let limit = next.insert(*lock, *taken_ns).unwrap_or(u64::MAX);
        *released_ns = (*released_ns).min(limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const WINDOW: Window = Window { from_ns: 500, to_ns: 600 };

    fn life(to_ns: u64) -> Accounts {
        Accounts { stints: vec![(0, "running", Some(0), 490, to_ns)], ..Accounts::default() }
    }

    fn log(room: usize, sections: &[u64]) -> Log {
        let log = Log { window: WINDOW, holds: UnsafeCell::new(Vec::with_capacity(room)) };
        for &at in sections {
            let hold = Hold { lock: 0, asked_ns: at, taken_ns: at + 2, released_ns: at + 5 };
            // SAFETY: one thread.
            unsafe { log.note(hold) };
        }
        log
    }

    #[test]
    fn the_window_is_in_the_middle_of_the_run() {
        let duration = Duration::from_nanos(1_000);
        let config = RunConfig { duration, ..RunConfig::new(1, 1) };
        assert_eq!(Window::of(&config), None);
        let config = RunConfig { timeline: Some(Duration::from_nanos(100)), ..config };
        assert_eq!(Window::of(&config), Some(WINDOW));
    }

    #[test]
    fn sections_outside_the_window_are_not_noted() {
        let log = log(100, &[100, 494, 496, 598, 601]);
        let timeline = combined(WINDOW, 1_000, &[life(600)], &[log]);
        let asked: Vec<u64> = timeline.holds.iter().map(|hold| hold.2).collect();
        assert_eq!(asked, [496, 598]);
        assert_eq!((timeline.from_ns, timeline.to_ns), (500, 600));
    }

    #[test]
    fn a_lock_has_one_holder_at_a_time() {
        let mut holds =
            [(0, 0, 1, 10, 30), (1, 1, 2, 12, 14), (2, 0, 3, 20, 25), (1, 0, 4, 26, 40)];
        end_at_the_next(&mut holds);
        assert_eq!(holds.map(|hold| hold.4), [20, 14, 25, 40]);
        // The first release is stamped at 515, when the second vCPU has had the lock since 514.
        let logs = [log(9, &[510]), log(9, &[512])];
        let timeline = combined(WINDOW, 1_000, &[life(600), life(600)], &logs);
        assert_eq!(timeline.holds, [(0, 0, 510, 512, 514), (1, 0, 512, 514, 517)]);
    }

    #[test]
    fn without_room_the_timeline_ends_for_all() {
        let full = log(2, &[510, 520, 530]);
        assert_eq!(full.holds.into_inner().len(), 2, "nothing is allocated");
        let logs = [log(2, &[510, 520, 530]), log(100, &[505, 540, 550])];
        let timeline = combined(WINDOW, 1_000, &[life(600), life(600)], &logs);
        assert_eq!((timeline.to_ns, timeline.holds.len()), (525, 3));
        // The same if it was the host that had no room.
        let timeline = combined(WINDOW, 1_000, &[life(600), life(560)], &[]);
        assert_eq!(timeline.to_ns, 560);
    }
}
