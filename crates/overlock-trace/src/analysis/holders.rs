//! Which threads have locks, and what these do while others wait.

use super::engine::{Analysis, LONGEST_CHAIN, word};
use super::event::Wakes;
use super::lock::Had;
use super::state::{Link, Site, State};

impl Analysis {
    pub(super) fn takes(&mut self, at: u64, id: u32, address: u64) {
        self.commit(id);
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.got.retain(|(got, ..)| *got != address);
        if let Some(lock) = self.locks.get_mut(&word(thread.process, address)) {
            lock.takes(id, at);
        }
    }

    pub(super) fn wake(&mut self, at: u64, id: u32, lock: u64, how: Wakes) {
        self.commit(id);
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.wakes = Some(lock);
        let got = thread.got.iter().position(|(got, ..)| *got == lock);
        if let Some((_, row, since)) = got.and_then(|got| thread.got.remove(got)) {
            self.rows[row].relays += 1;
            self.rows[row].hold_ns.record(at.saturating_sub(since));
        }
        self.held(at, id, lock, Some(how));
    }

    /// A thread is known to have had a lock until now: splits the time of all its waiters.
    pub(super) fn held(&mut self, at: u64, holder: u32, address: u64, release: Option<Wakes>) {
        let Some(process) = self.threads.get(&holder).map(|thread| thread.process) else { return };
        let Some(lock) = self.locks.get_mut(&word(process, address)) else { return };
        if lock.waiters.is_empty() || lock.is_known_to(at) {
            return;
        }
        lock.held_until(holder, at, release.is_some());
        let lock = &self.locks[&word(process, address)];
        let is_crowd = release.is_some_and(|how| how.all) && lock.waiters.len() > 1;
        for waiter in &lock.waiters {
            let Some(wait) = self.threads.get(waiter).and_then(|thread| thread.wait.as_ref())
            else {
                continue;
            };
            let (from, site, is_woken) = (wait.from, wait.site, wait.is_woken);
            let mut parts = Vec::new();
            if !is_woken {
                let mut chain = Vec::new();
                self.split((process, address, site), from, at, &mut chain, &mut parts);
            }
            let wait = self.threads.get_mut(waiter).and_then(|thread| thread.wait.as_mut());
            let Some(wait) = wait.filter(|_| !is_woken) else { continue };
            wait.is_known_to(at, parts);
            if let Some(how) = release {
                wait.released_by((holder, how.site), at);
                wait.in_crowd |= is_crowd;
                if how.by_reader {
                    wait.sees_reader(holder, at);
                }
            }
        }
    }

    /// The memory of a lock has said whether it is free.
    pub(super) fn seen(&mut self, id: u32, address: u64, is_free: bool) {
        let Some(process) = self.threads.get(&id).map(|thread| thread.process) else { return };
        let Some(lock) = self.locks.get(&word(process, address)) else { return };
        for waiter in &lock.waiters {
            let thread = self.threads.get_mut(waiter);
            if let Some(wait) = thread.and_then(|thread| thread.wait.as_mut()) {
                wait.looks += 1;
                wait.found_free += u64::from(is_free);
            }
        }
    }

    /// Splits the time between two points by what the holders of a lock did, for a thread that
    /// waits at a place. One that waits there itself is no holder, but the next in a line: threads
    /// of some runtimes have a word each.
    fn split(
        &self,
        (process, address, site): (u32, u64, Site),
        from: u64,
        to: u64,
        chain: &mut Vec<(u32, u64)>,
        parts: &mut Vec<(Link, u64)>,
    ) {
        let link = word(process, address);
        let lock = self.locks.get(&link);
        let length = to.saturating_sub(from);
        if chain.contains(&link) {
            return parts.push((State::Waiting(address, site).into(), length));
        }
        let Some(lock) = lock.filter(|_| chain.len() < LONGEST_CHAIN) else {
            return parts.push((State::Unknown.into(), length));
        };
        chain.push(link);
        lock.during(from, to, |from, to, had| {
            let holder = match had {
                None => return parts.push((State::Unknown.into(), to - from)),
                Some(Had::Free) => return parts.push((State::Late.into(), to - from)),
                Some(Had::By(holder)) => self.threads.get(&holder),
            };
            let Some(holder) = holder else {
                return parts.push((State::Unknown.into(), to - from));
            };
            let process = holder.process;
            holder.line.during(from, to, |from, to, state| {
                let State::Waiting(lock, at) = state else {
                    return parts.push((state.into(), to - from));
                };
                let mut inner = Vec::new();
                self.split((process, lock, at), from, to, chain, &mut inner);
                let is_line = at == site && site != Site(0) && lock != address;
                let behind = |(part, ns): (Link, u64)| match is_line {
                    true => (part, ns),
                    false => (Link { via: Some(at), end: part.end }, ns),
                };
                parts.extend(inner.into_iter().map(behind));
            });
        });
        chain.pop();
    }
}
