//! Waiting for a read-write lock: spinning, then halting on its word, as one of a class of waiters.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{RawRwLock, Refused};
use crate::counters::{Class, Event};
use crate::entered::Entered;
use crate::park;
use crate::platform::Platform;
use crate::raw::word::read_write::{Kicks, Pass, RwWord, Want, cas, update};
use crate::slot::{Care, NodeId};
use crate::spin::Spin;
use crate::waiters::NAP_NS;

/// A waiter that has halted looks again after so many times the time for which a free lock is kept
/// for others, in case the CPU that was kicked in its place never runs again; then after
/// [`LONGER`] times as long as it has waited. Shorter times would wake crowds for nothing.
const LOOKS_AFTER: u64 = 25;
const LONGER: u64 = 4;

/// After so many halts, a waiter whose halts have hardly lasted naps between two: readers that come
/// and go change the word before it can halt on it. Any value is correct.
const VAIN_HALTS: u64 = 8;

/// After so many halts, a reader that finds a writer claims the next turn: more let writers starve
/// readers for longer, fewer leave the lock idle until a reader is awake. Any value is correct.
/// (A writer does after [`Costs::outside_wakes`](crate::platform::Costs::outside_wakes).)
const CLAIMS_AFTER: u64 = 4;

/// A waiter spins for this part of what its halt would cost: sections that last longer are common,
/// and the holder may need its processor. A half or a tenth would do, too.
const PART: u64 = 5;

/// The most pauses between two looks of a waiter that spins: a look takes the cache line from those
/// that come and go. Any value is correct.
const PAUSES_MAX: u32 = 64;

impl<P: Platform, C: Class> RawRwLock<P, C> {
    #[cold]
    #[inline(never)]
    pub(super) fn lock_slow(
        &self,
        want: Want,
        pass: Pass,
        deadline_ns: Option<u64>,
    ) -> Result<(), Refused> {
        C::count(Event::LockSlowpath);
        let mut wait = Wait::<P>::new(want, pass, deadline_ns);
        loop {
            let seen = self.look();
            let pass = wait.pass;
            if let Some((to, kicks)) = seen.taken(want, pass) {
                let to = if wait.halts > 0 { to.owing(want) } else { to };
                // ORDERING: Acquire, R-O1.
                if cas(&self.word, seen, to, Acquire).is_ok() {
                    self.kick(kicks);
                    let queued = wait.halts > 0;
                    C::count(if queued { Event::LockQueued } else { Event::PvLockStealing });
                    return Ok(());
                }
                wait.spin();
            } else if seen.is_full() && matches!(want, Want::Read | Want::Upgradable) {
                return self.give_up(&wait, Refused::Full);
            } else if wait.is_late() {
                return self.give_up(&wait, Refused::Late);
            } else if wait.is_in_vain(seen.is_kept_from(want, pass)) {
                let free = update(&self.word, Relaxed, |seen| {
                    seen.is_kept_from(want, pass).then(|| seen.without_turn())
                });
                self.kick(free.unwrap_or(Kicks::NONE));
            } else if !wait.spin() {
                self.halt(&mut wait);
            }
        }
    }

    /// Ends a wait without the lock; or with it, if it has become free.
    #[cold]
    fn give_up(&self, wait: &Wait<P>, why: Refused) -> Result<(), Refused> {
        let (want, pass) = (wait.want, wait.last_pass());
        // ORDERING: Acquire, R-O1, if it takes the lock.
        let end = update(&self.word, Acquire, |seen| match seen.taken(want, pass) {
            Some((to, kicks)) => {
                Some((if wait.halts > 0 { to.owing(want) } else { to }, (true, kicks)))
            }
            None if wait.halts == 0 => Some((seen, (false, Kicks::NONE))),
            None => {
                let (to, kicks) = seen.given_up(want);
                Some((to, (false, kicks)))
            }
        });
        let (taken, kicks) = end.unwrap_or((false, Kicks::NONE));
        self.kick(kicks);
        if taken {
            return Ok(());
        }
        C::count(Event::LockTimeout);
        Err(why)
    }

    /// Marks the word and halts, until kicked or until it is time to look again. Where CPUs do not
    /// halt, it only marks the word.
    fn halt(&self, wait: &mut Wait<P>) {
        let Wait { want, pass, .. } = *wait;
        let seen = self.look();
        let claims = wait.claims(seen.has_first());
        let is_first = seen.is_first(want, claims);
        let awaited = |seen: RwWord| {
            // As which class it is kicked must be true of the word.
            let is_so = seen.is_first(want, claims || pass == Pass::Halted && seen.has_first());
            let waits = seen.taken(want, pass).is_none() && is_so == is_first;
            let to = seen.awaited(want, claims);
            waits.then(|| (to, to.bits()))
        };
        // ORDERING: Release, R-O3.
        let mark = || update(&self.word, Release, awaited);
        wait.halts();
        if !P::WAITS || !P::waits() {
            mark();
            return wait.has_halted(true);
        }
        let writes = matches!(want, Want::Write | Want::Upgrade);
        C::count(if writes { Event::PvWaitHead } else { Event::PvWaitNode });
        wait.leave_trace(self);
        let class = if is_first { Want::Upgrade } else { want }.class();
        let has_halted = park::park::<P>(&self.word, class, wait.looks_at_ns(), mark);
        // Where waiters are found in a table, one may be kicked before it halts.
        wait.has_halted(has_halted || !P::KICKS_BY_ADDRESS);
        wait.comes_back();
        if writes {
            // It has waited for long: while it spins, no more readers come.
            let _ = update(&self.word, Relaxed, awaited);
        }
    }

    pub(super) const CARE: &'static Care = &Care { mend: Self::mend, give_up: Self::abandon };

    /// Removes all waiters.
    ///
    /// # Safety
    /// The address is that of a live lock, which no other CPU uses at the same time.
    unsafe fn mend(lock: *const ()) {
        // SAFETY: the caller's.
        unsafe { &*lock.cast::<Self>() }.without_waiters();
    }

    /// See [`GiveUp`](crate::slot::Care).
    ///
    /// # Safety
    /// The address is that of a live lock.
    unsafe fn abandon(lock: *const (), _: NodeId, _: u32) -> bool {
        // SAFETY: the caller's.
        let lock = unsafe { &*lock.cast::<Self>() };
        let kicks = update(&lock.word, Relaxed, |seen| Some(seen.given_up(Want::Write)));
        lock.kick(kicks.unwrap_or(Kicks::NONE));
        true
    }
}

/// A wait under way.
struct Wait<P: Platform> {
    want: Want,
    pass: Pass,
    deadline_ns: Option<u64>,
    spin: Spin,
    halts: u64,
    /// When it first halted.
    since_ns: u64,
    /// Since when it has found the lock free, but kept for others.
    kept_ns: Option<u64>,
    /// For a forked child: the lock that this CPU waits for.
    trace: Option<Entered<P>>,
}

impl<P: Platform> Wait<P> {
    fn new(want: Want, pass: Pass, deadline_ns: Option<u64>) -> Self {
        let costs = P::costs();
        let spin = Spin::new(costs, costs.spin_ns() / PART).with_most_pauses(PAUSES_MAX);
        Self { want, pass, deadline_ns, spin, halts: 0, since_ns: 0, kept_ns: None, trace: None }
    }

    /// Spins for a moment. Returns false when the time for that is spent.
    fn spin(&mut self) -> bool {
        let halts = P::WAITS && P::waits();
        self.spin.goes_on::<P>() && halts
    }

    fn halts(&mut self) {
        if self.halts == 0 {
            self.since_ns = P::now_ns();
        }
        self.halts += 1;
    }

    fn has_halted(&mut self, has: bool) {
        if has && self.pass == Pass::Waiting {
            self.pass = Pass::Halted;
        }
    }

    /// Whether it has waited for so long that it claims the next turn. A writer that has halted
    /// also does so if another `has` done so: the release may have kicked this one.
    fn claims(&self, has: bool) -> bool {
        match self.want {
            Want::Read | Want::Upgradable => self.halts >= CLAIMS_AFTER,
            Want::Write if self.pass == Pass::Halted => {
                has || P::now_ns().saturating_sub(self.since_ns) >= P::costs().outside_ns()
            }
            Want::Write | Want::Upgrade => false,
        }
    }

    fn is_late(&self) -> bool {
        self.deadline_ns.is_some_and(|at| P::now_ns() >= at)
    }

    /// Whether the lock has been kept for others for so long that they will not come.
    fn is_in_vain(&mut self, is_kept: bool) -> bool {
        let limit_ns = P::costs().reserved_ns;
        if !is_kept || limit_ns == u64::MAX {
            self.kept_ns = None;
            return false;
        }
        let now = P::now_ns();
        now.saturating_sub(*self.kept_ns.get_or_insert(now)) >= limit_ns
    }

    /// Whom it may pass once it gives up.
    fn last_pass(&self) -> Pass {
        if self.pass == Pass::All { Pass::All } else { Pass::Late }
    }

    /// When a halt ends without a kick.
    fn looks_at_ns(&mut self) -> Option<u64> {
        let kept_ns = P::costs().reserved_ns;
        if kept_ns == u64::MAX {
            return self.deadline_ns;
        }
        let now = P::now_ns();
        let waited_ns = now.saturating_sub(self.since_ns);
        let at = match self.kept_ns {
            Some(since) => since.saturating_add(kept_ns),
            None => now.saturating_add(looks_after_ns(kept_ns, waited_ns)),
        };
        Some(self.deadline_ns.map_or(at, |deadline| deadline.min(at)))
    }

    fn comes_back(&mut self) {
        self.spin.begin_again();
        let least_ns = self.halts.saturating_mul(P::costs().wake_ns);
        if self.halts > VAIN_HALTS && P::now_ns().saturating_sub(self.since_ns) < least_ns {
            P::nap(NAP_NS);
        }
    }

    /// Names the lock for a forked child, which has none of the waiters.
    fn leave_trace<C: Class>(&mut self, lock: &RawRwLock<P, C>) {
        if self.trace.is_none() {
            self.trace = Entered::new();
            if let Some(entered) = &self.trace {
                entered.trace(lock, RawRwLock::<P, C>::CARE);
            }
        }
    }
}

/// How long a halt lasts that no kick ends.
fn looks_after_ns(kept_ns: u64, waited_ns: u64) -> u64 {
    kept_ns.saturating_mul(LOOKS_AFTER).max(waited_ns.saturating_mul(LONGER - 1))
}

#[cfg(all(test, feature = "threads"))]
mod tests {
    use core::sync::atomic::{AtomicBool, AtomicU32};

    use super::*;
    use crate::one_cpu::one_cpu;
    use crate::platform::Costs;
    use crate::raw::RawLock;

    one_cpu!(Alone, NOW_NS, halts);

    static LOCK: RawRwLock<Alone> = RawRwLock::new();
    static IS_FAIR: AtomicBool = AtomicBool::new(true);
    static PASSES: AtomicU32 = AtomicU32::new(0);

    /// Another writer has had the lock for a millisecond, and takes it again at once if it may.
    fn halts() {
        NOW_NS.fetch_add(1_000_000, Relaxed);
        // SAFETY: it has been taken for that writer.
        unsafe { if IS_FAIR.load(Relaxed) { LOCK.unlock_fair() } else { LOCK.unlock() } };
        if LOCK.try_lock_in_turn() {
            assert!(PASSES.fetch_add(1, Relaxed) < 100, "it is passed for ever");
        }
    }

    #[test]
    fn a_writer_that_sleeps_is_passed_for_five_milliseconds_and_not_by_fair_releases() {
        for (is_fair, passes) in [(true, 0..1), (false, 4..7)] {
            IS_FAIR.store(is_fair, Relaxed);
            PASSES.store(0, Relaxed);
            LOCK.lock();
            LOCK.lock();
            assert!(passes.contains(&PASSES.load(Relaxed)), "{PASSES:?}, fair: {is_fair}");
            // SAFETY: taken by the waiter, from the other.
            unsafe { LOCK.unlock() };
        }
    }

    #[test]
    fn the_longest_times_of_a_platform_are_no_overflow() {
        let longest = Costs::DEFAULT.with_wake_ns(u64::MAX);
        assert_eq!((longest.spin_ns(), longest.tenure_ns()), (u64::MAX, u64::MAX));
        assert_eq!(looks_after_ns(u64::MAX - 1, 0), u64::MAX);
        assert_eq!(looks_after_ns(0, u64::MAX), u64::MAX);
    }
}
