// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a newcomer yields its processor, and what its absence costs it.
//!
//! Of the time that a newcomer is away while it yields, the more is charged to its budget the less
//! happened meanwhile ([`policy::charged_ns`]). If the lock got nowhere, its holder may have
//! yielded, too, or wait for the processor, and newcomers that stay awake keep it from releasing
//! the lock. If many others took it, it is well used, and the wake-up of one more waiter would only
//! cost time. Even then a small part is charged, so that no thread depends on luck for ever.
//!
//! If the last holder comes straight back, and there is no queue, the newcomer *stays out*: it goes
//! on yielding, and does not look at the lock, until a wake-up latency has passed. If it looked
//! after each yield, the threads on a processor would look the more often, and get the lock the
//! more often, the fewer they are. (With a queue it looks after each yield: a release relies on the
//! newcomer that has set `SPINNER`, and time away is charged by what happened in one yield.)

use super::policy;
use crate::counters::{Class, Event};
use crate::platform::{Costs, Platform};
use crate::raw::word::queue::LockWord;
use crate::slot::Stopwatch;
use crate::spin::Spin;

/// The yields of a newcomer in one wait.
pub(super) struct Yields<'a> {
    /// What waiting cost when this wait began.
    costs: Costs,
    /// The stopwatch of this CPU, which knows when the CPU last yielded.
    watch: Option<&'a Stopwatch>,
    /// Whether the newcomer yields each time that it reads the clock, from now on.
    always: bool,
    /// How long it stays out each time, in nanoseconds, if at all.
    out_ns: u64,
    /// When the newcomer first read the clock.
    began_ns: Option<u64>,
    /// The word before the last yields, and the sum of the nanoseconds from the reading of the clock
    /// before each yield to its end, until they are charged.
    last: Option<(LockWord, u64)>,
}

impl<'a> Yields<'a> {
    /// Begins a wait for a lock whose holders come straight back to it, or do not. If they do, the
    /// newcomer yields from the start, and stays out for `out_ns` nanoseconds each time.
    pub(super) fn new(
        costs: Costs,
        watch: Option<&'a Stopwatch>,
        comes_back: bool,
        out_ns: u64,
    ) -> Self {
        Self { costs, watch, always: comes_back, out_ns, began_ns: None, last: None }
    }

    /// Yields, if it is time and the platform can: once, or until it has stayed out. `spin` has just
    /// read the clock, and `seen` is the word.
    pub(super) fn yield_if_due<P: Platform, C: Class>(&mut self, spin: &mut Spin, seen: LockWord) {
        let now_ns = spin.looked_ns();
        let spun_ns = now_ns.saturating_sub(*self.began_ns.get_or_insert(now_ns));
        let since_ns = self.watch.map_or(0, |watch| watch.yielded_for_ns(now_ns));
        self.always |= policy::yields(self.costs, spun_ns, since_ns);
        if !P::YIELDS || !self.always {
            return;
        }
        let out_ns = if seen.has_queue() { 0 } else { self.out_ns };
        let mut away_ns = 0;
        loop {
            C::count(Event::PvYield);
            let yielded_ns = spin.yield_now::<P>();
            away_ns += yielded_ns;
            if let Some(watch) = self.watch {
                watch.yields(spin.looked_ns());
            }
            // Each yield reads the clock; if the clock stands still, the newcomer does not wait for
            // it. The pauses are charged to the budget.
            let is_out = spin.looked_ns().saturating_sub(now_ns) < out_ns && yielded_ns > 0;
            if !is_out || !spin.pause_times::<P>(self.costs.pauses_per_look) {
                break;
            }
        }
        self.last = Some((seen, away_ns));
    }

    /// Charges the last yields to the budget of `spin`. `seen` is the word now.
    pub(super) fn charge(&mut self, spin: &mut Spin, seen: LockWord) {
        if let Some((before, away_ns)) = self.last.take() {
            spin.charge(policy::charged_ns(away_ns, steals_between(before, seen)));
        }
    }
}

/// How often the queue head was passed while the word went from `before` to `now`. This is an
/// estimate: the count starts again with each head, and can't grow while stealing is disabled.
/// Without a queue, most acquisitions are not counted, and there may have been any number.
fn steals_between(before: LockWord, now: LockWord) -> u32 {
    match before.has_queue() && now.has_queue() {
        true => now.steals().wrapping_sub(before.steals()),
        false => u32::MAX,
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    extern crate std;

    use core::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::counters::Uncounted;
    use crate::raw::queue::one_cpu::one_cpu;
    use crate::slot::NodeId;

    one_cpu!(Away, AWAY_NS, Some(be_away as fn()));

    static YIELD_NS: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(300);

    fn be_away() {
        AWAY_NS.fetch_add(YIELD_NS.load(Relaxed), Relaxed);
    }

    #[test]
    fn a_newcomer_stays_out_each_time_unless_there_is_a_queue() {
        let costs = Away::costs();
        let held = LockWord::new(0).taken_by_newcomer().unwrap();
        let queue = LockWord::new(0).joined_by(NodeId::decode(4).unwrap(), false);
        let absences_ns = |out_ns, budget_ns, seen| {
            let mut yields = Yields::new(costs, None, true, out_ns);
            let mut spin = Spin::new(budget_ns);
            [(); 2].map(|()| {
                while spin.pause::<Away>() && !spin.has_looked() {}
                let before_ns = AWAY_NS.load(Relaxed);
                yields.yield_if_due::<Away, Uncounted>(&mut spin, seen);
                let away_ns = yields.last.unwrap().1;
                let absence_ns = AWAY_NS.load(Relaxed) - before_ns;
                assert!(away_ns.is_multiple_of(300) && away_ns <= absence_ns);
                absence_ns
            })
        };
        let round_ns = 300 + 10 * u64::from(costs.pauses_per_look);
        for absence_ns in absences_ns(5_000, u64::MAX, held) {
            assert!((5_000..5_000 + round_ns).contains(&absence_ns), "{absence_ns}");
        }
        assert_eq!(absences_ns(0, u64::MAX, held), [300; 2], "it yields once");
        assert_eq!(absences_ns(5_000, u64::MAX, queue), [300; 2], "it may be a release's hope");
        assert_eq!(absences_ns(5_000, 1, held), [round_ns; 2], "its budget is spent");
        YIELD_NS.store(0, Relaxed);
        assert_eq!(absences_ns(5_000, u64::MAX, held), [0; 2], "the clock stands still");
    }
}
