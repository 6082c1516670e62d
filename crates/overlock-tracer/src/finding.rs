// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was found, with names: locks and places, what their holders slept in, loops that wait.

use crate::kind::Kind;
use crate::names;
use crate::symbols::{Frame, Symbols};
use crate::tracer::Tracer;
use crate::word::Word;
use overlock_trace::{
    BlockedIn, Class, Cure, End, HolderNs, NOTICEABLE, Report, Site, SiteReport, Verdict, share,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The waits at one place.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which kind of lock, or of wait.
    pub kind: Kind,
    /// Whether it is for a lock, or for work.
    pub class: Class,
    /// Function, file and line.
    pub place: String,
    /// Its number, or that of one of several processes that do the same.
    pub process: u32,
    /// How many processes.
    pub processes: usize,
    /// The addresses of the locks that threads waited for here.
    pub locks: BTreeSet<u64>,
    /// How long, and what the holders did.
    pub waits: SiteReport,
    /// What sleeping holders slept in, in words, the longest first.
    pub blocked_in: Vec<(String, u64)>,
    /// For how long writers waited here while readers took turns, or seem to have done so, in
    /// nanoseconds.
    pub behind_readers_ns: u64,
}

impl Finding {
    /// Returns findings with those of several processes at one place together, the longest first.
    #[must_use]
    pub fn together<'a>(all: impl IntoIterator<Item = &'a Finding>) -> Vec<Finding> {
        let mut places: BTreeMap<(Kind, &str), Finding> = BTreeMap::new();
        for one in all {
            let Some(place) = places.get_mut(&(one.kind, &*one.place)) else {
                places.insert((one.kind, &one.place), one.clone());
                continue;
            };
            place.processes += 1;
            place.locks.extend(&one.locks);
            place.waits.merge(&one.waits);
            place.behind_readers_ns += one.behind_readers_ns;
            for (what, ns) in &one.blocked_in {
                match place.blocked_in.iter_mut().find(|(known, _)| known == what) {
                    Some((_, sum)) => *sum += ns,
                    None => place.blocked_in.push((what.clone(), *ns)),
                }
            }
            place.blocked_in.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        }
        let mut places: Vec<Finding> = places.into_values().collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.waits.waited_ns));
        places
    }

    /// Returns whether writers waited here for most of the time because readers took turns, if this
    /// would be the cure otherwise.
    fn is_passed_by_readers(&self, otherwise: Cure) -> bool {
        let may_be = match otherwise {
            Cure::LookCloser => true,
            Cure::LeaveLocks | Cure::RaiseQuota | Cure::StopSpinning => false,
            _ => self.waits.passed_ns >= self.waits.holder.unknown,
        };
        may_be && self.behind_readers_ns * 2 > self.waits.waited_ns
    }
}

/// A loop that waits.
#[derive(Debug)]
pub struct Loop {
    /// Function, file and line.
    pub place: String,
    /// Its number.
    pub process: u32,
    /// In how many samples it ran.
    pub samples: u64,
    /// In how many of them another thread had no processor.
    pub while_others_starved: u64,
}

/// Everything that was found.
#[derive(Debug)]
pub struct Findings {
    /// The analysis.
    pub report: Report,
    /// What that means.
    pub verdict: Verdict,
    /// Waits, the longest first.
    pub waits: Vec<Finding>,
    /// Loops that wait, the most frequent first.
    pub loops: Vec<Loop>,
    /// Each stack, the innermost function first, with its kind of wait.
    pub stacks: Vec<(Vec<String>, &'static str, HolderNs)>,
    /// How often the kernel had no room for records.
    pub lost: u64,
    /// How long quotas have stopped threads, by the kernel's account, in nanoseconds.
    pub stopped_ns: u64,
    /// The part of the threads' time in sleeps by futexes that a preloaded library does not see.
    pub unseen_share: f64,
    /// Whether the system hides in which calls threads sleep.
    pub is_secret: bool,
    /// Whether threads were only looked at, so that the holders of most kinds of locks are not
    /// known.
    pub is_by_looks: bool,
}

impl Findings {
    pub(crate) fn new(report: Report, tracer: &Tracer, stopped_ns: u64) -> Self {
        let mut names = Names::new(tracer);
        let mut groups: BTreeMap<(u32, Kind, String), Finding> = BTreeMap::new();
        let mut like_locks = BTreeSet::new();
        for site in &report.sites {
            let (kind, place) = names.of(site.key.site);
            let key = (site.key.process, kind, place.clone());
            match groups.get_mut(&key) {
                Some(group) => group.waits.merge(site),
                None => {
                    let finding = Finding {
                        kind,
                        class: Class::Work,
                        place,
                        process: site.key.process,
                        processes: 1,
                        locks: BTreeSet::new(),
                        waits: site.clone(),
                        blocked_in: Vec::new(),
                        behind_readers_ns: 0,
                    };
                    groups.insert(key.clone(), finding);
                }
            }
            groups.get_mut(&key).expect("just made").locks.insert(site.key.lock);
            if names.is_like_a_lock(site.key.site) {
                like_locks.insert(key);
            }
        }
        for (key, finding) in &mut groups {
            finding.class = match finding.kind.class(&finding.waits) {
                _ if finding.kind == Kind::Futex && like_locks.contains(key) => Class::Lock,
                class => class,
            };
        }
        let mut waits: Vec<Finding> = groups.into_values().collect();
        for finding in &mut waits {
            finding.behind_readers_ns = match finding.kind {
                // By tracepoints, a reader that does not wait leaves no trace, but a writer that
                // holds the lock wakes those that wait. Other sources know of no such writer, or
                // tell of readers.
                Kind::Writer if !tracer.is_looking => finding.waits.holder.unknown,
                Kind::Writer => finding.waits.passed_ns,
                _ => 0,
            };
            let mut said: BTreeMap<String, u64> = BTreeMap::new();
            for (blocked, ns) in &finding.waits.blocked_in {
                *said.entry(names.blocked(*blocked)).or_default() += ns;
            }
            finding.blocked_in = said.into_iter().collect();
            finding.blocked_in.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        }
        waits.sort_by_key(|finding| std::cmp::Reverse(finding.waits.waited_ns));
        // A place's class needs all its locks together, so the verdict asks for the place's.
        let class = |site: &SiteReport| {
            let found = waits.iter().find(|finding| {
                finding.process == site.key.process
                    && (finding.kind, &finding.place) == {
                        let (kind, place) = &names.known[&site.key.site];
                        (*kind, place)
                    }
            });
            found.map_or(Class::Work, |finding| finding.class)
        };
        let mut verdict = Verdict::new(&report, class);
        // The place that the advice will name.
        let locks = Finding::together(waits.iter().filter(|one| one.class == Class::Lock));
        let behind_readers: u64 = locks.iter().map(|one| one.behind_readers_ns).sum();
        if locks.first().is_some_and(|worst| worst.is_passed_by_readers(verdict.cure))
            && behind_readers * 2 > verdict.holder.total()
        {
            verdict.cure = Cure::LetWritersPass;
        }
        let mut loops: BTreeMap<(u32, String), Loop> = BTreeMap::new();
        for spin in &report.spins {
            let (_, place) = names.of(spin.site);
            let key = (spin.process, place.clone());
            let new = Loop { place, process: spin.process, samples: 0, while_others_starved: 0 };
            let one = loops.entry(key).or_insert(new);
            one.samples += spin.samples;
            one.while_others_starved += spin.while_others_starved;
        }
        let mut loops: Vec<Loop> = loops.into_values().collect();
        loops.sort_by_key(|one| std::cmp::Reverse(one.samples));
        let stack = |site: &SiteReport| {
            let frames = names.symbols.stack(&tracer.images, site.key.site);
            let functions = frames.into_iter().map(|frame| frame.function).collect();
            (functions, names.known[&site.key.site].0.name(), site.holder)
        };
        let stacks = report.sites.iter().map(stack).collect();
        Findings {
            stacks,
            verdict,
            waits,
            loops,
            lost: tracer.lost,
            stopped_ns,
            unseen_share: 0.0,
            is_secret: false,
            is_by_looks: false,
            report,
        }
    }

    /// Takes note that the system hides in which calls threads sleep: there is no verdict then.
    pub(crate) fn are_hidden(&mut self) {
        self.is_secret = true;
        if self.verdict.cure == Cure::LeaveLocks {
            self.verdict.cure = Cure::LookCloser;
        }
    }

    /// Takes note of sleeps that may be waits for locks: that there are no others says nothing
    /// then.
    pub(crate) fn misses(&mut self, unseen_share: f64) {
        self.unseen_share = unseen_share;
        if unseen_share >= NOTICEABLE && self.verdict.cure == Cure::LeaveLocks {
            self.verdict.cure = Cure::LookCloser;
        }
    }

    /// Returns the share of all processor time in a loop, by samples.
    #[must_use]
    pub fn cpu_share(&self, one: &Loop) -> f64 {
        let ns = one.samples.saturating_mul(self.report.sample_ns);
        share(ns, self.report.time.running).min(1.0)
    }

    /// Returns whether threads were not seen for most of their time.
    #[must_use]
    pub fn is_unseen(&self) -> bool {
        self.report.time.unknown > self.report.time.total() / 2
    }

    /// Returns whether what was not seen may be worth more than what was.
    #[must_use]
    pub fn misses_all(&self) -> bool {
        self.verdict.lock_share < NOTICEABLE && self.unseen_share >= NOTICEABLE
    }
}

/// The names of sites, each looked up once.
pub(crate) struct Names<'a> {
    tracer: &'a Tracer,
    symbols: Symbols,
    known: HashMap<Site, (Kind, String)>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(tracer: &'a Tracer) -> Self {
        Names { tracer, symbols: Symbols::default(), known: HashMap::new() }
    }

    pub(crate) fn of(&mut self, site: Site) -> (Kind, String) {
        if let Some(known) = self.known.get(&site) {
            return known.clone();
        }
        let stack: Vec<Frame> = self.symbols.stack(&self.tracer.images, site);
        let frames = self.tracer.images.frames(site);
        let is_plain = frames.is_some_and(|frames| frames.is_plain);
        let told = frames.and_then(|frames| frames.kind);
        let kind = names::kind_of(told, &stack, is_plain);
        let named = (kind, names::place(&stack));
        self.known.insert(site, named.clone());
        named
    }

    /// Returns the names of the functions of a stack, the innermost first.
    pub(crate) fn stack(&mut self, site: Site) -> Vec<String> {
        let frames = self.symbols.stack(&self.tracer.images, site);
        frames.into_iter().map(|frame| frame.function).collect()
    }

    /// Returns whether threads wait at a site for a lock, as far as its name tells.
    pub(crate) fn class(&mut self, site: Site) -> Class {
        match self.of(site).0 {
            Kind::Futex if self.is_like_a_lock(site) => Class::Lock,
            kind => kind.names_class().unwrap_or(Class::Work),
        }
    }

    /// Returns whether the word that threads wait for at a site has the values of a lock.
    fn is_like_a_lock(&self, site: Site) -> bool {
        self.tracer.words.get(&site).is_some_and(Word::is_like_a_lock)
    }

    /// Says what a holder slept in.
    fn blocked(&mut self, blocked: BlockedIn) -> String {
        match blocked {
            BlockedIn::Reason(reason) => self.tracer.kernel.text(reason).to_owned(),
            BlockedIn::Lock { site, end } => {
                let (kind, place) = self.of(site);
                let end = match end {
                    End::Running => "ran".to_owned(),
                    End::Preempted => "had no processor".to_owned(),
                    End::Throttled => "had no quota".to_owned(),
                    End::Blocked(reason) => format!("slept: {}", self.tracer.kernel.text(reason)),
                    End::Free => {
                        return format!("{} at {place}, free, its next holder late", kind.name());
                    }
                    End::Unknown => "is unknown".to_owned(),
                };
                format!("{} at {place}, whose holder {end}", kind.name())
            }
            BlockedIn::Other => "something else".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::Layout;
    use crate::records::Stack;
    use overlock_trace::{Analysis, Limits, Off, Reason, What};

    const MS: u64 = 1_000_000;
    /// The instruction of a wait, and its kind.
    type Place = (u64, Kind);

    fn tracer(is_looking: bool) -> Tracer {
        let layout = (!is_looking).then(Layout::default);
        Tracer::new(Analysis::new(Limits::default()), layout)
    }

    /// The first thread of a process waits for a lock from the start.
    fn waits(tracer: &mut Tracer, process: u32, (instruction, kind): Place) {
        tracer.images.exec(process);
        tracer.adopt(0, process, process);
        let stack = Stack { frame: 0, pointer: 0, instruction, bytes: &[] };
        let site = tracer.images.site(process, &stack, false);
        let site = tracer.images.site_of(site, kind);
        tracer.event(0, process, What::Wait { lock: 16, site });
        tracer.event(0, process, What::Out(Off::Blocked(Reason(0))));
    }

    /// Another thread that has run all the time releases the lock.
    fn releases(tracer: &mut Tracer, (process, thread): (u32, u32), at: u64, by_reader: bool) {
        if tracer.adopt(0, process, thread) {
            tracer.event(0, thread, What::In);
        }
        tracer.event(at, thread, What::Wake { lock: 16, by_reader });
        tracer.event(at, thread, What::WakeEnd);
    }

    /// Returns the cure for processes that wait at these places: writers for 100 ms, while readers
    /// take turns, and all others for 60 ms.
    fn cure_of(places: &[Place]) -> Cure {
        let mut tracer = tracer(true);
        for (process, place) in (10..).step_by(10).zip(places) {
            waits(&mut tracer, process, *place);
            let (turns, is_writer) = if place.1 == Kind::Writer { (10, true) } else { (6, false) };
            for turn in 1..=turns {
                let reader = process + 1 + turn % 2;
                releases(&mut tracer, (process, reader), u64::from(turn) * 10 * MS, is_writer);
            }
            tracer.event(u64::from(turns) * 10 * MS, process, What::Got);
        }
        cure(&mut tracer)
    }

    fn cure(tracer: &mut Tracer) -> Cure {
        let analysis = Analysis::new(Limits::default());
        let report = std::mem::replace(&mut tracer.analysis, analysis).report(100 * MS);
        Findings::new(report, tracer, 0).verdict.cure
    }

    #[test]
    fn readers_that_pass_a_writer_are_told_of_if_they_matter_most() {
        let (writer, mutex) = ((1, Kind::Writer), (9, Kind::Mutex));
        assert_eq!(cure_of(&[writer]), Cure::LetWritersPass);
        assert_eq!(cure_of(&[writer, mutex]), Cure::LetWritersPass);
        assert_eq!(cure_of(&[writer, (2, Kind::Writer), mutex]), Cure::LetWritersPass);
        // Others wait for longer, at one place that is the worst, or at several.
        let others = [(5, Kind::Mutex), (6, Kind::Mutex), (7, Kind::Mutex)];
        assert_eq!(cure_of(&[&[writer], &others[..]].concat()), Cure::ShortenSection);
        assert_eq!(cure_of(&[writer, mutex, mutex, mutex]), Cure::ShortenSection);
        let two_writers = [writer, (2, Kind::Writer), mutex, mutex];
        assert_eq!(cure_of(&two_writers), Cure::ShortenSection, "the advice names a mutex");
    }

    #[test]
    fn a_writer_whose_holder_is_not_known_waits_for_readers_by_tracepoints_only() {
        let cure_by = |is_looking| {
            let mut tracer = tracer(is_looking);
            waits(&mut tracer, 10, (1, Kind::Writer));
            tracer.event(100 * MS, 10, What::WaitEnd);
            cure(&mut tracer)
        };
        assert_eq!((cure_by(false), cure_by(true)), (Cure::LetWritersPass, Cure::LookCloser));
    }
}
