// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was found, with names: locks and places, what their holders slept in, loops that wait.

use crate::kind::Kind;
use crate::names;
use crate::symbols::{Frame, Symbols};
use crate::tracer::Tracer;
use crate::word::Word;
use overlock_trace::{
    BlockedIn, Class, Cure, End, HolderNs, NOTICEABLE, Report, Site, SiteReport, Verdict,
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

    /// Returns for how long writers waited here while readers took turns, or seem to have done so.
    /// A reader that does not wait may leave no trace, but a writer that holds the lock wakes those
    /// that wait.
    #[must_use]
    pub fn passed_ns(&self) -> u64 {
        match self.kind {
            Kind::Writer => self.waits.passed_ns.max(self.waits.holder.unknown),
            _ => 0,
        }
    }

    /// Returns whether writers waited here for most of the time because readers took turns, if this
    /// would be the cure otherwise.
    fn is_passed_by_readers(&self, otherwise: Cure) -> bool {
        let may_be = match otherwise {
            Cure::LookCloser => true,
            Cure::LeaveLocks | Cure::RaiseQuota | Cure::StopSpinning => false,
            _ => self.waits.passed_ns >= self.waits.holder.unknown,
        };
        may_be && self.passed_ns() * 2 > self.waits.waited_ns
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
        if let Some(worst) = waits.iter().find(|one| one.class == Class::Lock)
            && worst.is_passed_by_readers(verdict.cure)
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
