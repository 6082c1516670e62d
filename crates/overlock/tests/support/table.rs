// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of models: which lock each uses, in which world, and what it must have reached to
//! count.

use overlock::counters::Event;

use super::contexts::{left_behind, nested, unlinked};
use super::mixed::{self, HYBRID, QUEUED};
use super::models::{
    Depth, Plan, Report, hybrid, hybrid_near_bound, in_strict_order, lock, narrow, nobody_passes,
    queued, sections, test_and_set, timed, unwatched, wide,
};
use super::platform::{Barrier, ByAddress, Cheap, CheapByAddress, Halt, Halting, Spinning, World};
use super::{condvars, refreshes, shared, unsure};

/// A model by name.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Depth) -> Report,
    /// Events that must have occurred.
    pub(crate) events: &'static [Event],
    /// Call sites that must have been executed, and other things that must have happened: see
    /// `states.rs`.
    pub(crate) sites: &'static [&'static str],
}

const FUTEX: World = World::PLAIN;
const STALE: World = World { stale_failures: true, ..World::PLAIN };
const TOKEN: World = World { halt: Halt::Token, ..STALE };
const SPURIOUS: World = World { spurious: 1, ..World::PLAIN };
const SPIN: World = World { pauses: 0, ..STALE };
/// A lock is reserved in vain as soon as a waiter has looked twice.
const RESERVED: World = World { timeouts: true, reserved_ns: 1, tick_ns: 30_000, ..World::PLAIN };
/// Waiters never join the queue.
const PARKED: World = World { outside_wakes: u32::MAX, ..World::PLAIN };
const TIMEOUT: World = World { timeouts: true, ..World::PLAIN };

const TWO: Plan = Plan { preemptions: None, ..Plan::PLAIN };
const AGAIN: Plan = Plan { sections: &[2, 1], preemptions: Some(3), ..Plan::PLAIN };
const THREE: Plan = Plan { sections: &[1, 1, 1], held: Some(2), ..Plan::PLAIN };
const BEHIND: Plan = Plan { sections: &[2, 1, 1], ..THREE };

macro_rules! models {
    ($($name:ident: $lock:ident on $platform:ty, $take:ident, $watch:ident, $plan:expr,
        [$($event:ident),*], [$($site:literal),*];)*) => {
        /// All models of a lock.
        const LOCKS: &[Model] = &[$(Model {
            name: stringify!($name),
            run: |depth| sections($plan, depth, $lock::<$platform>, $take, $watch),
            events: &[$(Event::$event),*],
            sites: &[$($site),*],
        },)*];
    };
}

/// Models in which each CPU does something else.
const CONTEXTS: &[Model] = &[
    Model {
        name: "queued_nested_two",
        run: |depth| nested([QUEUED; 2], FUTEX, 3, depth),
        events: &[Event::LockQueued, Event::LockUseNode2, Event::PvKickWake],
        sites: &[],
    },
    Model {
        name: "queued_nested_three",
        run: |depth| nested([QUEUED; 3], FUTEX, 2, depth),
        events: &[Event::LockUseNode3, Event::PvKickWake],
        sites: &[],
    },
    Model {
        name: "queued_nested_four",
        run: |depth| nested([QUEUED; 4], FUTEX, 2, depth),
        events: &[Event::LockUseNode4, Event::PvKickWake],
        sites: &[],
    },
    Model {
        name: "queued_nested_five",
        run: |depth| nested([QUEUED; 5], FUTEX, 2, depth),
        events: &[Event::LockUseNode4, Event::LockNoNode],
        sites: &[],
    },
    Model {
        name: "hybrid_nested_four",
        run: |depth| nested([HYBRID; 4], FUTEX, 2, depth),
        events: &[Event::PvLockStealing, Event::PvWaitNode, Event::PvKickWake],
        sites: &[],
    },
    Model {
        name: "queued_left_behind",
        run: left_behind,
        events: &[Event::LockTimeout],
        sites: &["hand_off.rs skip swap", "node.rs release store", "slot.rs take compare_exchange"],
    },
    Model {
        name: "queued_unlinked",
        run: unlinked,
        events: &[Event::LockTimeout],
        sites: &["hand_off.rs skip swap", "node.rs release store"],
    },
];

models! {
    tas_two: test_and_set on Halting, lock, unwatched, Plan { world: STALE, ..TWO },
        [LockSlowpath, PvWaitNode, PvKickUnlock], [];
    tas_token: test_and_set on Halting, lock, unwatched, Plan { world: TOKEN, ..TWO },
        [PvWaitNode, PvKickUnlock], [];
    tas_addr: test_and_set on ByAddress, lock, unwatched, Plan { world: STALE, ..TWO },
        [PvWaitNode, PvKickUnlock], [];
    tas_again: test_and_set on Halting, lock, unwatched, Plan { world: STALE, ..AGAIN },
        [PvWaitNode, PvWaitAgain], [];
    tas_again_token: test_and_set on Halting, lock, unwatched, Plan { world: TOKEN, ..AGAIN },
        [PvWaitNode, PvWaitAgain], [];
    tas_again_spurious: test_and_set on Halting, lock, unwatched, Plan { world: SPURIOUS, ..AGAIN },
        [PvWaitNode, PvWaitAgain], [];
    tas_three: test_and_set on Halting, lock, unwatched, Plan { world: FUTEX, ..THREE },
        [PvWaitNode, PvWaitAgain, PvKickUnlock], [];
    tas_three_token: test_and_set on Halting, lock, unwatched, Plan { world: TOKEN, preemptions: Some(1), ..THREE },
        [PvWaitNode, PvKickUnlock], [];
    tas_three_addr: test_and_set on ByAddress, lock, unwatched, Plan { world: FUTEX, preemptions: Some(3), ..THREE },
        [PvWaitNode, PvWaitAgain, PvKickUnlock], [];
    tas_timed: test_and_set on Halting, timed, unwatched, Plan { world: TIMEOUT, timed: 1, deadline_ns: 25_000_000, preemptions: Some(3), ..AGAIN },
        [PvWaitNode, LockTimeout], [];
    tas_timed_three: test_and_set on Halting, timed, unwatched, Plan { world: TIMEOUT, timed: 2, deadline_ns: 1, ..THREE },
        [PvWaitNode, LockTimeout], [];
    tas_full: test_and_set on Halting, lock, unwatched, Plan { world: World { full: true, ..FUTEX }, ..TWO },
        [LockSlowpath], [];
    tas_spin: test_and_set on Spinning, lock, unwatched, Plan { world: SPIN, ..TWO },
        [LockSlowpath], [];
    tas_spin_timed: test_and_set on Spinning, timed, unwatched, Plan { world: SPIN, timed: 1, deadline_ns: 1, ..TWO },
        [LockTimeout], [];

    ticket_two: wide on Halting, lock, unwatched, Plan { world: STALE, ..TWO },
        [LockSlowpath, PvWaitNode, PvKickUnlock, PvKickWake], [];
    ticket_token: wide on Halting, lock, unwatched, Plan { world: TOKEN, ..TWO },
        [PvWaitNode, PvKickUnlock, PvKickWake], [];
    ticket_narrow: narrow on Halting, lock, unwatched, Plan { world: STALE, ..TWO },
        [PvWaitNode, PvKickUnlock, PvKickWake], [];
    ticket_again: wide on Halting, lock, unwatched, Plan { world: STALE, ..AGAIN },
        [PvWaitNode, PvKickWake], ["ticket.rs clear_slow fetch_and", "ticket.rs clear_slow fetch_or"];
    ticket_again_token: wide on Halting, lock, unwatched, Plan { world: TOKEN, preemptions: Some(2), ..AGAIN },
        [PvWaitNode, PvKickWake], ["ticket.rs clear_slow fetch_and"];
    ticket_three: wide on Halting, lock, unwatched, Plan { world: STALE, preemptions: Some(1), ..THREE },
        [PvWaitNode, PvKickWake], [];
    ticket_three_token: wide on Halting, lock, unwatched, Plan { world: TOKEN, preemptions: Some(1), ..THREE },
        [PvWaitNode, PvKickWake], [];
    ticket_spurious: wide on Halting, lock, unwatched, Plan { world: SPURIOUS, ..TWO },
        [PvSpuriousWakeup, PvWaitAgain, PvKickWake], [];
    ticket_full: wide on Halting, lock, unwatched, Plan { world: World { full: true, ..FUTEX }, ..TWO },
        [PvHashFull], [];
    ticket_numberless: wide on Halting, lock, unwatched, Plan { world: World { numberless: 0, ..FUTEX }, ..TWO },
        [LockNoNode], [];
    ticket_cheap_two: wide on Cheap, lock, unwatched, Plan { world: STALE, ..TWO },
        [PvWaitNode, PvKickUnlock, PvKickWake], ["width.rs advance add_half"];
    ticket_cheap_token: wide on Cheap, lock, unwatched, Plan { world: TOKEN, ..TWO },
        [PvWaitNode, PvKickUnlock, PvKickWake], ["width.rs advance add_half"];
    ticket_cheap_again: wide on Cheap, lock, unwatched, Plan { world: STALE, ..AGAIN },
        [PvWaitNode, PvKickWake], ["width.rs advance add_half", "ticket.rs clear_slow fetch_and"];
    ticket_cheap_three: wide on Cheap, lock, unwatched, Plan { world: STALE, preemptions: Some(1), ..THREE },
        [PvWaitNode, PvKickWake], ["width.rs advance add_half"];
    ticket_cheap_refused: wide on Cheap, lock, unwatched, Plan { world: World { barrier: Barrier::Refused, ..FUTEX }, ..TWO },
        [LockSlowpath], ["width.rs advance add_half"];
    ticket_spin: wide on Spinning, lock, unwatched, Plan { world: SPIN, ..TWO },
        [LockSlowpath], [];

    queued_two: queued on Halting, lock, in_strict_order, Plan { world: STALE, ..TWO },
        [LockQueued, PvLockStealing, PvWaitHead, PvKickUnlock, PvKickWake], [];
    queued_token: queued on Halting, lock, in_strict_order, Plan { world: TOKEN, ..TWO },
        [LockQueued, PvLockStealing, PvWaitHead, PvKickUnlock, PvKickWake], [];
    queued_again: queued on Halting, lock, in_strict_order, Plan { world: STALE, ..AGAIN },
        [LockQueued, PvWaitHead, PvWaitNode, PvKickWake], ["hand_off.rs promote_asleep compare_exchange"];
    queued_again_token: queued on Halting, lock, in_strict_order, Plan { world: TOKEN, ..AGAIN },
        [LockQueued, PvWaitHead, PvWaitNode, PvKickWake], ["hand_off.rs promote_asleep compare_exchange"];
    queued_again_spurious: queued on Halting, lock, in_strict_order, Plan { world: SPURIOUS, ..AGAIN },
        [PvSpuriousWakeup, PvWaitAgain], [];
    queued_three: queued on Halting, lock, in_strict_order, Plan { world: FUTEX, preemptions: Some(3), ..THREE },
        [PvLockStealing, PvWaitHead, PvWaitNode, PvKickWake], ["hand_off.rs promote_asleep compare_exchange", "node.rs release store"];
    queued_three_stale: queued on Halting, lock, in_strict_order, Plan { world: STALE, ..THREE },
        [PvWaitHead, PvWaitNode, PvKickWake], [];
    queued_three_token: queued on Halting, lock, in_strict_order, Plan { world: TOKEN, ..THREE },
        [PvWaitHead, PvWaitNode, PvKickWake], [];
    queued_three_spurious: queued on Halting, lock, in_strict_order, Plan { world: SPURIOUS, ..THREE },
        [PvSpuriousWakeup, PvWaitAgain], [];
    queued_three_again: queued on Halting, lock, in_strict_order, Plan { world: FUTEX, preemptions: Some(3), ..BEHIND },
        [LockQueued, PvWaitHead, PvWaitNode], ["hand_off.rs promote_awake compare_exchange"];
    queued_timed: queued on Halting, timed, nobody_passes, Plan { world: TIMEOUT, timed: 1, deadline_ns: 25_000_000, ..AGAIN },
        [LockTimeout, LockUseNode2], ["hand_off.rs give_up update", "slot.rs take compare_exchange"];
    queued_timed_three: queued on Halting, timed, nobody_passes, Plan { world: TIMEOUT, timed: 2, deadline_ns: 1, busy: true, ..THREE },
        [LockTimeout], ["hand_off.rs skip swap", "hand_off.rs skip update", "slot.rs take compare_exchange"];
    queued_timed_back: queued on Halting, timed, nobody_passes, Plan { world: TIMEOUT, timed: 2, deadline_ns: 1, ..THREE },
        [LockTimeout], ["enqueue.rs take_back compare_exchange"];
    queued_timed_late: queued on Halting, timed, nobody_passes, Plan { world: TIMEOUT, timed: 2, deadline_ns: 35_000_000, busy: true, ..THREE },
        [LockTimeout, PvWaitAgain], ["hand_off.rs skip swap"];
    queued_timed_both: queued on Halting, timed, nobody_passes, Plan { world: TIMEOUT, timed: 1, deadline_ns: 1, ..THREE },
        [LockTimeout], ["hand_off.rs give_up update", "enqueue.rs take_back compare_exchange"];
    queued_behind: queued on Halting, timed, nobody_passes,
        Plan { world: TIMEOUT, timed: 2, deadline_ns: 1, busy: true, ..BEHIND },
        [LockTimeout], ["hand_off.rs skip swap"];
    queued_numberless: queued on Halting, lock, in_strict_order, Plan { world: World { numberless: 1, ..FUTEX }, ..TWO },
        [LockNoNode, LockQueued], [];
    queued_full: queued on Halting, lock, in_strict_order, Plan { world: World { full: true, ..FUTEX }, preemptions: Some(3), ..THREE },
        [PvHashFull, PvWaitNode], [];
    queued_cheap_two: queued on Cheap, lock, in_strict_order, Plan { world: STALE, preemptions: Some(3), ..TWO },
        [LockQueued, PvWaitHead, PvKickWake], ["queue.rs unlock clear_low_byte", "a cheap release misses a waiter"];
    queued_cheap_token: queued on Cheap, lock, in_strict_order, Plan { world: TOKEN, preemptions: Some(3), ..TWO },
        [LockQueued, PvWaitHead, PvKickWake], ["queue.rs unlock clear_low_byte"];
    queued_cheap_again: queued on Cheap, lock, in_strict_order, Plan { world: STALE, preemptions: Some(2), ..AGAIN },
        [LockQueued, PvWaitHead, PvKickWake], ["queue.rs unlock clear_low_byte"];
    queued_cheap_three: queued on Cheap, lock, in_strict_order, Plan { world: FUTEX, ..THREE },
        [PvWaitHead, PvWaitNode, PvKickWake], ["queue.rs unlock clear_low_byte"];
    queued_cheap_timed: queued on Cheap, timed, nobody_passes, Plan { world: TIMEOUT, timed: 1, deadline_ns: 25_000_000, preemptions: Some(2), ..AGAIN },
        [LockTimeout], ["queue.rs unlock clear_low_byte"];
    queued_cheap_refused: queued on Cheap, lock, in_strict_order, Plan { world: World { barrier: Barrier::Refused, ..FUTEX }, preemptions: Some(3), ..TWO },
        [LockSlowpath], ["queue.rs unlock clear_low_byte"];
    queued_spin: queued on Spinning, lock, in_strict_order, Plan { world: SPIN, ..TWO },
        [LockQueued], [];
    queued_spin_three: queued on Spinning, lock, in_strict_order, Plan { world: SPIN, preemptions: Some(1), ..THREE },
        [LockQueued], [];

    hybrid_two: hybrid on Halting, lock, nobody_passes, Plan { world: STALE, ..TWO },
        [LockQueued, PvLockStealing, PvWaitHead, PvKickUnlock, PvKickWake], [];
    hybrid_token: hybrid on Halting, lock, nobody_passes, Plan { world: TOKEN, ..TWO },
        [LockQueued, PvLockStealing, PvWaitHead, PvKickUnlock, PvKickWake], [];
    hybrid_again: hybrid on Halting, lock, nobody_passes, Plan { world: STALE, ..AGAIN },
        [PvWaitHead, PvWaitNode, PvKickWake], ["hand_off.rs promote_asleep compare_exchange"];
    hybrid_again_token: hybrid on Halting, lock, nobody_passes, Plan { world: TOKEN, ..AGAIN },
        [PvWaitHead, PvWaitNode, PvKickWake], ["hand_off.rs promote_asleep compare_exchange"];
    hybrid_disabled: hybrid on Halting, lock, nobody_passes, Plan { world: World { tick_ns: 30_000, ..FUTEX }, ..AGAIN },
        [PvLockStealing, PvWaitHead], ["queue.rs try_take cas"];
    hybrid_disabled_three: hybrid on Halting, lock, nobody_passes, Plan { world: World { tick_ns: 30_000, ..FUTEX }, ..THREE },
        [PvLockStealing, PvWaitHead, PvWaitNode], ["queue.rs try_take cas"];
    hybrid_three: hybrid on Halting, lock, nobody_passes, Plan { world: FUTEX, preemptions: Some(3), ..THREE },
        [PvLockStealing, PvWaitHead, PvWaitNode, PvKickWake], ["hand_off.rs promote_asleep compare_exchange", "node.rs release store"];
    hybrid_three_token: hybrid on Halting, lock, nobody_passes, Plan { world: TOKEN, preemptions: Some(1), held: Some(0), ..THREE },
        [PvLockStealing, PvWaitHead, PvWaitNode], [];
    hybrid_three_spurious: hybrid on Halting, lock, nobody_passes, Plan { world: SPURIOUS, ..THREE },
        [PvSpuriousWakeup, PvWaitAgain], [];
    hybrid_bound: hybrid_near_bound on ByAddress, lock, nobody_passes, Plan { world: World { tick_ns: 30_000, ..FUTEX }, ..THREE },
        [PvLockStealing, LockQueued, PvWaitHead], [];
    hybrid_timed: hybrid on Halting, timed, nobody_passes, Plan { world: TIMEOUT, timed: 1, deadline_ns: 45_000_000, ..AGAIN },
        [LockTimeout], ["hand_off.rs give_up update"];
    hybrid_timed_three: hybrid on Halting, timed, nobody_passes, Plan { world: TIMEOUT, timed: 2, deadline_ns: 45_000_000, busy: true, ..THREE },
        [LockTimeout], ["hand_off.rs skip swap"];
    hybrid_timed_back: hybrid on Halting, timed, nobody_passes, Plan { world: TIMEOUT, timed: 2, deadline_ns: 45_000_000, ..THREE },
        [LockTimeout], ["enqueue.rs take_back compare_exchange"];
    hybrid_reserved: hybrid on Halting, lock, unwatched, Plan { world: RESERVED, ..THREE },
        [LockQueued, PvWaitNode], ["queue.rs take_past_reservation update"];
    hybrid_numberless: hybrid on Halting, lock, nobody_passes, Plan { world: World { numberless: 1, ..FUTEX }, ..TWO },
        [LockNoNode, LockQueued], [];
    hybrid_cheap_two: hybrid on Cheap, lock, nobody_passes, Plan { world: STALE, preemptions: Some(3), ..TWO },
        [LockQueued, PvLockStealing, PvWaitHead, PvKickWake], ["queue.rs unlock clear_low_byte", "a cheap release misses a waiter"];
    hybrid_cheap_token: hybrid on Cheap, lock, nobody_passes, Plan { world: TOKEN, preemptions: Some(3), ..TWO },
        [LockQueued, PvWaitHead, PvKickWake], ["queue.rs unlock clear_low_byte"];
    hybrid_cheap_again: hybrid on Cheap, lock, nobody_passes, Plan { world: STALE, preemptions: Some(2), ..AGAIN },
        [PvWaitHead, PvKickWake], ["queue.rs unlock clear_low_byte", "the fast path takes the lock past a queue"];
    hybrid_cheap_disabled: hybrid on Cheap, lock, nobody_passes, Plan { world: World { tick_ns: 30_000, ..FUTEX }, preemptions: Some(2), ..AGAIN },
        [PvLockStealing], ["queue.rs unlock clear_low_byte", "the fast path takes the lock past a queue"];
    hybrid_cheap_three: hybrid on Cheap, lock, nobody_passes, Plan { world: FUTEX, held: Some(0), ..THREE },
        [PvWaitHead, PvWaitNode, PvKickWake], ["queue.rs unlock clear_low_byte", "the fast path takes the lock past a queue"];
    hybrid_cheap_addr: hybrid on CheapByAddress, lock, nobody_passes, Plan { world: FUTEX, preemptions: Some(3), ..TWO },
        [PvWaitHead, PvKickWake], ["queue.rs unlock clear_low_byte", "a cheap release misses a waiter"];
    hybrid_cheap_timed: hybrid on Cheap, timed, nobody_passes, Plan { world: TIMEOUT, timed: 1, deadline_ns: 45_000_000, preemptions: Some(2), ..AGAIN },
        [LockTimeout], ["queue.rs unlock clear_low_byte"];
    hybrid_cheap_left: hybrid on Cheap, timed, nobody_passes, Plan { world: TIMEOUT, timed: 1, deadline_ns: 45_000_000, held: Some(1), ..AGAIN },
        [LockTimeout, PvWaitHead], ["queue.rs unlock clear_low_byte", "hand_off.rs give_up update"];
    hybrid_cheap_refused: hybrid on Cheap, lock, nobody_passes, Plan { world: World { barrier: Barrier::Refused, ..FUTEX }, preemptions: Some(3), ..TWO },
        [LockSlowpath], ["queue.rs unlock clear_low_byte"];
    hybrid_cheap_spurious: hybrid on Cheap, lock, nobody_passes, Plan { world: SPURIOUS, preemptions: Some(1), ..THREE },
        [PvWaitHead], ["queue.rs unlock clear_low_byte"];
    hybrid_parked_two: hybrid on Halting, lock, nobody_passes, Plan { world: PARKED, ..TWO },
        [PvWaitNode, PvKickUnlock], ["newcomer.rs take_or_mark update"];
    hybrid_parked_token: hybrid on Halting, lock, nobody_passes, Plan { world: World { halt: Halt::Token, ..PARKED }, ..TWO },
        [PvWaitNode, PvKickUnlock], [];
    hybrid_parked_again: hybrid on ByAddress, lock, nobody_passes, Plan { world: PARKED, ..AGAIN },
        [PvWaitNode, PvWaitAgain, PvKickUnlock], [];
    hybrid_parked_spin: hybrid on ByAddress, lock, nobody_passes, Plan { world: World { tick_ns: 1_000, ..PARKED }, preemptions: Some(2), ..TWO },
        [PvLockStealing], ["newcomer.rs spin_as_newcomer cas"];
    hybrid_parked_three: hybrid on ByAddress, lock, nobody_passes, Plan { world: PARKED, preemptions: Some(2), ..THREE },
        [PvWaitNode, PvKickUnlock], [];
    hybrid_parked_number: hybrid on Halting, lock, nobody_passes, Plan { world: PARKED, preemptions: Some(2), ..THREE },
        [PvWaitNode, PvKickUnlock], [];
    hybrid_parked_joins: hybrid on ByAddress, lock, nobody_passes, Plan { world: World { outside_wakes: 3_000, ..PARKED }, preemptions: Some(2), ..THREE },
        [PvWaitNode, LockQueued, PvKickUnlock], [];
    hybrid_parked_timed: hybrid on ByAddress, timed, nobody_passes, Plan { world: World { timeouts: true, ..PARKED }, timed: 2, deadline_ns: 25_000_000, preemptions: Some(2), ..THREE },
        [PvWaitNode, LockTimeout], [];
    hybrid_parked_cheap: hybrid on CheapByAddress, lock, nobody_passes, Plan { world: PARKED, preemptions: Some(3), ..TWO },
        [PvWaitNode], ["queue.rs unlock clear_low_byte"];
    hybrid_parked_cheap_three: hybrid on CheapByAddress, lock, nobody_passes, Plan { world: PARKED, preemptions: Some(2), ..THREE },
        [PvWaitNode], ["queue.rs unlock clear_low_byte"];
    hybrid_parked_refused: hybrid on CheapByAddress, lock, nobody_passes, Plan { world: World { barrier: Barrier::Refused, ..PARKED }, preemptions: Some(3), ..TWO },
        [PvWaitNode], ["queue.rs unlock clear_low_byte"];
    hybrid_spin: hybrid on Spinning, lock, nobody_passes, Plan { world: SPIN, ..TWO },
        [LockQueued, PvLockStealing], [];
    hybrid_spin_three: hybrid on Spinning, lock, nobody_passes, Plan { world: SPIN, ..THREE },
        [LockQueued, PvLockStealing], [];
}

impl Model {
    /// What the exploration should have reached but has not.
    pub(crate) fn missed(&self, report: &Report) -> Vec<&'static str> {
        let events = self.events.iter().map(|event| event.name());
        let events = events.filter(|event| !report.events.contains_key(event));
        let executed = |site: &&str| {
            report.reached.contains(site)
                || report.sites.keys().any(|executed| executed.name == *site)
        };
        let sites = self.sites.iter().copied().filter(|site| !executed(site));
        events.chain(sites).collect()
    }
}

/// All models.
pub(crate) fn models() -> impl Iterator<Item = &'static Model> {
    let families = refreshes::MODELS.iter().chain(shared::MODELS).chain(condvars::MODELS);
    LOCKS.iter().chain(CONTEXTS).chain(mixed::MODELS).chain(families).chain(unsure::MODELS)
}

/// The model of this name.
pub(crate) fn model(name: &str) -> &'static Model {
    models().find(|model| model.name == name).unwrap_or_else(|| panic!("no model {name}"))
}
