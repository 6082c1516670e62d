//! The loop that every workload consists of.
//!
//! # What a critical section contains
//! A vCPU first tries to take the lock. If that succeeds, it has not waited, and its wait is not
//! timed: two readings of the clock take longer than an empty critical section. If it fails, the
//! vCPU reads its clock, and waits.
//!
//! Between the return of `lock` and the call of `unlock` a vCPU that has waited reads its clock
//! once, and two words of its own record. Every vCPU writes one word of its own ([`Place`]; two if
//! locks publish), announces that it is in a critical section, and works. Everything else is
//! counted after the release. Where waiters are served in order, this includes a reading of the
//! clock: the lock is the next waiter's from then on, and the host accounts for the time that it
//! stays away. The lock's cache line holds only the lock.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::*};

use overlock::ConstLock;
use overlock::atomic::{Atomic, ConstAtomic};

use super::Profile;
use super::place::{Place, before, holder, waiters};
use super::shelf::Shelf;
use super::tally::{Moment, Tally, add};
use crate::timeline::{Hold, Log, Window};
use crate::{Hint, Program, RunConfig, ThisVcpu, Verbs};
use overlock_results::Losses;

/// The interrupt by which a vCPU asks all others to drop stale translations.
const SHOOTDOWN: u32 = 3;

#[derive(Debug)]
#[repr(align(128))]
struct Held<L>(L);

/// What the host records about the waits for one lock: see [`Losses`].
#[derive(Debug, Default)]
struct Lost {
    holder_off_ns: AtomicU64,
    next_off_ns: AtomicU64,
    debtor_off_ns: AtomicU64,
}

/// A request and its answers, on a line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Desk<C> {
    /// The latest shootdown it has answered.
    answered: C,
    /// The shootdown for whose answers it waits, or 0.
    asks: C,
    /// The vCPU that has to answer, plus one; 0 means all.
    of: AtomicU64,
    asked_ns: AtomicU64,
}

/// What a vCPU records for the host at the end of a critical section, on a line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Released {
    lock: AtomicU64,
    at_ns: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Mix<'a, W: Verbs, L> {
    profile: &'a Profile,
    /// Whether a lock serves its waiters in order.
    in_order: bool,
    /// vCPUs of a guest, which has locks of its own.
    guest: usize,
    locks: Shelf<Held<L>>,
    lost: Vec<Lost>,
    pub(crate) tallies: Vec<Tally>,
    /// Nanoseconds that each vCPU has waited for each lock.
    waited: Vec<Vec<AtomicU64>>,
    /// The place of each vCPU: the truth.
    places: Vec<Place>,
    /// The places as far as the guest publishes them, if it does.
    page: Option<Vec<Place>>,
    released: Vec<Released>,
    desks: Vec<Desk<W::Word>>,
    /// What each vCPU records for a timeline; empty without one.
    pub(crate) logs: Vec<Log>,
    /// The latest shootdown that was asked for, under any lock.
    shootdowns: W::Word,
}

impl<'a, W: Verbs, L: ConstLock> Mix<'a, W, L> {
    pub(crate) fn new(profile: &'a Profile, config: &RunConfig<'_>, in_order: bool) -> Self {
        let RunConfig { vcpus, publishes, .. } = *config;
        let guest = config.vcpus_of_guest() as usize;
        let locks = profile.locks * (vcpus as usize).div_ceil(guest);
        let places = || (0..vcpus).map(|_| Place::default()).collect();
        let desk = |_| Desk {
            answered: W::Word::ZERO,
            asks: W::Word::ZERO,
            of: 0.into(),
            asked_ns: 0.into(),
        };
        let counts = |_| (0..locks).map(|_| AtomicU64::new(0)).collect();
        Self {
            profile,
            in_order,
            guest,
            locks: Shelf::new::<W>(locks, || Held(L::NEW)),
            lost: (0..locks).map(|_| Lost::default()).collect(),
            tallies: (0..vcpus).map(|_| Tally::default()).collect(),
            waited: (0..vcpus).map(counts).collect(),
            places: places(),
            page: publishes.then(places),
            released: (0..vcpus).map(|_| Released::default()).collect(),
            desks: (0..vcpus).map(desk).collect(),
            logs: Vec::new(),
            shootdowns: W::Word::ZERO,
        }
    }

    /// The same, with vCPUs that record their critical sections in `window`, if there is one.
    pub(crate) fn noting(self, window: Option<Window>, vcpus: u32) -> Self {
        let log = |window| (0..vcpus).map(|_| Log::new(window, vcpus)).collect();
        Self { logs: window.map_or_else(Vec::new, log), ..self }
    }

    pub(crate) fn losses(&self) -> Vec<Losses> {
        let of = |(at, lost): (usize, &Lost)| Losses {
            waited_ns: self.waited.iter().map(|locks| locks[at].load(Relaxed)).sum(),
            holder_off_ns: lost.holder_off_ns.load(Relaxed),
            next_off_ns: lost.next_off_ns.load(Relaxed),
            debtor_off_ns: lost.debtor_off_ns.load(Relaxed),
        };
        self.lost.iter().enumerate().map(of).collect()
    }

    fn guest_of(&self, vcpu: u32) -> Range<usize> {
        let first = vcpu as usize / self.guest * self.guest;
        first..(first + self.guest).min(self.desks.len())
    }

    /// The vCPUs for whose answers `asker` waits.
    fn debtors(&self, asker: u32) -> impl Iterator<Item = u32> + '_ {
        let Desk { asks, of, .. } = &self.desks[asker as usize];
        let (request, of) = (asks.load(Relaxed), of.load(Relaxed));
        let owes = move |target: u32, desk: &Desk<W::Word>| {
            target != asker
                && (of == 0 || of == u64::from(target) + 1)
                && desk.answered.load(Relaxed) < request
        };
        let desks = if request == 0 { 0..0 } else { self.guest_of(asker) };
        let first = desks.start as u32;
        (first..).zip(&self.desks[desks]).filter(move |&(n, desk)| owes(n, desk)).map(|(n, _)| n)
    }

    /// Nanoseconds that vCPUs have waited for lock number `at` between two moments, provided that
    /// all vCPUs that began to wait still do.
    fn waited(&self, at: usize, since_ns: u64, until_ns: u64) -> u64 {
        let waits = waiters(&self.places, at);
        waits.map(|(_, began)| until_ns.saturating_sub(began.max(since_ns))).sum()
    }

    fn last_release(&self, at: usize) -> u64 {
        let of = |vcpu: &&Released| vcpu.lock.load(Relaxed) == at as u64 + 1;
        let releases = self.released.iter().filter(of);
        releases.map(|vcpu| vcpu.at_ns.load(Relaxed)).max().unwrap_or(0)
    }

    /// One critical section under lock number `at`.
    fn section(&self, vcpu: ThisVcpu<W>, at: usize, shootdown: bool) {
        let own = vcpu.number() as usize;
        let (tally, place) = (&self.tallies[own], &self.places[own]);
        let page = self.page.as_ref().map(|page| &page[own]);
        let Held(lock) = &self.locks[at];
        // A timeline is recorded in a run of its own, and needs every stamp.
        let is_free = self.logs.is_empty() && lock.try_lock();
        let waited = (!is_free).then(|| {
            let start = tally.begin::<W>();
            place.waits(at, start.now_ns);
            if let Some(page) = page {
                page.waits(at, start.now_ns);
            }
            lock.lock();
            (start, Moment::now::<W>())
        });
        place.holds(at);
        if let Some(page) = page {
            page.holds(at);
        }
        vcpu.enter_critical();
        vcpu.work_ns(self.profile.section_ns);
        if shootdown {
            self.shoot_down(vcpu);
        }
        if let Some(page) = page {
            page.releases();
        }
        place.releases();
        // SAFETY: the lock was taken above.
        unsafe { lock.unlock() };
        vcpu.leave_critical();
        let released = &self.released[own];
        if self.in_order || !self.logs.is_empty() {
            released.at_ns.store(vcpu.now_ns(), Relaxed);
            released.lock.store(at as u64 + 1, Relaxed);
        }
        let Some((start, taken)) = waited else {
            return tally.took_at_once();
        };
        add(&self.waited[own][at], tally.end(start, taken));
        if let Some(log) = self.logs.get(own) {
            let (asked_ns, taken_ns) = (start.now_ns, taken.now_ns);
            let released_ns = released.at_ns.load(Relaxed);
            // SAFETY: only this vCPU records here, and the log is read once it has ended.
            unsafe { log.note(Hold { lock: at as u32, asked_ns, taken_ns, released_ns }) };
        }
    }

    /// Interrupts every other vCPU of the guest, or one, and waits for their answers.
    fn shoot_down(&self, vcpu: ThisVcpu<W>) {
        let request = self.shootdowns.fetch_add(1, Relaxed) + 1;
        let own = vcpu.number();
        let Desk { asks, of, asked_ns, .. } = &self.desks[own as usize];
        let guest = self.guest_of(own);
        let guest = guest.start as u32..guest.end as u32;
        let others = guest.len() as u32 - 1;
        let targets = if self.profile.shootdown_one && others > 0 {
            let target = guest.start + (own - guest.start + 1 + request % others) % (others + 1);
            of.store(u64::from(target) + 1, Relaxed);
            target..target + 1
        } else {
            guest
        };
        asked_ns.store(vcpu.now_ns(), Relaxed);
        asks.store(request, Relaxed);
        if of.load(Relaxed) == 0 {
            vcpu.interrupt_all(SHOOTDOWN);
        } else {
            vcpu.interrupt(targets.start, SHOOTDOWN);
        }
        let targets = targets.filter(|&target| target != own);
        if self.profile.shootdown_yields
            && let Some(target) = targets.clone().find(|&target| vcpu.is_preempted(target))
        {
            vcpu.yield_to(Some(target));
        }
        for target in targets {
            let answered = &self.desks[target as usize].answered;
            // ORDERING: Acquire → the Release in `interrupt`; the other vCPU has dropped its stale
            // translations.
            while answered.load(Acquire) < request && !vcpu.stopping() {
                vcpu.relax();
            }
        }
        asks.store(0, Relaxed);
    }

    fn read_timer(&self, vcpu: ThisVcpu<W>, last: &mut u32) {
        let start = Moment::now::<W>();
        let ticks = vcpu.pm_timer();
        let step = ticks.wrapping_sub(*last) & 0x00ff_ffff;
        self.tallies[vcpu.number() as usize].read::<W>(start, step > 0x0080_0000);
        *last = ticks;
    }

    /// The vCPU that `spinner` waits for and those before it, according to `places` and, if
    /// `debts`, according to unanswered interrupts; the holder comes first.
    fn line(&self, places: &[Place], spinner: u32, debts: bool) -> Hint {
        let at = places[spinner as usize].waits_for().map(|(at, _)| at);
        let holder = at.and_then(|at| holder(places, at));
        let askers = [Some(spinner), holder].into_iter().flatten().filter(|_| debts);
        let debtors = askers.flat_map(|asker| self.debtors(asker));
        let at = at.filter(|_| self.in_order);
        let before = at.into_iter().flat_map(|at| before(places, at, spinner));
        let mut line = debtors.chain(holder).chain(before);
        Hint { holder: line.next(), waiters: std::array::from_fn(|_| line.next()) }
    }
}

impl<W: Verbs, L: ConstLock> Program<W> for Mix<'_, W, L> {
    fn run(&self, vcpu: ThisVcpu<W>) {
        let profile = self.profile;
        let tally = &self.tallies[vcpu.number() as usize];
        let mut random = fastrand::Rng::with_seed(u64::from(vcpu.number()));
        let mut ticks = vcpu.pm_timer();
        let every = |n: u64, operation: u64| n != 0 && operation.is_multiple_of(n);
        let mut operation = 0;
        let first = vcpu.number() as usize / self.guest * profile.locks;
        while !vcpu.stopping() {
            operation += 1;
            if profile.think_in_user {
                vcpu.work_in_user_ns(profile.think_ns);
            } else {
                vcpu.work_ns(profile.think_ns);
            }
            for section in 0..profile.sections {
                let at = if profile.locks == 1 { 0 } else { random.usize(..profile.locks) };
                let at = first + at;
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

    fn interrupt(&self, vcpu: ThisVcpu<W>, _number: u32) {
        // The interrupt itself orders: this is at least the request that caused it.
        let request = self.shootdowns.load(Relaxed);
        // ORDERING: Release → the Acquire in `shoot_down`.
        self.desks[vcpu.number() as usize].answered.store(request, Release);
    }

    /// The holder of the spinner's lock, and the waiters that will have it before the spinner, if
    /// the locks publish them.
    fn hint(&self, spinner: u32) -> Hint {
        let page = self.page.as_ref();
        page.map_or_else(Hint::default, |page| self.line(page, spinner, false))
    }

    /// Returns whom the spinner really waits for: the vCPUs that have not answered its interrupt or
    /// one of the lock's holder, the holder itself, and the waiters that are served before it.
    fn truth(&self, spinner: u32) -> Hint {
        self.line(&self.places, spinner, true)
    }

    fn progress(&self, vcpu: u32) -> u64 {
        self.tallies[vcpu as usize].waited.load(Relaxed)
    }

    fn was_away(&self, vcpu: u32, since_ns: u64, until_ns: u64) {
        let place = &self.places[vcpu as usize];
        if let Some(at) = place.held() {
            // It has held the lock all the time, so no wait can have ended.
            add(&self.lost[at].holder_off_ns, self.waited(at, since_ns, until_ns));
        }
        for (holder, desk) in (0..).zip(&self.desks) {
            if desk.asks.load(Relaxed) == 0 || !self.debtors(holder).eq([vcpu]) {
                continue;
            }
            // The last vCPU to answer delays the holder as long as all of them.
            let Some(at) = self.places[holder as usize].held() else { continue };
            let asked_ns = desk.asked_ns.load(Relaxed);
            add(&self.lost[at].debtor_off_ns, self.waited(at, since_ns.max(asked_ns), until_ns));
        }
        let Some((at, _)) = place.waits_for() else { return };
        let first = waiters(&self.places, at).min_by_key(|&(_, since)| since);
        let is_next = self.in_order && first.is_some_and(|(number, _)| number == vcpu);
        if is_next && holder(&self.places, at).is_none() {
            // The lock has been its own to take since the release.
            let since_ns = since_ns.max(self.last_release(at));
            add(&self.lost[at].next_off_ns, self.waited(at, since_ns, until_ns));
        }
    }
}
