//! The table of models of locks: in which world, to how many preemptions, what CPUs do with which
//! locks, and what must have been reached to count.
//!
//! ```text
//!  LATE_KICK                                     INTERRUPTED_KICK
//!
//!  CPU 0          CPU 1          CPU 2           CPU 0          CPU 1          CPU 2
//!  (has A, B)                                    (has A)                       (has B)
//!                 waits for A    waits for B                    waits for A
//!  releases A     gets A                         releases A     gets A
//!    :            waits for B                      :            waits for B
//!    kicks CPU 1                                   marks CPU 1, is interrupted,
//!  releases B                                      waits for B                 releases B
//! ```
//!
//! CPU 1's first halt ends spuriously, so it may be gone when it is kicked, and wait for B behind
//! CPU 2. The waiters of locks of several kinds share the nodes of their CPUs.

use super::locks::Step::{self, Enter, Leave, Lock, Pass, Until, Yield};
use super::locks::{
    Kind, RELIES_ON_A_NOTE, fairly, hybrid, hybrid_near_bound, hybrid_passed, locks, narrow,
    queued, strict, tas, wide,
};
use super::models::{Steps, models};
use super::platform::worlds::{FUTEX, SPIN, SPURIOUS, STALE, TIMEOUT, TOKEN};
use super::platform::{Barrier, ByAddress, Cheap, CheapByAddress, Halt, Halting, Spinning, World};
use super::states::{MEETS_ANOTHER_KIND, TAKES_OVER};

const SLOW: World = World { tick_ns: 30_000, ..FUTEX };
const FULL: World = World { full: true, ..FUTEX };
const REFUSED: World = World { barrier: Barrier::Refused, ..FUTEX };
/// A lock is reserved in vain as soon as a waiter has looked twice.
const RESERVED: World = World { reserved_ns: 1, tick_ns: 30_000, ..TIMEOUT };
/// Waiters never join the queue.
const PARKED: World = World { outside_wakes: u32::MAX, ..FUTEX };
/// One halt of each CPU ends spuriously, once others have had time to find its name.
pub(crate) const LATE: World = World { lingers: true, ..SPURIOUS };
pub(crate) const INTERRUPTED: World = World { interrupts: 1, ..LATE };

pub(crate) const TEST_AND_SET: Kind = tas::<Halting>();
pub(crate) const TICKET: Kind = wide::<Halting>();
pub(crate) const QUEUED: Kind = queued::<Halting>();
pub(crate) const HYBRID: Kind = hybrid::<Halting>();

const E: Step = Enter(0);
/// Leaves the lock that it has from the start. Loom prefers CPUs with low numbers, so if this is
/// the last CPU, the others queue and halt in the first executions; if it is the first, they come
/// too late for that, and steal.
const L: Step = Leave(0);

pub(crate) const TWO: Steps<Step> = &[&[E], &[E]];
const AGAIN: Steps<Step> = &[&[E, E], &[E]];
const THREE: Steps<Step> = &[&[E], &[E], &[L]];
const FIRST: Steps<Step> = &[&[L], &[E], &[E]];
const BEHIND: Steps<Step> = &[&[E], &[E], &[L, E]];

/// CPU 1 gives up behind CPU 0 and releases the lock, which was held on its behalf. Meanwhile CPU 2
/// has joined the queue behind it and may not have linked itself. CPU 0 then skips the node that
/// CPU 1 has left behind, CPU 2 frees it, and CPU 1 uses it again.
const LEFT_BEHIND: Steps<Step> = &[&[E], &[Until(1), L, Yield, E], &[Lock(0), Yield, L]];
/// CPU 1 gives up behind CPU 0. CPU 2 has joined the queue behind it, but not linked itself, when
/// CPU 3 releases the lock, which was held on its behalf. So CPU 2 finds that it is the queue head,
/// and frees the node.
const UNLINKED: Steps<Step> = &[&[E], &[Until(1)], &[E], &[L]];

pub(crate) const LATE_KICK: Steps<Step> = &[&[Yield, L, Leave(1)], &[E, Enter(1)], &[Enter(1)]];
const LATE_KICK_TWO: Steps<Step> = &[&[Yield, L, Leave(1)], &[E, Enter(1)]];
/// By the time that CPU 2 leaves its lock, any kick is overdue.
pub(crate) const INTERRUPTED_KICK: Steps<Step> =
    &[&[Yield, L], &[E, Enter(1)], &[Pass(1_000_000_000), Leave(1)]];
/// CPU 1 holds the first lock and waits for the second. CPU 0 holds the second, and asks for the
/// first once it has released it.
const INSIDE: Steps<Step> = &[&[Leave(1), E], &[Lock(0), Enter(1), L]];

/// While CPU 0 waits for the first of some locks, an interrupt makes it wait for the second, and so
/// on. CPU 1 releases them, the last one first, and meanwhile takes the last one again.
const NESTED_TWO: Steps<Step> = &[&[E], &[Leave(1), L, Enter(1)]];
const NESTED_THREE: Steps<Step> = &[&[E], &[Leave(2), Leave(1), L, Enter(2)]];
const NESTED_FOUR: Steps<Step> = &[&[E], &[Leave(3), Leave(2), Leave(1), L, Enter(3)]];
const NESTED_FIVE: Steps<Step> = &[&[E], &[Leave(4), Leave(3), Leave(2), Leave(1), L, Enter(4)]];

const fn nests(interrupts: usize) -> World {
    World { interrupts, ..FUTEX }
}

/// Each of these takes as long as several dozen of the others.
pub(crate) mod first {
    use super::*;

    models! {
    queued_three_token: locks(TOKEN, Some(2), THREE, [strict::<Halting>()]),
            [PvWaitHead, PvWaitNode, PvKickWake], [];
        queued_left_behind: locks(TIMEOUT, Some(1), LEFT_BEHIND, [queued::<Halting>()]),
            [LockTimeout],
            ["hand_off.rs skip swap", "node.rs release store", "slot.rs take compare_exchange"];
        queued_unlinked: locks(TIMEOUT, Some(1), UNLINKED, [queued::<Halting>()]),
            [LockTimeout], ["hand_off.rs skip swap", "node.rs release store"];
    }
}

models! {
    tas_two: locks(STALE, None, TWO, [tas::<Halting>()]),
        [LockSlowpath, PvWaitNode, PvKickUnlock], [];
    tas_token: locks(TOKEN, None, TWO, [tas::<Halting>()]), [PvWaitNode, PvKickUnlock], [];
    tas_addr: locks(STALE, None, TWO, [tas::<ByAddress>()]), [PvWaitNode, PvKickUnlock], [];
    tas_again: locks(STALE, Some(3), AGAIN, [tas::<Halting>()]), [PvWaitNode, PvWaitAgain], [];
    tas_again_token: locks(TOKEN, Some(3), AGAIN, [tas::<Halting>()]),
        [PvWaitNode, PvWaitAgain], [];
    tas_again_spurious: locks(SPURIOUS, Some(3), AGAIN, [tas::<Halting>()]),
        [PvWaitNode, PvWaitAgain], [];
    tas_three: locks(FUTEX, Some(2), THREE, [tas::<Halting>()]),
        [PvWaitNode, PvWaitAgain, PvKickUnlock], [];
    tas_three_token: locks(TOKEN, Some(1), THREE, [tas::<Halting>()]),
        [PvWaitNode, PvKickUnlock], [];
    tas_three_addr: locks(FUTEX, Some(3), THREE, [tas::<ByAddress>()]),
        [PvWaitNode, PvWaitAgain, PvKickUnlock], [];
    tas_timed: locks(TIMEOUT, Some(3), &[&[E, E], &[Until(25_000_000), E]], [tas::<Halting>()]),
        [PvWaitNode, LockTimeout], [];
    tas_timed_three: locks(TIMEOUT, Some(2), &[&[E], &[Until(1), E], &[L]], [tas::<Halting>()]),
        [PvWaitNode, LockTimeout], [];
    tas_full: locks(FULL, None, TWO, [tas::<Halting>()]), [LockSlowpath], [];
    tas_spin: locks(SPIN, None, TWO, [tas::<Spinning>()]), [LockSlowpath], [];
    tas_spin_timed: locks(SPIN, None, &[&[E], &[Until(1), E]], [tas::<Spinning>()]),
        [LockTimeout], [];

    ticket_two: locks(STALE, None, TWO, [wide::<Halting>()]),
        [LockSlowpath, PvWaitNode, PvKickUnlock, PvKickWake], [];
    ticket_token: locks(TOKEN, None, TWO, [wide::<Halting>()]),
        [PvWaitNode, PvKickUnlock, PvKickWake], [];
    ticket_narrow: locks(STALE, None, TWO, [narrow::<Halting>()]),
        [PvWaitNode, PvKickUnlock, PvKickWake], [];
    ticket_again: locks(STALE, Some(3), AGAIN, [wide::<Halting>()]),
        [PvWaitNode, PvKickWake],
        ["ticket.rs clear_slow fetch_and", "ticket.rs clear_slow fetch_or"];
    ticket_again_token: locks(TOKEN, Some(2), AGAIN, [wide::<Halting>()]),
        [PvWaitNode, PvKickWake], ["ticket.rs clear_slow fetch_and"];
    ticket_three: locks(STALE, Some(1), THREE, [wide::<Halting>()]), [PvWaitNode, PvKickWake], [];
    ticket_three_token: locks(TOKEN, Some(1), THREE, [wide::<Halting>()]),
        [PvWaitNode, PvKickWake], [];
    ticket_spurious: locks(SPURIOUS, None, TWO, [wide::<Halting>()]),
        [PvSpuriousWakeup, PvWaitAgain, PvKickWake], [];
    ticket_full: locks(FULL, None, TWO, [wide::<Halting>()]), [PvHashFull], [];
    ticket_numberless: locks(World { numberless: 0, ..FUTEX }, None, TWO, [wide::<Halting>()]), [LockNoNode], [];
    ticket_cheap_two: locks(STALE, None, TWO, [wide::<Cheap>()]),
        [PvWaitNode, PvKickUnlock, PvKickWake], ["width.rs advance add_half"];
    ticket_cheap_token: locks(TOKEN, None, TWO, [wide::<Cheap>()]),
        [PvWaitNode, PvKickUnlock, PvKickWake], ["width.rs advance add_half"];
    ticket_cheap_again: locks(STALE, Some(3), AGAIN, [wide::<Cheap>()]),
        [PvWaitNode, PvKickWake], ["width.rs advance add_half", "ticket.rs clear_slow fetch_and"];
    ticket_cheap_three: locks(STALE, Some(1), THREE, [wide::<Cheap>()]),
        [PvWaitNode, PvKickWake], ["width.rs advance add_half"];
    ticket_cheap_refused: locks(REFUSED, None, TWO, [wide::<Cheap>()]),
        [LockSlowpath], ["width.rs advance add_half"];
    ticket_spin: locks(SPIN, None, TWO, [wide::<Spinning>()]), [LockSlowpath], [];

    queued_two: locks(STALE, None, TWO, [strict::<Halting>()]),
        [LockQueued, PvLockStealing, PvWaitHead, PvKickUnlock, PvKickWake], [];
    queued_token: locks(TOKEN, None, TWO, [strict::<Halting>()]),
        [LockQueued, PvLockStealing, PvWaitHead, PvKickUnlock, PvKickWake], [];
    queued_again: locks(STALE, Some(3), AGAIN, [strict::<Halting>()]),
        [LockQueued, PvWaitHead, PvWaitNode, PvKickWake],
        ["hand_off.rs promote_asleep compare_exchange"];
    queued_again_token: locks(TOKEN, Some(3), AGAIN, [strict::<Halting>()]),
        [LockQueued, PvWaitHead, PvWaitNode, PvKickWake],
        ["hand_off.rs promote_asleep compare_exchange"];
    queued_again_spurious: locks(SPURIOUS, Some(3), AGAIN, [strict::<Halting>()]),
        [PvSpuriousWakeup, PvWaitAgain], [];
    queued_three: locks(FUTEX, Some(3), THREE, [strict::<Halting>()]),
        [PvLockStealing, PvWaitHead, PvWaitNode, PvKickWake],
        ["hand_off.rs promote_asleep compare_exchange", "node.rs release store"];
    queued_three_stale: locks(STALE, Some(2), THREE, [strict::<Halting>()]),
        [PvWaitHead, PvWaitNode, PvKickWake], [];
    queued_three_spurious: locks(SPURIOUS, Some(2), THREE, [strict::<Halting>()]),
        [PvSpuriousWakeup, PvWaitAgain], [];
    queued_three_again: locks(FUTEX, Some(3), BEHIND, [strict::<Halting>()]),
        [LockQueued, PvWaitHead, PvWaitNode], ["hand_off.rs promote_awake compare_exchange"];
    queued_timed: locks(TIMEOUT, Some(3), &[&[E, E], &[Until(25_000_000), E]],
        [queued::<Halting>()]), [LockTimeout, LockUseNode2],
        ["hand_off.rs give_up update", "slot.rs take compare_exchange"];
    queued_timed_three: locks(TIMEOUT, Some(2), &[&[E], &[Until(1), Yield, E], &[L]],
        [queued::<Halting>()]), [LockTimeout],
        ["hand_off.rs skip swap", "hand_off.rs skip update", "slot.rs take compare_exchange"];
    queued_timed_back: locks(TIMEOUT, Some(2), &[&[E], &[Until(1), E], &[L]],
        [queued::<Halting>()]), [LockTimeout], ["enqueue.rs take_back compare_exchange"];
    queued_timed_late: locks(TIMEOUT, Some(2), &[&[E], &[Until(35_000_000), Yield, E], &[L]],
        [queued::<Halting>()]), [LockTimeout, PvWaitAgain], ["hand_off.rs skip swap"];
    queued_timed_both: locks(TIMEOUT, Some(2), &[&[Until(1), E], &[Until(1), E], &[L]],
        [queued::<Halting>()]), [LockTimeout],
        ["hand_off.rs give_up update", "enqueue.rs take_back compare_exchange"];
    queued_behind: locks(TIMEOUT, Some(2), &[&[E], &[Until(1), Yield, E], &[L, E]],
        [queued::<Halting>()]), [LockTimeout], ["hand_off.rs skip swap"];
    queued_numberless: locks(World { numberless: 1, ..FUTEX }, None, TWO, [strict::<Halting>()]),
        [LockNoNode, LockQueued], [];
    queued_full: locks(FULL, Some(3), THREE, [strict::<Halting>()]), [PvHashFull, PvWaitNode], [];
    queued_cheap_two: locks(STALE, Some(3), TWO, [strict::<Cheap>()]),
        [LockQueued, PvWaitHead, PvKickWake],
        ["queue.rs unlock clear_low_byte", "a cheap release misses a waiter"];
    queued_cheap_token: locks(TOKEN, Some(3), TWO, [strict::<Cheap>()]),
        [LockQueued, PvWaitHead, PvKickWake], ["queue.rs unlock clear_low_byte"];
    queued_cheap_again: locks(STALE, Some(2), AGAIN, [strict::<Cheap>()]),
        [LockQueued, PvWaitHead, PvKickWake], ["queue.rs unlock clear_low_byte"];
    queued_cheap_three: locks(FUTEX, Some(2), THREE, [strict::<Cheap>()]),
        [PvWaitHead, PvWaitNode, PvKickWake], ["queue.rs unlock clear_low_byte"];
    queued_cheap_timed: locks(TIMEOUT, Some(2), &[&[E, E], &[Until(25_000_000), E]],
        [queued::<Cheap>()]), [LockTimeout], ["queue.rs unlock clear_low_byte"];
    queued_cheap_refused: locks(REFUSED, Some(3), TWO, [strict::<Cheap>()]),
        [LockSlowpath], ["queue.rs unlock clear_low_byte"];
    queued_spin: locks(SPIN, None, TWO, [strict::<Spinning>()]), [LockQueued], [];
    queued_spin_three: locks(SPIN, Some(1), THREE, [strict::<Spinning>()]), [LockQueued], [];

    hybrid_two: locks(STALE, None, TWO, [hybrid::<Halting>()]),
        [LockQueued, PvLockStealing, PvWaitHead, PvKickUnlock, PvKickWake], [];
    hybrid_token: locks(TOKEN, None, TWO, [hybrid::<Halting>()]),
        [LockQueued, PvLockStealing, PvWaitHead, PvKickUnlock, PvKickWake], [];
    hybrid_again: locks(STALE, Some(3), AGAIN, [hybrid::<Halting>()]),
        [PvWaitHead, PvWaitNode, PvKickWake], ["hand_off.rs promote_asleep compare_exchange"];
    hybrid_again_token: locks(TOKEN, Some(3), AGAIN, [hybrid::<Halting>()]),
        [PvWaitHead, PvWaitNode, PvKickWake], ["hand_off.rs promote_asleep compare_exchange"];
    hybrid_disabled: locks(SLOW, Some(3), AGAIN, [hybrid::<Halting>()]),
        [PvLockStealing, PvWaitHead], ["queue.rs try_take cas"];
    hybrid_disabled_three: locks(SLOW, Some(2), THREE, [hybrid::<Halting>()]),
        [PvLockStealing, PvWaitHead, PvWaitNode], ["queue.rs try_take cas"];
    hybrid_three: locks(FUTEX, Some(3), THREE, [hybrid::<Halting>()]),
        [PvLockStealing, PvWaitHead, PvWaitNode, PvKickWake],
        ["hand_off.rs promote_asleep compare_exchange", "node.rs release store"];
    hybrid_three_token: locks(TOKEN, Some(1), FIRST, [hybrid::<Halting>()]),
        [PvLockStealing, PvWaitHead, PvWaitNode], [];
    hybrid_three_spurious: locks(SPURIOUS, Some(2), THREE, [hybrid::<Halting>()]),
        [PvSpuriousWakeup, PvWaitAgain], [];
    hybrid_bound: locks(SLOW, Some(2), THREE, [hybrid_near_bound::<ByAddress>()]),
        [PvLockStealing, LockQueued, PvWaitHead], [];
    hybrid_timed: locks(TIMEOUT, Some(3), &[&[E, E], &[Until(45_000_000), E]],
        [hybrid::<Halting>()]), [LockTimeout], ["hand_off.rs give_up update"];
    hybrid_timed_three: locks(TIMEOUT, Some(2), &[&[E], &[Until(45_000_000), Yield, E], &[L]],
        [hybrid::<Halting>()]), [LockTimeout], ["hand_off.rs skip swap"];
    hybrid_timed_back: locks(TIMEOUT, Some(2), &[&[E], &[Until(45_000_000), E], &[L]],
        [hybrid::<Halting>()]), [LockTimeout], ["enqueue.rs take_back compare_exchange"];
    hybrid_reserved: locks(RESERVED, Some(2), THREE, [hybrid_passed::<Halting>()]),
        [LockQueued, PvWaitNode], ["queue.rs take_past_reservation update"];
    hybrid_numberless: locks(World { numberless: 1, ..FUTEX }, None, TWO, [hybrid::<Halting>()]),
        [LockNoNode, LockQueued], [];
    hybrid_cheap_two: locks(STALE, Some(3), TWO, [hybrid::<Cheap>()]),
        [LockQueued, PvLockStealing, PvWaitHead, PvKickWake],
        ["queue.rs unlock clear_low_byte", "a cheap release misses a waiter"];
    hybrid_cheap_token: locks(TOKEN, Some(3), TWO, [hybrid::<Cheap>()]),
        [LockQueued, PvWaitHead, PvKickWake], ["queue.rs unlock clear_low_byte"];
    hybrid_cheap_again: locks(STALE, Some(2), AGAIN, [hybrid::<Cheap>()]),
        [PvWaitHead, PvKickWake],
        ["queue.rs unlock clear_low_byte", "the fast path takes the lock past a queue"];
    hybrid_cheap_disabled: locks(SLOW, Some(2), AGAIN, [hybrid::<Cheap>()]),
        [PvLockStealing],
        ["queue.rs unlock clear_low_byte", "the fast path takes the lock past a queue"];
    hybrid_cheap_three: locks(FUTEX, Some(2), FIRST, [hybrid::<Cheap>()]),
        [PvWaitHead, PvWaitNode, PvKickWake],
        ["queue.rs unlock clear_low_byte", "the fast path takes the lock past a queue"];
    hybrid_cheap_addr: locks(FUTEX, Some(3), TWO, [hybrid::<CheapByAddress>()]),
        [PvWaitHead, PvKickWake],
        ["queue.rs unlock clear_low_byte", "a cheap release misses a waiter"];
    hybrid_cheap_timed: locks(TIMEOUT, Some(2), &[&[E, E], &[Until(45_000_000), E]],
        [hybrid::<Cheap>()]), [LockTimeout], ["queue.rs unlock clear_low_byte"];
    hybrid_cheap_left: locks(TIMEOUT, Some(3), &[&[Until(45_000_000), E], &[L, E]],
        [hybrid::<Cheap>()]), [LockTimeout, PvWaitHead],
        ["queue.rs unlock clear_low_byte", "hand_off.rs give_up update"];
    hybrid_cheap_refused: locks(REFUSED, Some(3), TWO, [hybrid::<Cheap>()]),
        [LockSlowpath], ["queue.rs unlock clear_low_byte"];
    hybrid_cheap_spurious: locks(SPURIOUS, Some(1), THREE, [hybrid::<Cheap>()]),
        [PvWaitHead], ["queue.rs unlock clear_low_byte"];
    hybrid_parked_two: locks(PARKED, None, TWO, [hybrid::<Halting>()]),
        [PvWaitNode, PvKickUnlock], ["newcomer.rs take_or_mark update"];
    hybrid_parked_token: locks(World { halt: Halt::Token, ..PARKED }, None, TWO,
        [hybrid::<Halting>()]), [PvWaitNode, PvKickUnlock], [];
    hybrid_parked_again: locks(PARKED, Some(3), AGAIN, [hybrid::<ByAddress>()]),
        [PvWaitNode, PvWaitAgain, PvKickUnlock], [];
    hybrid_parked_spin: locks(World { tick_ns: 1_000, ..PARKED }, Some(2), TWO,
        [hybrid::<ByAddress>()]), [PvLockStealing], ["newcomer.rs spin_as_newcomer cas"];
    hybrid_parked_three: locks(PARKED, Some(2), THREE, [hybrid::<ByAddress>()]),
        [PvWaitNode, PvKickUnlock], [];
    hybrid_parked_number: locks(PARKED, Some(2), THREE, [hybrid::<Halting>()]),
        [PvWaitNode, PvKickUnlock], [];
    hybrid_noted: locks(World { tick_ns: 11_000, ..PARKED }, Some(3), AGAIN,
        [hybrid::<CheapByAddress>()]), [PvWaitNode, PvKickUnlock],
        ["newcomer.rs spin_as_newcomer cas 2", "queue.rs unlock clear_low_byte", RELIES_ON_A_NOTE];
    hybrid_noted_timed: locks(World { tick_ns: 5_500, timeouts: true, ..PARKED }, Some(2),
        &[&[Until(30_000), E], &[L]], [hybrid::<CheapByAddress>()]), [LockTimeout],
        ["newcomer.rs leave_late update"];
    hybrid_parked_joins: locks(World { outside_wakes: 3_000, ..PARKED }, Some(2), THREE,
        [hybrid::<ByAddress>()]), [PvWaitNode, LockQueued, PvKickUnlock], [];
    hybrid_late_head: locks(World { outside_wakes: 3_000, ..PARKED }, Some(2),
        &[&[Until(60_000_000)], &[E], &[L, E]], [hybrid::<CheapByAddress>()]),
        [LockTimeout, LockQueued], [];
    hybrid_parked_timed: locks(World { timeouts: true, ..PARKED }, Some(2),
        &[&[E], &[Until(25_000_000), E], &[L]], [hybrid::<ByAddress>()]),
        [PvWaitNode, LockTimeout], [];
    hybrid_parked_cheap: locks(PARKED, Some(3), TWO, [hybrid::<CheapByAddress>()]),
        [PvWaitNode], ["queue.rs unlock clear_low_byte"];
    hybrid_parked_cheap_three: locks(PARKED, Some(2), THREE, [hybrid::<CheapByAddress>()]),
        [PvWaitNode], ["queue.rs unlock clear_low_byte"];
    hybrid_parked_refused: locks(World { barrier: Barrier::Refused, ..PARKED }, Some(3), TWO,
        [hybrid::<CheapByAddress>()]), [PvWaitNode], ["queue.rs unlock clear_low_byte"];
    hybrid_fair: locks(PARKED, Some(3), AGAIN, [fairly::<ByAddress>()]),
        [PvWaitNode, PvKickUnlock], ["release.rs unlock_fair update"];
    hybrid_fair_three: locks(PARKED, Some(2), THREE, [fairly::<ByAddress>()]),
        [PvWaitNode, PvKickUnlock], ["release.rs unlock_fair update"];
    hybrid_fair_number: locks(PARKED, Some(2), THREE, [fairly::<Halting>()]),
        [PvWaitNode, PvKickUnlock], ["release.rs unlock_fair update"];
    hybrid_fair_joins: locks(World { outside_wakes: 3_000, ..PARKED }, Some(2), THREE,
        [fairly::<ByAddress>()]),
        [PvWaitNode, LockQueued, PvKickUnlock], ["release.rs unlock_fair update"];
    hybrid_fair_timed: locks(World { timeouts: true, ..PARKED }, Some(2),
        &[&[E], &[Until(25_000_000), E], &[L]], [fairly::<ByAddress>()]),
        [PvWaitNode, LockTimeout], ["release.rs unlock_fair update"];
    hybrid_fair_cheap: locks(PARKED, Some(3), AGAIN, [fairly::<CheapByAddress>()]),
        [PvWaitNode], ["release.rs unlock_fair update"];
    hybrid_spin: locks(SPIN, None, TWO, [hybrid::<Spinning>()]), [LockQueued, PvLockStealing], [];
    hybrid_spin_three: locks(SPIN, Some(2), THREE, [hybrid::<Spinning>()]),
        [LockQueued, PvLockStealing], [];

    queued_nested_two: locks(nests(1), Some(3), NESTED_TWO, [queued::<Halting>(); 2]),
        [LockQueued, LockUseNode2, PvKickWake], [];
    queued_nested_three: locks(nests(2), Some(2), NESTED_THREE, [queued::<Halting>(); 3]),
        [LockUseNode3, PvKickWake], [];
    queued_nested_four: locks(nests(3), Some(2), NESTED_FOUR, [queued::<Halting>(); 4]),
        [LockUseNode4, PvKickWake], [];
    queued_nested_five: locks(nests(4), Some(2), NESTED_FIVE, [queued::<Halting>(); 5]),
        [LockUseNode4, LockNoNode], [];
    hybrid_nested_four: locks(nests(3), Some(2), NESTED_FOUR, [hybrid::<Halting>(); 4]),
        [PvLockStealing, PvWaitNode, PvKickWake], [];
    mixed_nested: locks(nests(3), Some(2), NESTED_FOUR, [QUEUED, TICKET, HYBRID, TEST_AND_SET]),
        [LockUseNode3, PvWaitNode, PvKickWake], ["park.rs kick_halted compare_exchange"];
    mixed_nested_token: locks(World { interrupts: 3, ..TOKEN }, Some(1), NESTED_FOUR,
        [TEST_AND_SET, TICKET, QUEUED, HYBRID]), [LockUseNode3, PvWaitNode, PvKickWake],
        ["park.rs kick_halted compare_exchange"];

    mixed_ticket_queued: locks(LATE, Some(1), LATE_KICK, [TICKET, QUEUED]),
        [PvWaitNode, PvWaitHead, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_ticket_hybrid: locks(LATE, Some(1), LATE_KICK, [TICKET, HYBRID]),
        [PvWaitNode, PvWaitHead, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_ticket_tas: locks(LATE, Some(2), LATE_KICK_TWO, [TICKET, TEST_AND_SET]),
        [PvWaitNode, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_tas_queued: locks(LATE, Some(1), LATE_KICK, [TEST_AND_SET, QUEUED]),
        [PvWaitNode, PvWaitHead, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_tas_ticket: locks(LATE, Some(2), LATE_KICK_TWO, [TEST_AND_SET, TICKET]),
        [PvWaitNode, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_queued_ticket: locks(LATE, Some(2), LATE_KICK_TWO, [QUEUED, TICKET]),
        [PvWaitNode, PvWaitHead, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_hybrid_tas: locks(LATE, Some(1), LATE_KICK, [HYBRID, TEST_AND_SET]),
        [PvWaitNode, PvWaitHead, PvKickWake], [MEETS_ANOTHER_KIND];
    mixed_interrupted_kick: locks(INTERRUPTED, Some(2), INTERRUPTED_KICK, [HYBRID, QUEUED]),
        [PvWaitHead, PvWaitNode, PvKickWake], [TAKES_OVER];
    queued_interrupted_kick: locks(INTERRUPTED, Some(2), INTERRUPTED_KICK, [QUEUED, QUEUED]),
        [PvWaitHead, PvWaitNode, PvKickWake], [TAKES_OVER];
    mixed_inside: locks(FUTEX, Some(3), INSIDE, [TICKET, QUEUED]),
        [PvWaitHead, PvWaitNode, PvKickWake], [];
    mixed_inside_token: locks(TOKEN, Some(2), INSIDE, [HYBRID, TICKET]),
        [PvWaitHead, PvWaitNode, PvKickWake], [];
}
