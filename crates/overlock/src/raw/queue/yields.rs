// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a newcomer yields its processor, and what its absence costs it.
//!
//! While a newcomer is away, its processor runs what it would run if the newcomer slept, and when
//! it is back, no CPU has had to wake it. So only a small part of that time is charged to its
//! budget: enough that no thread depends on luck for ever.
//!
//! If the last holder comes straight back, though, or no gap has been timed, the lock does not need
//! the newcomer awake, and it may be in the way: a holder that yields, too, inside its critical
//! section, gets its processor back only when all others on it have had it. The lock is then taken
//! about once in each yield of a newcomer. So the fewer others took it while the newcomer was away,
//! the more of that time is charged ([`policy::charged_ns`]). The count in the word says how many
//! these were. Without a queue nothing is counted, and the small part is charged.
//!
//! (With the small part everywhere, `sysbench threads` ran at 0.89 of libc's speed, and with this
//! at 1.65. With the count where holders stay away, too, newcomers to locks with long sections
//! soon halted, and the locks waited for their wake-ups: 16 threads with sections of 42 and pauses
//! of 39 µs had 0.90 of the throughput, and 54 with 2.9 and 1.2 µs had 1.01, but a p99.9 three
//! times as long; 2 CPUs, AMD Zen 4.)
//!
//! If the last holder is known to come straight back, the newcomer also *stays out*: it goes on
//! yielding, and does not look at the lock, until a wake-up latency has passed. If it looked after
//! each yield, the threads on a processor would look the more often, and get the lock the more
//! often, the fewer they are. The newcomer that has set `SPINNER` does not stay out, because
//! releases rely on it.

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
    /// Whether holders come straight back, or no gap has been timed.
    comes_back: bool,
    /// Whether the newcomer yields each time that it reads the clock, from now on.
    always: bool,
    /// How long it stays out each time, in nanoseconds.
    out_ns: u64,
    /// When the newcomer first read the clock.
    began_ns: Option<u64>,
    /// The last absence, until it is charged.
    last: Option<Absence>,
}

/// What a newcomer does not see of the lock: one yield, or several while it stays out.
struct Absence {
    /// The word before it.
    before: LockWord,
    yields: u32,
    /// The sum of the nanoseconds from the reading of the clock before each yield to its end.
    away_ns: u64,
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
        Self { costs, watch, comes_back, always: comes_back, out_ns, began_ns: None, last: None }
    }

    /// Yields, if it is time and the platform can: until the newcomer has stayed out, or once, also
    /// if releases rely on it. `spin` has just read the clock, and `seen` is the word.
    pub(super) fn yield_if_due<P: Platform, C: Class>(
        &mut self,
        spin: &mut Spin,
        seen: LockWord,
        is_relied_on: bool,
    ) {
        let now_ns = spin.looked_ns();
        let spun_ns = now_ns.saturating_sub(*self.began_ns.get_or_insert(now_ns));
        let since_ns = self.watch.map_or(0, |watch| watch.yielded_for_ns(now_ns));
        self.always |= policy::yields(self.costs, spun_ns, since_ns);
        if !P::YIELDS || !self.always {
            return;
        }
        let out_ns = if is_relied_on { 0 } else { self.out_ns };
        let mut absence = Absence { before: seen, yields: 0, away_ns: 0 };
        loop {
            C::count(Event::PvYield);
            let yielded_ns = spin.yield_now::<P>();
            absence.yields += 1;
            absence.away_ns += yielded_ns;
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
        self.last = Some(absence);
    }

    /// Charges the last absence to the budget of `spin`. `seen` is the word now.
    pub(super) fn charge(&mut self, spin: &mut Spin, seen: LockWord) {
        let Some(Absence { before, yields, away_ns }) = self.last.take() else { return };
        let times = match self.comes_back && before.has_queue() && seen.has_queue() {
            // An estimate: the count starts again with each head, and can't grow while stealing is
            // disabled.
            true => seen.steals().wrapping_sub(before.steals()) / yields,
            false => u32::MAX,
        };
        spin.charge(policy::charged_ns(away_ns, times));
    }
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    extern crate std;

    use core::sync::atomic::Ordering::Relaxed;
    use core::sync::atomic::{AtomicU32, AtomicU64};

    use super::*;
    use crate::RawLock;
    use crate::counters::Uncounted;
    use crate::raw::queue::QueueLock;
    use crate::raw::queue::one_cpu::one_cpu;
    use crate::raw::queue::order::Unfair;
    use crate::slot::NodeId;
    use crate::waiters;

    one_cpu!(Away, AWAY_NS, Some(be_away as fn()));

    static YIELD_NS: AtomicU64 = AtomicU64::new(300);

    fn be_away() {
        AWAY_NS.fetch_add(YIELD_NS.load(Relaxed), Relaxed);
    }

    fn held() -> LockWord {
        LockWord::new(0).taken_by_newcomer().unwrap()
    }

    #[test]
    fn a_newcomer_stays_out_each_time_unless_releases_rely_on_it() {
        let costs = Away::costs();
        let absences_ns = |out_ns, budget_ns, is_relied_on| {
            let mut yields = Yields::new(costs, None, true, out_ns);
            let mut spin = Spin::new(budget_ns);
            [(); 2].map(|()| {
                while spin.pause::<Away>() && !spin.has_looked() {}
                let before_ns = AWAY_NS.load(Relaxed);
                yields.yield_if_due::<Away, Uncounted>(&mut spin, held(), is_relied_on);
                let absence = yields.last.take().unwrap();
                let yield_ns = YIELD_NS.load(Relaxed);
                assert_eq!(absence.away_ns, u64::from(absence.yields) * yield_ns);
                AWAY_NS.load(Relaxed) - before_ns
            })
        };
        let round_ns = 300 + 10 * u64::from(costs.pauses_per_look);
        for absence_ns in absences_ns(5_000, u64::MAX, false) {
            assert!((5_000..5_000 + round_ns).contains(&absence_ns), "{absence_ns}");
        }
        assert_eq!(absences_ns(0, u64::MAX, false), [300; 2], "it yields once");
        assert_eq!(absences_ns(5_000, u64::MAX, true), [300; 2], "a release relies on it");
        assert_eq!(absences_ns(5_000, 1, false), [round_ns; 2], "its budget is spent");
        YIELD_NS.store(0, Relaxed);
        assert_eq!(absences_ns(5_000, u64::MAX, false), [0; 2], "the clock stands still");
    }

    crate::lock_class!(Outside);
    one_cpu!(Out, OUT_NS, Some(free as fn()));

    static LOCK: QueueLock<Out, Unfair, Outside> = QueueLock::new();

    /// The lock becomes free during the first yield.
    fn free() {
        OUT_NS.fetch_add(300, Relaxed);
        let word = LOCK.look();
        if word.is_locked() {
            // SAFETY: the test holds the lock: it has stored `LOCKED`.
            unsafe { LOCK.unlock() };
        }
    }

    #[test]
    fn a_newcomer_takes_a_lock_that_became_free_only_when_it_has_stayed_out() {
        let timings = waiters::timings::<Out>(LOCK.key());
        let yields = |word: LockWord, deadline_ns| {
            LOCK.word.store(word.bits(), Relaxed);
            let before = Outside::counters().get(Event::PvYield);
            assert!(LOCK.spin_as_newcomer(deadline_ns));
            Outside::counters().get(Event::PvYield) - before
        };
        assert_eq!(yields(held(), None), 1, "no gap has been timed");
        timings.note_gap(50);
        // A look of the wait before, which took no time, has been timed.
        (0..100).for_each(|_| timings.note_transfer(70));
        assert!(yields(held(), None) > 5);
        assert_eq!(yields(held(), Some(u64::MAX)), 1, "it has a deadline");
        let queue = held().joined_by(NodeId::decode(4).unwrap(), false);
        assert_eq!(yields(queue, None), 1, "it has set SPINNER");
        assert!(yields(queue.with_spinner(), None) > 5, "another has");
        (0..100).for_each(|_| timings.note_gap(2_000));
        // Its CPU has not yielded for long.
        OUT_NS.fetch_add(1_000_000, Relaxed);
        assert_eq!(yields(held(), None), 1, "holders stay away");
    }

    crate::lock_class!(Joining);
    one_cpu!(Joins, JOINS_NS, Some(be_away_for_long as fn()));

    static CONTENDED: QueueLock<Joins, Unfair, Joining> = QueueLock::new();
    static TAKEN: AtomicU32 = AtomicU32::new(0);

    /// A yield takes 20 us, and meanwhile others take the lock [`TAKEN`] times.
    fn be_away_for_long() {
        JOINS_NS.fetch_add(20_000, Relaxed);
        for _ in 0..TAKEN.load(Relaxed) {
            let taken = CONTENDED.look().released(false).taken_by_newcomer().unwrap();
            CONTENDED.word.store(taken.bits(), Relaxed);
        }
    }

    #[test]
    fn a_newcomer_joins_the_queue_the_sooner_the_less_happens_unless_holders_stay_away() {
        let timings = waiters::timings::<Joins>(CONTENDED.key());
        let yields = |gap_ns, taken| {
            (0..100).for_each(|_| timings.note_gap(gap_ns));
            // A look of the wait before, which took no time, may have been timed.
            (0..100).for_each(|_| timings.note_transfer(70));
            TAKEN.store(taken, Relaxed);
            let free = LockWord::new(0).joined_by(NodeId::decode(4).unwrap(), false);
            CONTENDED.word.store(free.taken_by_newcomer().unwrap().bits(), Relaxed);
            let before = Joining::counters().get(Event::PvYield);
            assert!(!CONTENDED.spin_as_newcomer(None));
            Joining::counters().get(Event::PvYield) - before
        };
        let comes_back = [0, 1, 2, 5].map(|taken| yields(50, taken));
        assert_eq!(comes_back, [3, 3, 5, 13], "20 us each, of a budget of 50");
        let costs = Joins::costs();
        let look_ns = 10 * u64::from(costs.pauses_per_look);
        let round_ns = look_ns + policy::charged_ns(20_000, u32::MAX);
        // The CPU has yielded in the wait before, so it spins before it yields again.
        let spins_ns = policy::newcomer_spins_ns(costs, false);
        let many = (policy::newcomer_spins_ns(costs, true) - spins_ns) / round_ns;
        for taken in [0, 5] {
            assert!(yields(2_000, taken).abs_diff(many) <= 1, "{many}");
        }
    }

    one_cpu!(Charged, CHARGED_NS, Some(core::hint::spin_loop as fn()));

    #[test]
    fn an_absence_is_charged_by_what_happened_in_one_yield_if_holders_come_straight_back() {
        let queue = held().joined_by(NodeId::decode(4).unwrap(), false);
        let pass = |seen: LockWord, _| seen.released(false).taken_by_newcomer().unwrap();
        let passed = |times| (0..times).fold(queue, pass);
        let pauses = Charged::costs().pauses_per_look;
        let look_ns = 10 * u64::from(pauses);
        // How many looks at the clock are left of 11, the first of which begins the budget.
        let left = |looks, comes_back, before, seen| {
            let mut yields = Yields::new(Charged::costs(), None, comes_back, 0);
            let mut spin = Spin::new(10 * look_ns);
            yields.last = Some(Absence { before, yields: 10, away_ns: looks * look_ns });
            yields.charge(&mut spin, seen);
            (1..).find(|_| !spin.pause_times::<Charged>(pauses)).unwrap()
        };
        assert_eq!(left(6, true, passed(1), passed(11)), 5, "one in each yield is no progress");
        assert_eq!(left(6, true, passed(1), passed(21)), 8);
        assert_eq!(left(128, false, passed(1), passed(1)), 9, "holders stay away");
        let pairs = [(queue, held()), (passed(1), held()), (held(), passed(1)), (held(), held())];
        for (before, seen) in pairs {
            assert_eq!(left(128, true, before, seen), 9, "there may have been any number");
        }
    }
}
