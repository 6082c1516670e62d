//! Kicking a queue head that has halted. Uses only the lock's address (F4).

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::atomic::Atomic;
use crate::counters::{Class, Event};
use crate::platform::Platform;
use crate::slot::NodeState;
use crate::waiters::{self, Key};

/// Kicks the queue head of a lock whose word the caller has seen to say `HALTED`:
/// `HEAD_HALTED`, `KICKING` -> `KICKING`, by this CPU -> `KICKED`.
#[cold]
#[inline(never)]
pub(super) fn kick_head<P: Platform, C: Class>(word: *const P::Word) {
    // ORDERING: Acquire, Q-O4.
    P::fence(Acquire);
    let me = P::cpu();
    let mut kicked = None;
    for waiter in waiters::find::<P>(Key::new(word, 0)) {
        if kicked == Some(waiter) {
            // The waiter has come back and halted again, with a later entry in the bucket, and has
            // said so in the word since.
            continue;
        }
        let node = waiter.node::<P>();
        let mut seen = node.state.load(Relaxed);
        while seen == NodeState::HEAD_HALTED || seen.is_kicking() {
            // A CPU that is already kicking may have been taken away before its kick (Q6).
            let is_lost = || passed_ns::<P>(&node.kicked) >= P::costs().wake_ns;
            let takes_over = me.is_some() && is_lost();
            let marks = !seen.is_kicking() || takes_over;
            if marks {
                if let Err(now) = node.state.compare_exchange(seen, NodeState::kicking(me), Relaxed)
                {
                    seen = now;
                    continue;
                }
                node.kicked.store(stamp::<P>(), Relaxed);
            }
            C::count(Event::PvKickUnlock);
            node.state.kick::<P>(waiter.cpu());
            kicked = Some(waiter);
            if marks && me.is_some() {
                // This fails if the waiter is back, and has perhaps halted again, or if another
                // release has taken the kick over.
                let kicking = NodeState::kicking(me);
                let _ = node.state.compare_exchange(kicking, NodeState::KICKED, Relaxed);
            }
            break;
        }
    }
}

/// The platform's clock in units of 1,024 ns, truncated to 32 bits.
pub(super) fn stamp<P: Platform>() -> u32 {
    (P::now_ns() >> 10) as u32
}

/// How many nanoseconds have passed since the [`stamp`] in `then`, and zero if another CPU's clock
/// is ahead (P9). The stamp wraps: after 36 minutes the result is zero for 36 minutes, so a head
/// that waits that long counts as a new one. Only budgets depend on it.
pub(super) fn passed_ns<P: Platform>(then: &P::Word) -> u64 {
    let passed = stamp::<P>().wrapping_sub(then.load(Relaxed)) as i32;
    u64::from(passed.max(0) as u32) << 10
}
