//! What was found, with names: what threads slept for and where, who ended that, loops that wait.

use super::naming::{Named, Names, Step, path};
use crate::analysis::{Report, State, WaitStats};
use crate::names::{Class, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// What threads slept for at one place.
#[derive(Clone, Debug)]
pub struct Finding {
    pub kind: Kind,
    /// What that means.
    pub class: Class,
    /// The kind, in more words where there are any.
    pub what: String,
    /// Whether the C library itself waits, in front of which another lock can be preloaded.
    pub is_libcs: bool,
    pub place: String,
    /// The functions that called it, the nearest first.
    pub callers: Vec<String>,
    /// Its process, or that of one of several processes that do the same.
    pub process: u32,
    pub processes: usize,
    /// The addresses of the words that threads waited for here.
    pub locks: BTreeSet<u64>,
    /// How long, and what the holders did.
    pub row: WaitStats,
    /// What those did, in words, who held the lock or ended the waits, for whom they waited, and so
    /// on, and for how long.
    pub chains: BTreeMap<Vec<Step>, u64>,
    /// Who ended the sleeps, and where, and how long these were.
    pub enders: BTreeMap<String, u64>,
    /// The thread that slept for longest at a time.
    pub longest_thread: String,
    /// For how long writers waited here while readers took turns, or seem to have done so, in
    /// nanoseconds.
    pub behind_readers_ns: u64,
    /// Whether the thread that had one of the locks is not there any more.
    pub is_orphan: bool,
}

/// Adds up times of the same things.
fn add<K: Ord + Clone>(sums: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    more.iter().for_each(|(what, ns)| *sums.entry(what.clone()).or_default() += ns);
}

impl Finding {
    /// Returns a place with its callers.
    #[must_use]
    pub fn path(&self) -> String {
        path(&self.place, &self.callers)
    }

    /// Returns who ended most of the time of the sleeps, and for how long these were.
    #[must_use]
    pub fn ender(&self) -> Option<(&str, u64)> {
        let most = self.enders.iter().max_by_key(|(_, ns)| **ns);
        most.map(|(who, ns)| (&**who, *ns))
    }

    /// Returns whether most of the time was spent in sleeps as long as Linux delays an
    /// acknowledgement of TCP: 40 ms (`TCP_DELACK_MIN`, include/net/tcp.h of Linux 6.18), and what
    /// both ends take meanwhile.
    #[must_use]
    pub fn is_delayed(&self) -> bool {
        const DELAY_NS: std::ops::RangeInclusive<u64> = 38_000_000..=52_000_000;
        let quantiles = (1..=100).map(|part| self.row.wait_ns.quantile(f64::from(part) / 100.0));
        let delayed = quantiles.filter(|ns| DELAY_NS.contains(ns)).count() as f64 / 100.0;
        let waits = self.row.wait_ns.count() as f64 * delayed;
        waits * *DELAY_NS.start() as f64 > self.row.waited_ns as f64 * 0.6
    }

    /// Returns findings with those of several processes at one place together, the longest first.
    #[must_use]
    pub fn together<'a>(all: impl IntoIterator<Item = &'a Finding>) -> Vec<Finding> {
        let mut places: BTreeMap<(&str, String), Finding> = BTreeMap::new();
        for one in all {
            let Some(place) = places.get_mut(&(&*one.what, one.path())) else {
                places.insert((&one.what, one.path()), one.clone());
                continue;
            };
            place.processes += usize::from(place.process != one.process);
            place.absorb(one);
        }
        let mut places: Vec<Finding> = places.into_values().collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.row.waited_ns));
        places
    }

    /// Adds what is known of another place.
    pub fn absorb(&mut self, other: &Finding) {
        if other.row.longest_ns > self.row.longest_ns {
            self.longest_thread.clone_from(&other.longest_thread);
        }
        self.locks.extend(&other.locks);
        self.row.merge(&other.row);
        self.behind_readers_ns += other.behind_readers_ns;
        self.is_orphan |= other.is_orphan;
        add(&mut self.chains, &other.chains);
        add(&mut self.enders, &other.enders);
    }
}

#[derive(Clone, Debug)]
pub struct Loop {
    pub place: String,
    pub process: u32,
    /// In how many samples it ran.
    pub samples: u64,
    /// In how many of them another thread had no processor.
    pub while_others_starved: u64,
}

/// What is known beside the threads' times.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// How often the kernel had no room for records.
    pub lost: u64,
    /// The part of all records that were of other programs, and the one that most of these were of.
    pub others: (f64, String),
    /// How long quotas have stopped threads, by the kernel's account, in nanoseconds.
    pub stopped_ns: u64,
    /// How many processors the group's quota is worth, if there is one.
    pub quota: Option<f64>,
    /// How many processors the program's threads may use.
    pub processors: usize,
    /// Whether the system hides in which calls threads sleep.
    pub is_secret: bool,
    /// Whether threads were only looked at, so that the holders of most kinds of locks are not
    /// known.
    pub is_by_looks: bool,
    /// Whether the program can preload a library.
    pub can_preload: bool,
    /// Whether the program is of a runtime whose threads of its own wait where no system call tells
    /// of it, and which one.
    pub hides: Option<&'static str>,
    /// The part of the processors' time that went into tracing.
    pub cost: f64,
}

pub(super) fn rows(report: &Report, names: &mut Names<'_>) -> Vec<Finding> {
    // Words of one place may be for several things, where the names of functions are lost.
    let mut groups: BTreeMap<(u32, Named, bool), Finding> = BTreeMap::new();
    for row in &report.rows {
        let named = names.of_row(&row.key);
        let mut chains: BTreeMap<Vec<Step>, u64> = BTreeMap::new();
        // Who waits for the same lock of a file, or at the same place of another process, stands in
        // line before this one, without it.
        let own = path(&named.place, &named.callers[..named.callers.len().min(1)]);
        let is_in_line = |step: &Step| match step.state {
            State::Waiting(..) => !step.is_circle && step.place == own,
            _ => named.kind == Kind::FileLock && step.what == named.what,
        };
        for (chain, ns) in &row.chains {
            let mut steps = names.steps(chain);
            steps.retain(|step| !is_in_line(step));
            *chains.entry(steps).or_default() += ns;
        }
        let mut enders: BTreeMap<String, u64> = BTreeMap::new();
        for ((thread, site), (_, ns)) in &row.enders {
            *enders.entry(names.thread_at(*thread, *site)).or_default() += ns;
        }
        let is_like_a_lock = match named.kind {
            Kind::Futex => names.is_like_a_lock(row.key.site, row.key.lock),
            Kind::PyLock => row.relays_like_a_lock(),
            Kind::Semaphore => Kind::Semaphore.class(row) == Class::Lock,
            _ => false,
        };
        let key = (row.key.process, named.clone(), is_like_a_lock);
        let finding = Finding {
            kind: named.kind,
            class: Class::Work,
            what: named.what,
            is_libcs: named.is_libcs,
            place: named.place,
            callers: named.callers,
            process: row.key.process,
            processes: 1,
            locks: if row.key.reason.is_none() { [row.key.lock].into() } else { [].into() },
            row: row.clone(),
            chains,
            enders,
            longest_thread: names.thread(row.longest_thread),
            behind_readers_ns: 0,
            is_orphan: names.is_orphan(&row.key),
        };
        match groups.get_mut(&key) {
            Some(group) => group.absorb(&finding),
            None => drop(groups.insert(key, finding)),
        }
    }
    for ((.., is_like_a_lock), finding) in &mut groups {
        finding.class =
            if *is_like_a_lock { Class::Lock } else { finding.kind.class(&finding.row) };
        // Of a wait that only looks have seen, the holder is not known.
        if finding.class == Class::Lock {
            let known = finding.row.holder.total();
            finding.row.holder.add(State::Unknown, finding.row.waited_ns.saturating_sub(known));
        }
        finding.behind_readers_ns = match finding.kind {
            // By tracepoints, a reader that does not wait leaves no trace but in the lock's memory,
            // while a writer that holds the lock wakes those that wait. Other sources know of no
            // such writer, or tell of readers.
            Kind::Writer if names.is_passed(finding.process, &finding.locks) => {
                finding.row.waited_ns
            }
            Kind::Writer if !names.tracer.is_looking => finding.row.holder.of(State::Unknown),
            Kind::Writer => finding.row.passed_ns,
            _ => 0,
        };
    }
    let mut rows: Vec<Finding> = groups.into_values().collect();
    rows.sort_by_key(|finding| std::cmp::Reverse(finding.row.waited_ns));
    rows
}

pub(super) fn loops(report: &Report, names: &mut Names<'_>) -> Vec<Loop> {
    let mut loops: BTreeMap<(u32, String), Loop> = BTreeMap::new();
    for spin in &report.spins {
        let place = names.place(spin.site);
        let key = (spin.process, place.clone());
        let new = Loop { place, process: spin.process, samples: 0, while_others_starved: 0 };
        let one = loops.entry(key).or_insert(new);
        one.samples += spin.samples;
        one.while_others_starved += spin.while_others_starved;
    }
    let mut loops: Vec<Loop> = loops.into_values().collect();
    loops.sort_by_key(|one| std::cmp::Reverse(one.samples));
    loops
}
