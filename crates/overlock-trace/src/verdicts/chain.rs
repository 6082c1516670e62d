//! For whom threads waited, what these did meanwhile, and for whom they waited themselves.

use super::finding::Finding;
use super::naming::Step;
use crate::analysis::State;
use std::collections::BTreeMap;

/// The parts of a wait that are followed: for each chain, the steps that are left, and the time.
type Left<'a> = Vec<(&'a [Step], u64)>;

/// Returns the values that parts have, and for how long, the longest first.
fn sums<'a, K: Ord>(left: &Left<'a>, of: impl Fn(&'a Step) -> K) -> Vec<(K, u64)> {
    let mut sums: BTreeMap<K, u64> = BTreeMap::new();
    for (steps, ns) in left {
        if let Some(step) = steps.first() {
            *sums.entry(of(step)).or_default() += ns;
        }
    }
    let mut sums: Vec<(K, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    sums
}

/// Returns a step without its thread, and without its place unless it waited there for a word: at
/// how many places threads run or sleep is no matter.
fn deed(step: &Step) -> (State, bool, &str, &str) {
    let place = if let State::Waiting(..) = step.state { &*step.place } else { "" };
    (step.state, step.is_circle, &step.what, place)
}

impl Finding {
    /// Follows who ended the waits here, as long as one thing that threads did, or one thread,
    /// explains three fifths of the time of the last step, and half of all. Returns what each
    /// thread did for how long, the longest first: one thing, or several if it is the last one.
    #[must_use]
    pub fn followed(&self) -> Vec<Vec<(Step, u64)>> {
        let mut left: Left<'_> = self.chains.iter().map(|(all, ns)| (&all[..], *ns)).collect();
        let (all, mut whole, mut told) = (self.row.waited_ns, self.row.waited_ns, Vec::new());
        loop {
            let is_enough = |ns: u64| ns > 0 && ns * 5 >= whole * 3 && ns * 2 >= all;
            let one = sums(&left, deed).first().copied().filter(|(_, ns)| is_enough(*ns));
            if let Some((did, _)) = one {
                left.retain(|(steps, _)| steps.first().map(deed) == Some(did));
            }
            let threads = sums(&left, |step| step.thread.as_str());
            let known = threads.iter().find(|(name, _)| !name.is_empty()).copied();
            let (thread, longest) = known.unwrap_or_default();
            let is_one = is_enough(longest);
            let count = threads.iter().filter(|(name, _)| !name.is_empty()).count();
            let threads = if is_one { 1 } else { count };
            if one.is_none() && !is_one {
                // At least what the first ones did is told, in its largest parts.
                let parts = sums(&left, |step| (deed(step), step.place.as_str())).into_iter();
                let is_known = |state| !matches!(state, State::Unknown | State::Late);
                let parts =
                    parts.filter(|(((state, ..), _), ns)| is_known(*state) && ns * 10 >= all);
                let parts: Vec<_> = parts
                    .take(3)
                    .map(|(((state, is_circle, what, _), place), ns)| {
                        let (thread, what) = (thread.to_owned(), what.to_owned());
                        let place = place.to_owned();
                        (Step { thread, threads, state, is_circle, what, place }, ns)
                    })
                    .collect();
                told.extend(Some(parts).filter(|parts| told.is_empty() && !parts.is_empty()));
                return told;
            }
            if one.is_none() {
                left.retain(|(steps, _)| steps.first().is_some_and(|step| step.thread == thread));
            }
            let parts = sums(&left, deed).into_iter().filter(|(_, ns)| ns * 10 >= all).take(3);
            let did = parts.map(|(did, ns)| {
                let places = sums(&left, |step| (deed(step) == did, step.place.as_str()));
                let place = places.iter().find(|((is_it, at), _)| *is_it && !at.is_empty());
                let (place, what) = (place.map_or("", |one| one.0.1).to_owned(), did.2.to_owned());
                let (state, is_circle) = (did.0, did.1);
                (Step { thread: thread.to_owned(), threads, state, is_circle, what, place }, ns)
            });
            told.push(did.collect());
            let Some((_, ns)) = one else { return told };
            whole = ns;
            left = left.iter().map(|(steps, ns)| (&steps[1..], *ns)).collect();
        }
    }

    /// Returns the thread for which others wait here while it has no processor, because threads
    /// come first that are more urgent, and how urgent it is.
    #[must_use]
    pub fn outranked(&self) -> Option<Step> {
        let (last, _) = self.followed().pop()?.into_iter().next()?;
        (last.state == State::Preempted && !last.what.is_empty()).then_some(last)
    }

    /// Returns whether it is known for whom threads wait here.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        let first = self.followed().into_iter().next().and_then(|did| did.into_iter().next());
        let is_known = |step: &Step| {
            !step.thread.is_empty() || !matches!(step.state, State::Unknown | State::Late)
        };
        first.is_some_and(|(step, _)| is_known(&step))
    }

    /// Returns the thread that took the lock again each time before those that it had woken, if it
    /// is one.
    #[must_use]
    pub fn taken_again_by(&self) -> Option<&str> {
        let mut by_thread: BTreeMap<&str, u64> = BTreeMap::new();
        for (by, ns) in &self.enders {
            *by_thread.entry(by.rsplit(", ").next().unwrap_or(by)).or_default() += ns;
        }
        let all: u64 = by_thread.values().sum();
        let (thread, ns) = by_thread.into_iter().max_by_key(|(_, ns)| *ns)?;
        (self.row.lost >= self.row.waits && ns * 5 > all * 4).then_some(thread)
    }

    /// Returns for how long threads waited for each other.
    #[must_use]
    pub fn circle_ns(&self) -> u64 {
        let is_circle = |steps: &[Step]| steps.last().is_some_and(|step| step.is_circle);
        self.chains.iter().filter(|(steps, _)| is_circle(steps)).map(|(_, ns)| ns).sum()
    }
}
