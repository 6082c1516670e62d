// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a newcomer yields its processor, and what its absence costs it.
//!
//! Of the time that a newcomer is away while it yields, the more is charged to its budget the less
//! happened meanwhile ([`policy::charged_ns`]). If the lock got nowhere, its holder may have
//! yielded, too, or wait for the processor, and newcomers that stay awake keep it from releasing
//! the lock. If many others took it, it is well used, and the wake-up of one more waiter would only
//! cost time. Even then a small part is charged, so that no thread depends on luck for ever.

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
    /// When the newcomer first read the clock.
    began_ns: Option<u64>,
    /// The word before the last yield, and the nanoseconds from the reading of the clock before
    /// that yield to its end, until they are charged.
    last: Option<(LockWord, u64)>,
}

impl<'a> Yields<'a> {
    /// Begins a wait for a lock whose holders come straight back to it, or do not. If they do, the
    /// newcomer yields from the start.
    pub(super) fn new(costs: Costs, watch: Option<&'a Stopwatch>, comes_back: bool) -> Self {
        Self { costs, watch, always: comes_back, began_ns: None, last: None }
    }

    /// Yields, if it is time and the platform can. `spin` has just read the clock, and `seen` is
    /// the word.
    pub(super) fn yield_if_due<P: Platform, C: Class>(&mut self, spin: &mut Spin, seen: LockWord) {
        let now_ns = spin.looked_ns();
        let spun_ns = now_ns.saturating_sub(*self.began_ns.get_or_insert(now_ns));
        let since_ns = self.watch.map_or(0, |watch| watch.yielded_for_ns(now_ns));
        self.always |= policy::yields(self.costs, spun_ns, since_ns);
        if P::YIELDS && self.always {
            C::count(Event::PvYield);
            let away_ns = spin.yield_now::<P>();
            if let Some(watch) = self.watch {
                watch.yields(spin.looked_ns());
            }
            self.last = Some((seen, away_ns));
        }
    }

    /// Charges the last yield to the budget of `spin`. `seen` is the word now.
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
