// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much CPU time the running vCPUs have had: which lags most and which is furthest ahead, at
//! any moment, without asking each.
//!
//! The virtual time of an owner grows as it runs, so it is no key for a tree. But of two owners of
//! equal weight, the one that is ahead stays ahead by the same amount. If `t` was the virtual time
//! when it was last accounted, at `since`, and `w` is the weight, then at `now` it is
//!
//! ```text
//! t + ⌊(now - since)·2²⁰ / w⌋ = ⌊(now·2²⁰ + b) / w⌋   where b = t·w - since·2²⁰
//! ```
//!
//! which grows with `b`, and `b` stays constant. So each weight has [tournaments](Tournament) over
//! `b`, and a query asks each weight that is in use.
//!
//! Invariants: O1, the owner of a pCPU is in the tournaments of its weight, and in no others; O2,
//! the list of owners by their time of entry is in ascending order.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::num::NonZeroU32;

use super::tournament::Tournament;
use super::vcpu::{Record, VirtualTime};
use crate::host::{Nanos, Pcpu};

/// The owners of one weight.
#[derive(Debug)]
struct Class {
    weight: NonZeroU32,
    all: Tournament<i128>,
    /// The owners that entered recently: see [`Owners::least_recent`].
    recent: Tournament<i128>,
    /// The owners that have not been asked to come out; the one furthest ahead wins.
    staying: Tournament<Reverse<i128>>,
}

impl Class {
    fn new(weight: NonZeroU32, pcpus: usize) -> Self {
        let (all, recent) = (Tournament::new(pcpus), Tournament::new(pcpus));
        Self { weight, all, recent, staying: Tournament::new(pcpus) }
    }

    fn clear(&mut self, place: usize) {
        self.all.set(place, None);
        self.recent.set(place, None);
        self.staying.set(place, None);
    }

    /// The virtual time at `now` of the owner that has this `b`.
    fn time(&self, now: Nanos, b: i128) -> VirtualTime {
        let scaled = (i128::from(now.0) << 20) + b;
        VirtualTime((scaled / i128::from(self.weight.get())).max(0) as u128)
    }
}

/// The state of the owner of one pCPU.
#[derive(Clone, Copy, Debug)]
struct Owner {
    class: usize,
    b: i128,
    entered: Nanos,
    /// Whether it counts as recent, and is therefore in the list.
    recent: bool,
    before: Option<usize>,
    after: Option<usize>,
}

/// The owners of all pCPUs.
#[derive(Debug)]
pub(super) struct Owners {
    owners: Vec<Option<Owner>>,
    classes: Vec<Class>,
    /// The first and last entries of the list of recent owners.
    ends: Option<(usize, usize)>,
}

impl Owners {
    /// No owners of `pcpus` pCPUs, with room for owners of `weight`.
    pub(super) fn new(pcpus: u32, weight: NonZeroU32) -> Self {
        let pcpus = pcpus as usize;
        Self { owners: vec![None; pcpus], classes: vec![Class::new(weight, pcpus)], ends: None }
    }

    /// Makes room for owners of this weight.
    pub(super) fn admit(&mut self, weight: NonZeroU32) {
        if self.classes.iter().all(|class| class.weight != weight) {
            self.classes.push(Class::new(weight, self.owners.len()));
        }
    }

    /// Records that the vCPU of `record` owns `pcpu` from `now` on.
    pub(super) fn enter(&mut self, pcpu: Pcpu, record: &Record, now: Nanos) {
        let place = pcpu.index();
        let before = self.ends.map(|(_, last)| last);
        let owner = Owner { class: 0, b: 0, entered: now, recent: true, before, after: None };
        self.owners[place] = Some(owner);
        if let Some(last) = before.and_then(|last| self.owners[last].as_mut()) {
            last.after = Some(place);
        }
        self.ends = Some((self.ends.map_or(place, |(first, _)| first), place));
        self.account(pcpu, record, true);
    }

    /// Records that `pcpu` has no owner any more.
    pub(super) fn leave(&mut self, pcpu: Pcpu) {
        let place = pcpu.index();
        self.forget(place);
        if let Some(owner) = self.owners[place].take() {
            self.classes[owner.class].clear(place);
        }
    }

    /// Records that the owner of `pcpu` has been accounted, has another weight, or now `stays` or
    /// not.
    pub(super) fn account(&mut self, pcpu: Pcpu, record: &Record, stays: bool) {
        let place = pcpu.index();
        let Some(owner) = &mut self.owners[place] else { return };
        let weight = record.weight;
        self.classes[owner.class].clear(place);
        owner.class = self.classes.iter().position(|class| class.weight == weight).unwrap_or(0);
        // Both are below 2¹²⁰: see `vcpu.rs`.
        let time = (record.time.0 as i128).saturating_mul(i128::from(weight.get()));
        owner.b = time.saturating_sub(i128::from(record.since.0) << 20);
        let class = &mut self.classes[owner.class];
        class.all.set(place, Some(owner.b));
        class.recent.set(place, owner.recent.then_some(owner.b));
        class.staying.set(place, stays.then_some(Reverse(owner.b)));
    }

    /// The virtual time of the owner that lags most.
    pub(super) fn least(&self, now: Nanos) -> Option<VirtualTime> {
        let of = |class: &Class| class.all.least().map(|b| class.time(now, b));
        self.classes.iter().filter_map(of).min()
    }

    /// The virtual time of the owner that lags most, of those that entered no longer than `span`
    /// ago. All calls must pass the same span, and `now` must never decrease.
    pub(super) fn least_recent(&mut self, now: Nanos, span: Nanos) -> Option<VirtualTime> {
        while let Some((first, _)) = self.ends
            && self.owners[first].is_some_and(|owner| now - owner.entered > span)
        {
            self.forget(first);
        }
        let of = |class: &Class| class.recent.least().map(|b| class.time(now, b));
        self.classes.iter().filter_map(of).min()
    }

    /// The owner that is furthest ahead of those that stay, the first of equals: its time and pCPU.
    pub(super) fn furthest(&self, now: Nanos) -> Option<(VirtualTime, Pcpu)> {
        let of = |class: &Class| class.staying.least().map(|Reverse(b)| class.time(now, b));
        let most = self.classes.iter().filter_map(of).max()?;
        let at = |class: &Class| class.staying.first(|Reverse(b)| class.time(now, b) >= most);
        let place = self.classes.iter().filter_map(at).min()?;
        Some((most, Pcpu(place as u32)))
    }

    /// Drops the owner of the pCPU at `place` from the recent ones.
    fn forget(&mut self, place: usize) {
        let Some(owner) = self.owners[place].as_mut().filter(|owner| owner.recent) else { return };
        owner.recent = false;
        let (class, before, after) = (owner.class, owner.before.take(), owner.after.take());
        self.classes[class].recent.set(place, None);
        if let Some(before) = before.and_then(|at| self.owners[at].as_mut()) {
            before.after = after;
        }
        if let Some(after) = after.and_then(|at| self.owners[at].as_mut()) {
            after.before = before;
        }
        self.ends = self.ends.and_then(|(first, last)| {
            let first = if first == place { after? } else { first };
            Some((first, if last == place { before? } else { last }))
        });
    }
}
