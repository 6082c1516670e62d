//! Whether a program waits for locks at all, and for which, according to its counters.

use std::collections::BTreeMap;

use overlock_results::units::counted;

/// Counters of waits for locks that the preload library replaces, and their names.
const REPLACED: [(&[&str], &str); 5] = [
    (&["mutex.locks_contended", "mutex.timed"], "mutexes"),
    (&["cond.waits", "cond.timed"], "condition variables"),
    (&["rwlock.waits"], "read-write locks"),
    (&["spin.locks_contended"], "spin locks"),
    (&["barrier.waits"], "barriers"),
];

/// Counters of waits for those that it doesn't, and their names. For libc's own mutexes and
/// condition variables, only the calls are counted.
const UNREPLACED: [(&str, &str, &str); 5] = [
    ("unreplaced.semaphore_waits", "semaphores", "wait"),
    ("barrier.handed_to_libc", "barriers that processes share", "wait"),
    ("rwlock.handed_to_libc", "read-write locks that processes share", "wait"),
    ("mutex.handed_to_libc", "mutexes that are process-shared, robust or priority-aware", "call"),
    ("cond.handed_to_libc", "condition variables of such mutexes", "call"),
];

#[derive(Debug, Default)]
pub struct Waits {
    pub lock: String,
    /// Nothing if none were taken.
    counters: Option<BTreeMap<String, u64>>,
    /// Why some processes counted nothing.
    pub blind: Vec<String>,
}

impl Waits {
    /// Takes the counters of a run under `lock`, and why some processes counted nothing.
    pub fn new(lock: String, counters: Option<BTreeMap<String, u64>>, blind: Vec<String>) -> Self {
        Waits { lock, counters, blind }
    }

    /// Returns the counters of `lock`, if that is the one that was counted.
    pub fn of(&self, lock: &str) -> BTreeMap<String, u64> {
        let own = self.counters.as_ref().filter(|_| self.lock == lock);
        own.cloned().unwrap_or_default()
    }

    /// Returns how often a thread waited for a lock that can be replaced; nothing if that is not
    /// known, because some processes counted nothing, and the others did not wait.
    pub fn replaced(&self) -> Option<u64> {
        let counters = self.counters.as_ref()?;
        let count = REPLACED.iter().map(|(names, _)| sum(counters, names)).sum();
        (count > 0 || self.blind.is_empty()).then_some(count)
    }

    pub fn replaceable() -> String {
        let (last, others) = REPLACED.split_last().expect("there are some");
        let others = others.iter().map(|(_, what)| *what).collect::<Vec<_>>();
        format!("{} and {}", others.join(", "), last.1)
    }

    /// Returns how often threads waited for locks that can be replaced, by kind.
    pub fn kinds(&self) -> Vec<String> {
        let counters = self.counters.clone().unwrap_or_default();
        let each = REPLACED.iter().map(|(names, what)| (sum(&counters, names), what));
        each.filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{what} ({})", counted(count, "wait")))
            .collect()
    }

    /// Returns how often threads waited for locks that can't, by kind.
    pub fn unreplaced(&self) -> Vec<String> {
        let count = |name| self.counters.as_ref().and_then(|counters| counters.get(name));
        let each = UNREPLACED.iter().filter_map(|(name, what, unit)| {
            Some((count(*name).filter(|count| **count > 0)?, what, unit))
        });
        each.map(|(count, what, unit)| format!("{what} ({})", counted(*count, unit))).collect()
    }

    /// Returns whether the latter waits are much more frequent: then they are what matters.
    pub fn are_mostly_unreplaced(&self) -> bool {
        let count = |name: &str| self.counters.as_ref().and_then(|counters| counters.get(name));
        let is_wait = |(_, _, unit): &&(_, _, &str)| *unit == "wait";
        let names = UNREPLACED.iter().filter(is_wait).map(|(name, _, _)| *name);
        let unreplaced: u64 = names.filter_map(count).sum();
        self.replaced().is_some_and(|replaced| unreplaced > 10 * replaced)
    }
}

fn sum(counters: &BTreeMap<String, u64>, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| counters.get(*name)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(counters: &[(&str, u64)]) -> Waits {
        let counters = counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Waits::new("hybrid".into(), Some(counters), Vec::new())
    }

    #[test]
    fn only_waits_for_what_is_replaced_count() {
        assert_eq!(Waits::default().replaced(), None);
        assert_eq!(waits(&[("mutex.handed_to_libc", 4), ("cond.wakes", 2)]).replaced(), Some(0));
        assert_eq!(waits(&[("mutex.timed", 4), ("rwlock.waits", 2)]).replaced(), Some(6));
    }

    #[test]
    fn nothing_is_claimed_where_a_process_counted_nothing() {
        let blind =
            |count| Waits { blind: vec!["x".into()], ..waits(&[("spin.locks_contended", count)]) };
        assert_eq!((blind(0).replaced(), blind(2).replaced()), (None, Some(2)));
    }

    #[test]
    fn what_is_not_replaced_is_named() {
        let waits = waits(&[("unreplaced.semaphore_waits", 12), ("mutex.locks_contended", 1)]);
        assert_eq!(waits.unreplaced(), ["semaphores (12 waits)"]);
        assert!(waits.are_mostly_unreplaced());
        assert!(!Waits::default().are_mostly_unreplaced());
        assert!(Waits::replaceable().starts_with("mutexes, condition variables, "));
        assert!(Waits::replaceable().ends_with(" and barriers"));
    }
}
