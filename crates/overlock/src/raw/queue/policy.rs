// SPDX-License-Identifier: MIT OR Apache-2.0
//! The policy of the queue locks, as pure functions of what waiting [costs](Costs): when a waiter
//! spins, yields, halts and disables stealing.
//!
//! *Work conservation.* A running newcomer takes a free lock at its first look, unless it makes way
//! for a queue head that needs a processor. Only the queue head, which is entitled to the next
//! critical section in any case, waits beside a lock that it sees free, for [as long](hand_over_ns)
//! as a hand-over costs. If the last holder is back within that time, one CPU saturates the lock,
//! and every hand-over would cost more than it brings; the queue head then looks less often, and
//! takes its turn when its tenure is over. If the last holder does not come back, the head takes
//! the lock.
//!
//! *Does the last holder come straight back?* Newcomers, too, must know this, because it decides
//! what their presence is worth. If it does, a newcomer only takes the line away from a CPU that
//! needs no help, and should look rarely, yield at once, and need not stay awake. If it does not,
//! the lock stands free until somebody looks, and a newcomer should look all the time, and not pay
//! for a context switch where a section is about to end. Nothing that a newcomer sees tells the two
//! apart, so each CPU times its own [gap](crate::slot::Stopwatch) from time to time, and how long
//! it takes to fetch the lock word from another CPU. All CPUs go by the lock's
//! [medians](crate::waiters::Timings).
//!
//! *Spin, then halt.* A waiter spins for about as long as halting would cost it. Spinning longer
//! would waste more than a halt; spinning less would pay for halts that a moment more makes
//! needless (A. Karlin, K. Li, M. Manasse, S. Owicki, "Empirical Studies of Competitive Spinning
//! for a Shared-Memory Multiprocessor", SOSP 1991). Where a CPU can yield, spinning between two
//! yields keeps no other CPU from a processor, and may last several wake-up latencies.

use crate::platform::Costs;
use crate::raw::word::queue::LockWord;
use crate::waiters::Timings;

/// For how many wake-up latencies a queue head can be passed, its *tenure*. A hand-over costs one
/// or two, so this bounds the total cost of hand-overs; the tail of the waiting time is this times
/// the number of waiters. CPUs that can yield spin for as long: a newcomer before it joins the
/// queue, and a head before it halts. With 2, critical sections of 10 µs under 16 threads lost a
/// third to halts and kicks; 5, 8 and 10 could not be told apart (2 CPUs, futex). Later, 20 and 40
/// gained 2 and 3 %, and had a p99.9 1.4 and 1.9 times as long.
const TENURE_WAKES: u64 = 10;
/// How long a waiter spins before it leaves its processor to others, in fifths of a wake-up
/// latency: less than a halt costs, because the waiter may spin on the very processor that the
/// holder needs. One that can yield then yields, and a newcomer that can't joins the queue.
const SPIN_BLIND_FIFTHS: u64 = 2;
/// How long a queue head that can't yield spins, in wake-up latencies: a usual critical section
/// ends before that.
const SPIN_BLIND_HEAD_WAKES: u64 = 3;
/// How many transfers of its cache line a hand-over costs a lock: the waiter loads the word that
/// the holder has written, takes it over to write it, and later the old holder loads it again.
/// (With 2, empty critical sections on 4, 8 and 32 vCPUs had 0.85, 0.84 and 0.94 of the throughput;
/// medians of 8 turns, 2 CPUs, AMD Zen 4.)
const HAND_OVER_TRANSFERS: u32 = 3;
/// One in so many of a newcomer's acquisitions has its gap timed, and one in so many of its waits a
/// transfer. A gap costs four readings of the clock, and up to 16 acquisitions and their releases
/// take their slow paths. A transfer costs one reading at each look until the word has changed, and
/// another. (With 8, critical sections of 50 ns and pauses of 100 ns, all alike, had 0.93 of the
/// throughput.)
pub(super) const SAMPLES: u32 = 64;
/// At least one part in so many of the time that a newcomer is away while it yields counts as spun.
/// So a newcomer waits outside the queue for at most so many tenures, which is two or three of the
/// scheduler's slices. (120 random points, in separate runs with 16, 64 and no such charge:
/// throughput over the best peer 0.991, 1.00, 1.01, longest stall 68, 68, 145 ms.)
const AWAY_SHARE: u32 = 64;

/// The tenure of a queue head, in nanoseconds.
const fn tenure_ns(costs: Costs) -> u64 {
    costs.wake_ns * TENURE_WAKES
}

/// How long a waiter spins before it leaves its processor to others, in nanoseconds.
const fn blind_ns(costs: Costs) -> u64 {
    costs.wake_ns * SPIN_BLIND_FIFTHS / 5
}

/// How long a newcomer spins before it joins the queue, in nanoseconds; this includes what is
/// [charged](charged_ns) for the time that it is away.
pub(super) const fn newcomer_spins_ns(costs: Costs, yields: bool) -> u64 {
    match (costs.spins, yields) {
        (false, _) => 0,
        (true, true) => tenure_ns(costs),
        (true, false) => blind_ns(costs),
    }
}

/// How long the queue head spins before it halts, in nanoseconds of its own time since it last saw
/// the lock change hands.
pub(super) const fn head_spins_ns(costs: Costs, yields: bool, unfair: bool) -> u64 {
    match (unfair, yields) {
        _ if !costs.spins => 0,
        (true, true) => tenure_ns(costs),
        (true, false) => costs.wake_ns * SPIN_BLIND_HEAD_WAKES,
        (false, _) => blind_ns(costs),
    }
}

/// Whether a waiter that has been the queue head for `head_for_ns` disables stealing, until it has
/// the lock. If it halts before that, the lock has been held for the whole of its
/// [budget](head_spins_ns), and then stands free for one wake-up: a tenth of that budget, or, where
/// CPUs can't yield, a third. Enabling stealing meanwhile would save this, but the next holder may
/// keep the lock for as long again.
pub(super) const fn disables_stealing(costs: Costs, head_for_ns: u64) -> bool {
    head_for_ns >= tenure_ns(costs)
}

/// How often a queue head whose tenure is not over can [carry](crate::raw::word::queue). Without
/// carries, short critical sections use up the count long before the tenure is over, and the lock
/// waits for a head that is not there yet: 4,095 empty ones took 53 of the 140 µs from one head to
/// the next. Then empty sections on 4, 8 and 32 vCPUs had 0.71, 0.64 and 0.58 of the throughput of
/// 2, and with carries 0.90, 0.75 and 0.76 (2 CPUs, AMD Zen 4). A thread's hand-over is shorter:
/// with 8 and 42 threads that carried, throughput fell by 4 and 7 %, and Jain's index from 0.94 to
/// 0.81 and from 0.97 to 0.87.
pub(super) const fn carries(unfair: bool, yields: bool) -> u32 {
    if unfair && !yields { LockWord::CARRIES_MAX } else { 0 }
}

/// Whether a release that may leave the queue head halted, because a newcomer spins, reads how
/// long the head has been there. `steals` is the count in the word. With powers of two, less one,
/// there are at most 13 readings until the head carries, and if the steals come at a steady rate,
/// the first reading after the tenure comes at about twice the tenure at the latest, whatever the
/// rate is. (The count skips powers of two from 128 on.)
pub(super) const fn reads_tenure(steals: u32) -> bool {
    (steals + 1).is_power_of_two()
}

/// How much of the `away_ns` nanoseconds that a newcomer was away while it yielded counts as spun,
/// if others took the lock that many `times` in each of its yields: the time divided by that
/// number. It is `u32::MAX` if that is not known, or if holders stay away. A holder that yields,
/// too, makes one acquisition each time that the processor comes round to it, so one is no sign of
/// progress. (When one acquisition counted as progress, such a program, `sysbench threads`, ran at
/// 1.10 of libc's speed, and otherwise at 1.93.)
pub(super) const fn charged_ns(away_ns: u64, times: u32) -> u64 {
    let parts = match times {
        0 => 1,
        AWAY_SHARE.. => AWAY_SHARE,
        some => some,
    };
    away_ns / parts as u64
}

/// What a hand-over costs a lock, in nanoseconds. A queue head leaves a free lock alone for as
/// long. (When it did not, instead of for 200 ns, critical sections of 300 ns back to back lost 5
/// to 12 % on 4 to 32 vCPUs, on 2 CPUs; with threads, which can yield, no difference was seen.)
pub(super) fn hand_over_ns(timings: &Timings) -> u64 {
    u64::from(timings.transfer_ns() * HAND_OVER_TRANSFERS)
}

/// How long a lock stands free in a hand-over, in nanoseconds: the old holder's transfer comes
/// later. (With 1.5 transfers instead of two, 10 points with critical sections and pauses of 0 to
/// 100 ns had 1.015 times the throughput where transfers were short, and 0.967 where they were
/// long. With three, and gaps that contained a reading of the clock, 11 points had 0.985 and
/// 0.96.)
pub(super) fn stands_free_ns(timings: &Timings) -> u64 {
    u64::from(timings.transfer_ns() * (HAND_OVER_TRANSFERS - 1))
}

/// Whether CPUs come straight back to a lock: sooner than another CPU could have taken it.
pub(super) fn comes_straight_back(timings: &Timings) -> bool {
    u64::from(timings.gap_ns()) < stands_free_ns(timings)
}

/// How many pauses a waiter makes between two looks at a lock whose last holder comes straight
/// back, or does not. Each look takes the line away from a holder that is about to write it, so a
/// waiter that would only disturb looks no more often than it reads the clock. (Empty critical
/// sections of 2, 8 and 42 threads, over the best of parking_lot and a test-and-set that yields:
/// looks 8 pauses apart 1.07, 1.05, 1.09, looks 16 apart 1.79, 1.53, 1.61; 2 CPUs, AMD Zen 4.)
pub(super) const fn interval(costs: Costs, comes_back: bool) -> u32 {
    if comes_back && costs.pauses_per_look > 0 { costs.pauses_per_look } else { 1 }
}

/// How long a newcomer that can yield stays out, in nanoseconds: a wake-up latency, which a halt
/// would cost it at least, if the last holder is known to come straight back. One with a deadline
/// does not stay out. (Without stays, empty critical sections of 2 and 3 threads had 0.84 and 0.88
/// of the throughput, and Jain's index was 0.92 on average over 14 points without pauses, not 0.95.
/// In an earlier build, stays of 10 instead of 5 µs brought 2 threads 1.05 of the throughput, and a
/// p99.9 of 11 instead of 7 µs; 2 CPUs, AMD Zen 4.)
pub(super) fn stays_out_ns(costs: Costs, timings: &Timings, has_deadline: bool) -> u64 {
    let is_known = timings.gap_ns() > 0;
    if is_known && comes_straight_back(timings) && !has_deadline { costs.wake_ns } else { 0 }
}

/// Whether a newcomer that has spun for `spun_ns`, on a CPU that yielded `since_ns` ago, begins to
/// yield although the last holder does not come straight back. (If the last holder does, the
/// newcomer yields at once, and [stays out](stays_out_ns).) A critical section is likely to
/// end before a context switch has paid. If it did not, it is a long one, and the newcomer yields
/// at each look at the clock from then on. So it does if its CPU has not yielded for a tenure,
/// because the threads behind it on its processor wait for the lock, too.
///
/// The rarer the yields, the longer the tail. 19 points, most of them below 3 µs, over a yielding
/// test-and-set: one yield in a wake-up latency 0.99, p99.9 0.97 ms; in four 1.00, 1.29 ms; in a
/// tenure 1.02, 1.82 ms (parking_lot 0.88, 0.90 ms).
pub(super) const fn yields(costs: Costs, spun_ns: u64, since_ns: u64) -> bool {
    spun_ns >= blind_ns(costs) || since_ns >= tenure_ns(costs)
}

/// Whether the queue head yields after it has spun for `spun_ns` since it last did. If it is next,
/// because it has disabled stealing, no other CPU can take the lock, so the head had better be
/// there when the lock is released, unless the holder seems to need its processor. (With a yield at
/// each look, 30 threads with critical sections of 390 ns back to back lost an eighth.)
pub(super) const fn head_yields(costs: Costs, is_next: bool, spun_ns: u64) -> bool {
    !is_next || spun_ns >= blind_ns(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs::DEFAULT;

    #[test]
    fn budgets_follow_the_wake_up_latency() {
        let slow = COSTS.with_wake_ns(4 * COSTS.wake_ns);
        for yields in [false, true] {
            assert_eq!(newcomer_spins_ns(slow, yields), 4 * newcomer_spins_ns(COSTS, yields));
            for unfair in [false, true] {
                let spins = |costs| head_spins_ns(costs, yields, unfair);
                assert_eq!(spins(slow), 4 * spins(COSTS));
                assert!(spins(COSTS) >= newcomer_spins_ns(COSTS, false));
            }
        }
    }

    #[test]
    fn a_waiter_that_should_not_spin_does_not() {
        let costs = COSTS.with_spins(false);
        for yields in [false, true] {
            assert_eq!(newcomer_spins_ns(costs, yields), 0);
            assert!([false, true].iter().all(|&unfair| head_spins_ns(costs, yields, unfair) == 0));
        }
    }

    #[test]
    fn a_waiter_that_can_not_yield_spins_less_than_a_halt_costs() {
        assert!(newcomer_spins_ns(COSTS, false) < COSTS.wake_ns);
        assert!(newcomer_spins_ns(COSTS, true) > COSTS.wake_ns);
    }

    #[test]
    fn stealing_ends_with_the_tenure() {
        let end = (0..).step_by(1_000).find(|&ns| disables_stealing(COSTS, ns)).unwrap();
        assert!(end > COSTS.wake_ns && disables_stealing(COSTS, u64::MAX));
    }

    #[test]
    fn time_away_is_charged_by_what_happened_meanwhile() {
        let charged = [0, 1, 2, 8, 64, 1_000, u32::MAX].map(|times| charged_ns(6_400, times));
        assert_eq!(charged, [6_400, 6_400, 3_200, 800, 100, 100, 100]);
    }

    #[test]
    fn whether_a_gap_is_short_depends_on_what_a_transfer_takes() {
        let judged = |transfer_ns: &[u32], gap_ns: &[u32]| {
            let timings = Timings::new();
            transfer_ns.iter().for_each(|&ns| timings.note_transfer(ns));
            gap_ns.iter().for_each(|&ns| timings.note_gap(ns));
            comes_straight_back(&timings)
        };
        assert!(judged(&[60], &[100]) && !judged(&[60], &[250]) && judged(&[250], &[250]));
        assert!(judged(&[], &[100]) && !judged(&[], &[250]), "no transfer has been timed");
        assert!(judged(&[60], &[]), "until a gap is timed");
    }

    #[test]
    fn a_newcomer_stays_out_only_if_holders_are_known_to_come_straight_back() {
        let out_ns = |gap_ns: &[u32], has_deadline| {
            let timings = Timings::new();
            gap_ns.iter().for_each(|&ns| timings.note_gap(ns));
            stays_out_ns(COSTS, &timings, has_deadline)
        };
        assert_eq!(out_ns(&[100], false), COSTS.wake_ns);
        assert_eq!([out_ns(&[], false), out_ns(&[250], false), out_ns(&[100], true)], [0; 3]);
    }
}
