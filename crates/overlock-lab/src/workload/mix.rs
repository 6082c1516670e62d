// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop that every workload is.

use std::iter;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use overlock::ConstLock;

use super::tally::{Tally, add};
use super::{Losses, Profile};
use crate::guest::world::{Hint, Program, Vcpu, World};

/// The interrupt by which a vCPU asks all others to drop stale translations.
const SHOOTDOWN: u32 = 3;

/// A lock, who holds it, and what waiting for it came to.
#[derive(Debug)]
#[repr(align(128))]
struct Held<L> {
    lock: L,
    /// The holder's number plus one, or 0; for the host, which may ask at any time.
    holder: AtomicU32,
    /// When it was last released; for the host.
    released_ns: AtomicU64,
    /// Moved by every section: the datum that the lock protects.
    sections: AtomicU64,
    /// What [`Losses`] says; this one is kept by the holders, the others by the host.
    waited_ns: AtomicU64,
    holder_off_ns: AtomicU64,
    next_off_ns: AtomicU64,
    debtor_off_ns: AtomicU64,
}

impl<L: ConstLock> Held<L> {
    fn new() -> Self {
        Self {
            lock: L::NEW,
            holder: AtomicU32::new(0),
            released_ns: AtomicU64::new(0),
            sections: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            holder_off_ns: AtomicU64::new(0),
            next_off_ns: AtomicU64::new(0),
            debtor_off_ns: AtomicU64::new(0),
        }
    }
}

/// What one vCPU shares with others, besides its tally.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Desk {
    /// The latest shootdown it has answered.
    answered: AtomicU64,
    /// The lock that it waits for plus one, or 0; for the host.
    wants: AtomicU32,
    /// The shootdown that it waits for answers to, or 0; for the host.
    asks: AtomicU64,
    /// When it asked; for the host.
    asked_ns: AtomicU64,
}

/// A profile, ready to run.
#[derive(Debug)]
pub(super) struct Mix<'a, L> {
    profile: &'a Profile,
    /// Whether a lock goes to whoever asked first.
    in_order: bool,
    locks: Vec<Held<L>>,
    tallies: Vec<Tally>,
    desks: Vec<Desk>,
    /// The latest shootdown that was asked for, on each lock.
    shootdowns: AtomicU64,
}

impl<'a, L: ConstLock> Mix<'a, L> {
    pub(super) fn new(profile: &'a Profile, vcpus: u32, in_order: bool) -> Self {
        Self {
            profile,
            in_order,
            locks: (0..profile.locks).map(|_| Held::new()).collect(),
            tallies: (0..vcpus).map(|_| Tally::default()).collect(),
            desks: (0..vcpus).map(|_| Desk::default()).collect(),
            shootdowns: AtomicU64::new(0),
        }
    }

    pub(super) fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// What waiting for each lock came to.
    pub(super) fn losses(&self) -> Vec<Losses> {
        let of = |held: &Held<L>| Losses {
            waited_ns: held.waited_ns.load(Relaxed),
            holder_off_ns: held.holder_off_ns.load(Relaxed),
            next_off_ns: held.next_off_ns.load(Relaxed),
            debtor_off_ns: held.debtor_off_ns.load(Relaxed),
        };
        self.locks.iter().map(of).collect()
    }

    /// Those that wait for lock number `at`, and since when.
    fn waiters(&self, at: usize) -> impl Iterator<Item = (u32, u64)> + '_ {
        let wants = at as u32 + 1;
        let desks = (0..).zip(self.desks.iter().zip(&self.tallies));
        desks
            .filter(move |(_, (desk, _))| desk.wants.load(Relaxed) == wants)
            .map(|(number, (_, tally))| (number, tally.waiting_since.load(Relaxed)))
            .filter(|&(_, since)| since != 0)
    }

    /// Those that will have lock number `at` before `spinner`, the next one first, if that is
    /// known.
    fn waiters_before(&self, at: usize, spinner: u32) -> impl Iterator<Item = u32> + '_ {
        let own = self.tallies[spinner as usize].waiting_since.load(Relaxed);
        let own = if self.in_order { own } else { 0 };
        let after = move |after: u64| {
            let next = self.waiters(at).filter(move |&(_, since)| after < since && since < own);
            next.min_by_key(|&(_, since)| since)
        };
        iter::successors(after(0), move |&(_, since)| after(since)).map(|(number, _)| number)
    }

    /// Those that `asker` waits for answers from.
    fn debtors(&self, asker: u32) -> impl Iterator<Item = u32> + '_ {
        let request = self.desks[asker as usize].asks.load(Relaxed);
        let owes = move |target: u32, desk: &Desk| {
            target != asker && desk.answered.load(Relaxed) < request
        };
        (0..).zip(&self.desks).filter(move |&(n, desk)| owes(n, desk)).map(|(n, _)| n)
    }

    /// Nanoseconds that vCPUs have waited for lock number `at` between two moments, if all who
    /// began to wait still do.
    fn waited(&self, at: usize, since_ns: u64, until_ns: u64) -> u64 {
        self.waiters(at).map(|(_, began)| until_ns.saturating_sub(began.max(since_ns))).sum()
    }

    /// One critical section under lock number `at`.
    fn section<W: World>(&self, vcpu: Vcpu<W>, at: usize, shootdown: bool) {
        let (number, held) = (vcpu.number(), &self.locks[at]);
        let desk = &self.desks[number as usize];
        desk.wants.store(at as u32 + 1, Relaxed);
        let waited = self.tallies[number as usize].wait(vcpu, || held.lock.lock());
        vcpu.enter_critical();
        held.holder.store(number + 1, Relaxed);
        desk.wants.store(0, Relaxed);
        add(&held.sections, 1);
        add(&held.waited_ns, waited);
        vcpu.work_ns(self.profile.section_ns);
        if shootdown {
            self.shoot_down(vcpu);
        }
        held.released_ns.store(vcpu.now_ns(), Relaxed);
        held.holder.store(0, Relaxed);
        // SAFETY: taken above.
        unsafe { held.lock.unlock() };
        vcpu.leave_critical();
    }

    /// Interrupts every other vCPU and waits until all have answered.
    fn shoot_down<W: World>(&self, vcpu: Vcpu<W>) {
        let request = self.shootdowns.fetch_add(1, Relaxed) + 1;
        for target in (0..vcpu.count()).filter(|&target| target != vcpu.number()) {
            vcpu.send_interrupt(target, SHOOTDOWN);
        }
        let Desk { asks, asked_ns, .. } = &self.desks[vcpu.number() as usize];
        asked_ns.store(vcpu.now_ns(), Relaxed);
        asks.store(request, Relaxed);
        for (target, desk) in (0..).zip(&self.desks) {
            while target != vcpu.number()
                // ORDERING: Acquire → the Release in `interrupt`; the other has dropped what it had
                // to.
                && desk.answered.load(Acquire) < request
                && !vcpu.stopping()
            {
                vcpu.relax();
            }
        }
        asks.store(0, Relaxed);
    }

    fn read_timer<W: World>(&self, vcpu: Vcpu<W>, last: &mut u32) {
        let tally = &self.tallies[vcpu.number() as usize];
        let start = vcpu.now_ns();
        let ticks = W::pm_timer();
        add(&tally.timer_ns, vcpu.now_ns() - start);
        let step = ticks.wrapping_sub(*last) & 0x00ff_ffff;
        add(&tally.timer_backwards, u64::from(step > 0x0080_0000));
        *last = ticks;
    }
}

impl<W: World, L: ConstLock> Program<W> for Mix<'_, L> {
    fn run(&self, vcpu: Vcpu<W>) {
        let profile = self.profile;
        let tally = &self.tallies[vcpu.number() as usize];
        let mut random = u64::from(vcpu.number()) + 1;
        let mut ticks = W::pm_timer();
        let every = |n: u64, operation: u64| n != 0 && operation.is_multiple_of(n);
        let mut operation = 0;
        while !vcpu.stopping() {
            operation += 1;
            vcpu.work_ns(profile.think_ns);
            for section in 0..profile.sections {
                let at = if profile.locks == 1 { 0 } else { next(&mut random) % profile.locks };
                let shootdown = section == 0 && every(profile.shootdown_every, operation);
                self.section(vcpu, at, shootdown);
            }
            for _ in 0..profile.timer_reads {
                self.read_timer(vcpu, &mut ticks);
            }
            add(&tally.operations, 1);
            if every(profile.sleep_every, operation) {
                vcpu.sleep_ns(profile.sleep_ns);
            }
        }
    }

    fn interrupt(&self, vcpu: Vcpu<W>, _number: u32) {
        // The interrupt itself orders: this is at least the request that caused it.
        let request = self.shootdowns.load(Relaxed);
        // ORDERING: Release → the Acquire in `shoot_down`.
        self.desks[vcpu.number() as usize].answered.store(request, Release);
    }

    /// Who owes the spinner an answer; who owes one to the holder of its lock; that holder; and
    /// those that will have the lock before the spinner.
    fn hint(&self, spinner: u32) -> Hint {
        let desk = &self.desks[spinner as usize];
        let at = desk.wants.load(Relaxed).checked_sub(1).map(|at| at as usize);
        let holder = at.and_then(|at| self.locks[at].holder.load(Relaxed).checked_sub(1));
        let debtors = holder.into_iter().flat_map(|holder| self.debtors(holder));
        let before = at.into_iter().flat_map(|at| self.waiters_before(at, spinner));
        let mut line = self.debtors(spinner).chain(debtors).chain(holder).chain(before);
        Hint { holder: line.next(), waiters: std::array::from_fn(|_| line.next()) }
    }

    fn was_away(&self, vcpu: u32, since_ns: u64, until_ns: u64) {
        for (at, held) in self.locks.iter().enumerate() {
            let Some(holder) = held.holder.load(Relaxed).checked_sub(1) else { continue };
            if holder == vcpu {
                // It has held the lock all the time, so nobody's wait can have ended.
                add(&held.holder_off_ns, self.waited(at, since_ns, until_ns));
            } else if self.debtors(holder).eq([vcpu]) {
                // The last to answer keeps the holder as long as all of them.
                let asked_ns = self.desks[holder as usize].asked_ns.load(Relaxed);
                add(&held.debtor_off_ns, self.waited(at, since_ns.max(asked_ns), until_ns));
            }
        }
        let wants = self.desks[vcpu as usize].wants.load(Relaxed);
        let Some(at) = wants.checked_sub(1) else { return };
        let (at, held) = (at as usize, &self.locks[at as usize]);
        let first = self.waiters(at).min_by_key(|&(_, since)| since);
        let is_next = self.in_order && first.is_some_and(|(number, _)| number == vcpu);
        if is_next && held.holder.load(Relaxed) == 0 {
            // The lock has been its own since the release.
            let since_ns = since_ns.max(held.released_ns.load(Relaxed));
            add(&held.next_off_ns, self.waited(at, since_ns, until_ns));
        }
    }
}

/// The next of a sequence of random numbers (xorshift64, Marsaglia 2003).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}
