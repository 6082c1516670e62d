// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop that every workload is.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use overlock::ConstLock;

use super::Profile;
use super::tally::{Tally, add};
use crate::guest::world::{Hint, Program, Vcpu, World};

/// The interrupt by which a vCPU asks all others to drop stale translations.
const SHOOTDOWN: u32 = 3;

/// A lock, and who holds it.
#[derive(Debug)]
#[repr(align(128))]
struct Held<L> {
    lock: L,
    /// The holder's number plus one, or 0; for the host, which may ask at any time.
    holder: AtomicU32,
    /// Moved by every section: the datum that the lock protects.
    sections: AtomicU64,
}

/// What one vCPU shares with others, besides its tally.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Desk {
    /// The latest shootdown it has answered.
    answered: AtomicU64,
    /// The lock that it waits for plus one, or 0; for the host.
    wants: AtomicU32,
    /// The vCPU whose answer it waits for plus one, or 0; for the host.
    awaits: AtomicU32,
}

/// A profile, ready to run.
#[derive(Debug)]
pub(super) struct Mix<'a, L> {
    profile: &'a Profile,
    locks: Vec<Held<L>>,
    tallies: Vec<Tally>,
    desks: Vec<Desk>,
    /// The latest shootdown that was asked for, on each lock.
    shootdowns: AtomicU64,
}

impl<'a, L: ConstLock> Mix<'a, L> {
    pub(super) fn new(profile: &'a Profile, vcpus: u32) -> Self {
        let held =
            |_| Held { lock: L::NEW, holder: AtomicU32::new(0), sections: AtomicU64::new(0) };
        Self {
            profile,
            locks: (0..profile.locks).map(held).collect(),
            tallies: (0..vcpus).map(|_| Tally::default()).collect(),
            desks: (0..vcpus).map(|_| Desk::default()).collect(),
            shootdowns: AtomicU64::new(0),
        }
    }

    pub(super) fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// One critical section under lock number `at`.
    fn section<W: World>(&self, vcpu: Vcpu<W>, at: usize, shootdown: bool) {
        let (number, held) = (vcpu.number(), &self.locks[at]);
        let desk = &self.desks[number as usize];
        desk.wants.store(at as u32 + 1, Relaxed);
        self.tallies[number as usize].lock(vcpu, &held.lock);
        vcpu.enter_critical();
        held.holder.store(number + 1, Relaxed);
        desk.wants.store(0, Relaxed);
        add(&held.sections, 1);
        vcpu.work_ns(self.profile.section_ns);
        if shootdown {
            self.shoot_down(vcpu);
        }
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
        let awaits = &self.desks[vcpu.number() as usize].awaits;
        for (target, desk) in (0..).zip(&self.desks) {
            awaits.store(target + 1, Relaxed);
            while target != vcpu.number()
                // ORDERING: Acquire → the Release in `interrupt`; the other has dropped what it had
                // to.
                && desk.answered.load(Acquire) < request
                && !vcpu.stopping()
            {
                vcpu.relax();
            }
        }
        awaits.store(0, Relaxed);
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

    fn hint(&self, spinner: u32) -> Hint {
        let desk = &self.desks[spinner as usize];
        if let Some(target) = desk.awaits.load(Relaxed).checked_sub(1) {
            return Hint { holder: Some(target), ..Hint::default() };
        }
        let wants = desk.wants.load(Relaxed);
        let Some(at) = wants.checked_sub(1) else { return Hint::default() };
        let holder = self.locks[at as usize].holder.load(Relaxed).checked_sub(1);
        let mut hint = Hint { holder, ..Hint::default() };
        // The first to ask is the first to get it, if the lock is fair.
        let mut after = 0;
        for waiter in &mut hint.waiters {
            let later = |&(number, since): &(u32, u64)| {
                since > after && self.desks[number as usize].wants.load(Relaxed) == wants
            };
            let waiting = (0..).zip(&self.tallies).map(|(n, t)| (n, t.waiting_since.load(Relaxed)));
            let Some((number, since)) = waiting.filter(later).min_by_key(|&(_, since)| since)
            else {
                break;
            };
            *waiter = Some(number);
            after = since;
        }
        hint
    }
}

/// The next of a sequence of random numbers (xorshift64, Marsaglia 2003).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}
