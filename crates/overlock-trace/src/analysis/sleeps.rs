//! When threads sleep, and what for: their waits on words, and all other sleeps.

use super::chain::Part;
use super::engine::{Analysis, Thread, word};
use super::event::SHARED;
use super::report::Key;
use super::state::{Reason, Site, State};
use super::timeline::{Mark, lies_since};
use super::wait::{Sleep, TimedOut, Wait};
use std::collections::BTreeMap;

/// Sleeps of several threads that end within this time of each other end at one moment.
const MOMENT_NS: u64 = 50_000;

/// How many sleeps of a thread may wait for their reason: those of one call; and how many things
/// that others did meanwhile are kept apart.
const MOST_UNTOLD: usize = 16;

impl Analysis {
    /// A wait has ended by itself.
    fn times_out(&mut self, id: u32, (row, wait): (usize, &Wait), at: u64) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let (ran, ns) = (thread.line.ran(at), at.saturating_sub(wait.from));
        let (lock, site) = (wait.lock, wait.site);
        let before = thread.timed_out.filter(|one| one.goes_on((lock, site), ran));
        if before.is_none() {
            self.gives_up(id);
        }
        let new = TimedOut { lock, site, row, from: wait.from, to: at, ns, ran };
        let all = before.map_or(new, |one| TimedOut { to: at, ns: one.ns + ns, ran, ..one });
        self.rows[row].timed_out += 1;
        self.rows[row].timed_out_ns += at.saturating_sub(wait.began);
        thread_of(self, id, |thread| thread.timed_out = Some(all));
    }

    /// Who had what a thread has waited for until its time was over is not known any more.
    pub(super) fn gives_up(&mut self, id: u32) {
        let thread = self.threads.get_mut(&id);
        if let Some(one) = thread.and_then(|thread| thread.timed_out.take()) {
            self.rows[one.row].holder.add(State::Unknown, one.ns);
        }
    }

    /// A wait ends by a release, at a place of a thread: so the waits before it, whose time was
    /// over, were for the same.
    pub(super) fn was_for_it(&mut self, waiter: u32, ender: (u32, Site)) {
        let Some(thread) = self.threads.get_mut(&waiter) else { return };
        let Some(wait) = &thread.wait else { return };
        let (place, ran) = ((wait.lock, wait.site), thread.line.ran(wait.began));
        let process = thread.process;
        let Some(one) = thread.timed_out.take_if(|one| one.goes_on(place, ran)) else { return };
        let all = (one.to - one.from).max(1);
        let mut parts = self.had((process, one.lock), (one.from, one.to), one.site);
        let scale = |ns: u64| u128::from(ns) * u128::from(one.ns) / u128::from(all);
        parts.iter_mut().for_each(|(_, ns)| *ns = u64::try_from(scale(*ns)).unwrap_or(*ns));
        let rest = one.ns - parts.iter().map(|(_, ns)| ns).sum::<u64>();
        parts.first_mut().into_iter().for_each(|(_, ns)| *ns += rest);
        let mut wait = Wait::new(one.lock, one.site, false, one.from);
        wait.is_known_to(one.to, parts);
        let row = &mut self.rows[one.row];
        row.ended_by(ender, (0, one.ns));
        row.take(&wait, one.to, self.limits.reasons);
    }

    /// The state of a thread changes; another thread may have ended a sleep, at a place.
    pub(super) fn turn(&mut self, at: u64, id: u32, state: State, ender: Option<(u32, Site)>) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        if state != State::Running && state != State::Preempted {
            thread.wakes = None;
        }
        let before = (thread.line.state(), thread.line.since());
        let starved = self.starved.entry(thread.process).or_default();
        if before.0 == State::Preempted {
            *starved = starved.saturating_sub(1);
        }
        *starved += u32::from(state == State::Preempted);
        thread.line.turn(at, state, thread.wait.is_some(), ender);
        if let (State::Asleep(reason, site), from) = before {
            let look_ns = std::mem::take(&mut thread.look_ns);
            let to = thread.line.since();
            let sleep = Sleep { reason, site, from, to, ender, look_ns };
            let may_be_told = look_ns > 0 || (reason, site) == Default::default();
            match may_be_told {
                _ if to == from || self.is_by_looks => {}
                false => self.slept(id, sleep),
                true => {
                    thread.untold.push_back(sleep);
                    self.stays_untold(id, MOST_UNTOLD);
                }
            }
        }
    }

    /// What a thread has slept in since some time, or last, and who ended that, is known now.
    pub(super) fn slept_in(
        &mut self,
        id: u32,
        since: Option<u64>,
        so: (Reason, Site),
        by: Option<Mark>,
    ) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let Some(since) = since.or_else(|| thread.line.last_off()) else { return };
        thread.line.slept(since, State::Asleep(so.0, so.1), by);
        let mut all: Option<Sleep> = None;
        while let Some(one) = thread.untold.pop_back_if(|one| lies_since(since, (one.from, one.to)))
        {
            let later =
                all.map_or(one, |all| Sleep { from: all.from - (one.to - one.from), ..all });
            all = Some(Sleep {
                reason: so.0,
                site: so.1,
                look_ns: 0,
                ender: by.or(later.ender),
                ..later
            });
        }
        all.into_iter().for_each(|sleep| self.slept(id, sleep));
    }

    /// A look has found for whom a thread sleeps: that goes for the time since that one has not
    /// slept for the same any more, and the one of the look before for the time before.
    pub(super) fn sleeps_for(&mut self, at: u64, id: u32, by: u32) {
        let Some(thread) = self.threads.get(&id) else { return };
        let State::Asleep(reason, site) = thread.line.state() else { return };
        let (told, before) = (thread.slept_for.1, thread.slept_for.2);
        let from = thread.line.since().max(told).min(at);
        let mut since = from;
        if let Some(holder) = self.threads.get(&by) {
            holder.line.during(from, at, |_, to, state, _| {
                let is_same = matches!(state, State::Asleep(of, _) if of == reason);
                since = if is_same { to } else { since };
            });
        }
        let is_new = from > told;
        let mut parts = self.did(by, since, at, site);
        if !is_new {
            parts.extend(self.did(before, from, since, site));
        }
        thread_of(self, id, |thread| {
            if is_new {
                thread.slept_for.0.clear();
            }
            for (chain, ns) in parts {
                // A sleep may go on for ever.
                let has_room = thread.slept_for.0.len() < MOST_UNTOLD;
                let chain = if has_room { chain } else { Vec::new() };
                *thread.slept_for.0.entry(chain).or_default() += ns;
            }
            (thread.slept_for.1, thread.slept_for.2) = (at, by);
        });
    }

    /// The sleeps of a thread, but for the last ones, are known by looks only.
    pub(super) fn stays_untold(&mut self, id: u32, but: usize) {
        while let Some(thread) = self.threads.get_mut(&id)
            && thread.untold.len() > but
            && let Some(sleep) = thread.untold.pop_front()
        {
            self.slept(id, sleep);
        }
    }

    /// A thread has slept, in no wait on a word.
    fn slept(&mut self, id: u32, Sleep { reason, site, from, to, ender, look_ns }: Sleep) {
        let ns = to - from;
        let waker = ender.and_then(|(by, _)| self.threads.get(&by));
        let is_handed_on = waker.is_some_and(|waker| waker.comes_from(site));
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let is_looked_at = (from..=to).contains(&thread.slept_for.1);
        let looked =
            if is_looked_at { std::mem::take(&mut thread.slept_for.0) } else { BTreeMap::new() };
        let is_for_nothing = thread.has_done_nothing(site, to);
        if ender.is_some() {
            thread.was_woken(site, to);
        }
        let key = Key { process: thread.process, lock: 0, site, reason: Some(reason) };
        // Where only looks tell sleeps apart, one that no look has found is known by its time only.
        if (reason, site) == Default::default() {
            return;
        }
        let mut wait = Wait::new(0, site, false, from);
        let ender_told = ender.filter(|(by, _)| self.threads.contains_key(by));
        // Looks now and then tell of the whole sleep.
        let seen: u64 = looked.values().sum();
        match ender_told {
            _ if seen * 8 > ns => {
                let whole = |(chain, part): Part| {
                    let part = u128::from(part) * u128::from(ns) / u128::from(seen);
                    (chain, u64::try_from(part).unwrap_or(ns))
                };
                wait.is_known_to(to, looked.into_iter().map(whole).collect());
            }
            Some((by, _)) => wait.is_known_to(to, self.did(by, from, to, site)),
            None => {}
        }
        let index = self.row(key);
        let row = &mut self.rows[index];
        row.stall(id, ns);
        ender.into_iter().for_each(|ender| row.ended_by(ender, (1, ns)));
        row.take(&wait, to, self.limits.reasons);
        row.handed_on += u64::from(is_handed_on);
        row.for_nothing += u64::from(is_for_nothing);
        let is_together = to.saturating_sub(row.last_ended) < MOMENT_NS;
        row.in_crowd += u64::from(is_together);
        row.bursts += u64::from(!is_together);
        row.last_ended = to;
        if look_ns > 0 {
            let (sum, count) = row.looked.unwrap_or_default();
            row.looked = Some((sum + ns.max(look_ns), count + (look_ns / ns).max(1)));
        }
    }

    pub(super) fn woken(&mut self, at: u64, id: u32, ender: (u32, Site)) {
        let waker = self.threads.get(&ender.0);
        let wakes = waker.and_then(|waker| waker.wakes);
        let site = self.threads.get(&id).and_then(|thread| Some(thread.wait.as_ref()?.site));
        let is_handed_on = site.is_some_and(|site| waker.is_some_and(|one| one.comes_from(site)));
        let Some(thread) = self.threads.get(&id) else { return };
        // No call has said that it ends the wait, but a thread has ended it. Who ends a wait for a
        // lock in this way, as by a signal, is not its holder.
        let is_told = |wait: &Wait| wait.is_woken || wait.is_lock || wakes == Some(wait.lock);
        let wait = thread.wait.as_ref().filter(|wait| !is_told(wait) && waker.is_some());
        let rest = wait.map(|wait| (wait.from, wait.site));
        let parts = rest.map(|(from, site)| self.did(ender.0, from, at.max(from), site));
        let Some(thread) = self.threads.get_mut(&id) else { return };
        if let Some(wait) = &mut thread.wait {
            wait.is_woken |= wakes == Some(wait.lock);
            wait.is_late |= parts.is_some();
            parts.into_iter().for_each(|parts| wait.is_known_to(at, parts));
            wait.woken_by(ender);
            wait.is_handed_on = is_handed_on;
        }
        // A thread that is woken before it has given up its processor goes on running.
        if thread.line.state().sleeps() || thread.line.state() == State::Unknown {
            self.turn(at, id, State::Preempted, Some(ender));
        }
    }

    pub(super) fn wait(&mut self, at: u64, id: u32, (lock, site, is_lock): (u64, Site, bool)) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let link = word(thread.process, lock);
        let waits_on = |(wait, _): &(Wait, u64)| (wait.lock, wait.site) == (lock, site);
        let is_lost = thread.ended.as_ref().is_some_and(waits_on);
        if is_lost && let Some((mut wait, _)) = thread.ended.take() {
            (wait.is_woken, wait.is_late, wait.slept) = (false, false, false);
            wait.lost += 1;
            thread.wakes = None;
            thread.wait = Some(wait);
            self.locks.entry(link).or_default().rejoins(id);
        } else {
            self.commit(id);
            let Some(thread) = self.threads.get_mut(&id) else { return };
            thread.got.retain(|(got, ..)| *got != lock);
            thread.wakes = None;
            let mut wait = Wait::new(lock, site, is_lock, at);
            wait.is_for_nothing = thread.has_done_nothing(site, at);
            thread.wait = Some(wait);
            let ran = thread.line.ran(at);
            let goes_on =
                thread.timed_out.as_ref().is_some_and(|one| one.goes_on((lock, site), ran));
            self.locks.entry(link).or_default().joins(id, at, goes_on);
        }
        // A source that does not know when threads sleep may have taken it to sleep already.
        if let Some(thread) = self.threads.get_mut(&id)
            && let State::Asleep(..) = thread.line.state()
        {
            thread.line.turn(at, State::Waiting(lock, site), true, None);
        }
    }

    pub(super) fn wait_end(&mut self, at: u64, id: u32, has_it: bool) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let (process, Some(mut wait)) = (thread.process, thread.wait.take()) else { return };
        // It tells that itself, so it runs.
        if let State::Waiting(..) = thread.line.state() {
            thread.line.turn(at, State::Running, true, None);
        }
        if let Some(lock) = self.locks.get_mut(&word(process, wait.lock)) {
            lock.leaves(id, at, has_it || wait.is_woken || !wait.slept);
        }
        // The word had another value, so the call returned at once.
        if !wait.slept && !has_it && wait.lost == 0 {
            return;
        }
        // With the release told, the rest of the wait is known to be late.
        wait.is_late |= wait.is_woken || (has_it && wait.from > wait.began);
        let may_be_gone = wait.is_lock && !has_it;
        wait.is_woken |= has_it;
        thread_of(self, id, |thread| thread.ended = Some((wait, at)));
        if !may_be_gone {
            self.commit(id);
        }
    }

    /// A wait that has ended is over: its thread has the lock, or does something else.
    pub(super) fn commit(&mut self, id: u32) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let Some((mut wait, at)) = thread.ended.take() else { return };
        let process = thread.process;
        let lock = wait.lock & !SHARED;
        let index = self.row(Key { process, lock, site: wait.site, reason: None });
        let rest = at.saturating_sub(wait.from);
        match wait.is_late || wait.ender.is_some_and(|(by, _)| by != 0) {
            true if wait.is_late => wait.holder.add(State::Late, rest),
            true => wait.holder.add(State::Unknown, rest),
            false => self.times_out(id, (index, &wait), at),
        }
        let row = &mut self.rows[index];
        if let Some(ender) = wait.ender {
            wait.released_by(ender, at);
            row.ended_by(ender, (1, 0));
        }
        wait.releasers.iter().for_each(|(by, ns)| row.ended_by(*by, (0, *ns)));
        row.stall(id, at.saturating_sub(wait.began));
        row.handed_on += u64::from(wait.is_handed_on);
        row.take(&wait, at, self.limits.reasons);
        thread_of(self, id, |thread| {
            if wait.is_woken {
                thread.gets(wait.lock, index, at);
            }
            if wait.ender.is_some() {
                thread.was_woken(wait.site, at);
            }
        });
    }
}

fn thread_of(analysis: &mut Analysis, id: u32, change: impl FnOnce(&mut Thread)) {
    if let Some(thread) = analysis.threads.get_mut(&id) {
        change(thread);
    }
}
