//! Which threads have locks, or end other waits, and what these do while others wait.

use super::chain::{Link, Part};
use super::engine::{Analysis, LONGEST_CHAIN, word};
use super::event::Wakes;
use super::lock::Had;
use super::state::{Site, State};

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
        let waiters = std::mem::take(&mut lock.waiters);
        let is_crowd = release.is_some_and(|how| how.all) && waiters.len() > 1;
        for waiter in &waiters {
            let wait = self.threads.get(waiter).and_then(|thread| thread.wait.as_ref());
            let Some(wait) = wait.filter(|wait| !wait.is_woken) else { continue };
            let (from, site) = (wait.from, wait.site);
            let is_handed_on = self.threads.get(&holder).is_some_and(|one| one.comes_from(site));
            let parts = self.had((process, address), (from, at.max(from)), site);
            if let Some(how) = release {
                self.was_for_it(*waiter, (holder, how.site));
            }
            let wait = self.threads.get_mut(waiter).and_then(|thread| thread.wait.as_mut());
            let Some(wait) = wait else { continue };
            wait.is_known_to(at, parts);
            if let Some(how) = release {
                wait.released_by((holder, how.site), at);
                wait.is_handed_on = is_handed_on;
                wait.in_crowd |= is_crowd;
                if how.by_reader {
                    wait.sees_reader(holder, at);
                }
            }
        }
        if let Some(lock) = self.locks.get_mut(&word(process, address)) {
            lock.waiters = waiters;
        }
    }

    /// Returns what the holders of a word did between two points, for a waiter at a place.
    pub(super) fn had(&self, word: (u32, u64), span: (u64, u64), site: Site) -> Vec<Part> {
        let mut walk = Walk::new(self);
        walk.word(word, span, (site, 0));
        walk.parts
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

    /// Returns what a thread did between two points that ended the wait of another one at a place.
    pub(super) fn did(&self, ender: u32, from: u64, to: u64, site: Site) -> Vec<Part> {
        let mut walk = Walk::new(self);
        walk.thread(ender, (from, to), (site, 0));
        walk.parts
    }
}

/// A walk along threads that waited for each other, to the end of each chain.
struct Walk<'a> {
    analysis: &'a Analysis,
    /// The words for which they waited.
    words: Vec<(u32, u64)>,
    depth: usize,
    chain: Vec<Link>,
    parts: Vec<Part>,
}

impl<'a> Walk<'a> {
    fn new(analysis: &'a Analysis) -> Self {
        Walk { analysis, words: Vec::new(), depth: 0, chain: Vec::new(), parts: Vec::new() }
    }

    fn ends(&mut self, link: Link, ns: u64) {
        let mut chain = self.chain.clone();
        chain.push(link);
        self.parts.push((chain, ns));
    }

    /// Splits the time between two points by what the holders of a word did, for a thread that
    /// waits at a place. Where none is known, the one that ended the wait counts.
    fn word(
        &mut self,
        (process, address): (u32, u64),
        (from, to): (u64, u64),
        (site, ender): (Site, u32),
    ) {
        let link = word(process, address);
        let waiter = (site, address);
        let Some(lock) = self.analysis.locks.get(&link) else {
            return self.thread(ender, (from, to), waiter);
        };
        self.words.push(link);
        lock.during(from, to, |from, to, had| match had {
            None => self.thread(ender, (from, to), waiter),
            Some(Had::By(holder)) => self.thread(holder, (from, to), waiter),
            Some(Had::Free) => {
                self.ends(Link { state: State::Late, ..Link::default() }, to - from);
            }
        });
        self.words.pop();
    }

    /// Splits the time between two points by what a thread did. One that waits at the place of the
    /// waiter is no link of the chain, but the next in a line: threads of some runtimes have a word
    /// each, and threads that hand on a token wait for it by turns.
    fn thread(&mut self, id: u32, (from, to): (u64, u64), (site, address): (Site, u64)) {
        let thread = self.analysis.threads.get(&id).filter(|_| self.depth < LONGEST_CHAIN);
        let Some(thread) = thread else {
            return self.ends(Link::default(), to.saturating_sub(from));
        };
        self.depth += 1;
        thread.line.during(from, to, |from, to, state, (ender, place)| {
            let link = |state, site| Link { thread: id, state, site };
            let length = self.chain.len();
            let is_line = |at: Site| at == site && site != Site(0);
            match state {
                State::Waiting(lock, at) => {
                    let link = link(State::Waiting(0, at), Site(0));
                    if self.words.contains(&word(thread.process, lock)) {
                        return self.ends(link, to - from);
                    }
                    let is_line = is_line(at) && lock != address;
                    self.chain.extend((!is_line).then_some(link));
                    self.word((thread.process, lock), (from, to), (at, ender));
                }
                State::Asleep(_, at)
                    if ender != id && self.analysis.threads.contains_key(&ender) =>
                {
                    self.chain.extend((!is_line(at)).then_some(link(state, Site(0))));
                    self.thread(ender, (from, to), (at, 0));
                }
                State::Running => self.ends(link(state, place), to - from),
                state => self.ends(link(state, Site(0)), to - from),
            }
            self.chain.truncate(length);
        });
        self.depth -= 1;
    }
}
