//! Names for the numbers of an analysis, each looked up once.

use crate::analysis::{Key, Link, Reason, SHARED, Site, State};
use crate::names::stacks;
use crate::names::symbols::{Frame, Symbols};
use crate::names::word::{Op, Word};
use crate::names::{Class, Kind};
use crate::sources::tracer::Tracer;
use std::collections::{BTreeSet, HashMap};

/// What a stack waits for, and which functions that concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    pub(crate) kind: Kind,
    pub(crate) place: String,
    pub(crate) callers: Vec<String>,
    /// The kind, in more words where there are any.
    pub(crate) what: String,
    /// Whether the C library itself waits.
    pub(crate) is_libcs: bool,
    /// Whether the function is an interpreter's own.
    pub(crate) is_interpreters: bool,
}

/// A thread of a chain, and what it did, in words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The thread, or that of several that did it for longest; empty if it is not known.
    pub thread: String,
    /// How many threads did it; 0 if that is not known.
    pub threads: usize,
    pub state: State,
    /// Whether it waited for one of the threads before it.
    pub is_circle: bool,
    /// What it slept for, or how urgent it is if it had no processor; empty if that is not known.
    pub what: String,
    /// Where it slept, or where it was seen to run most; empty if that is not known.
    pub place: String,
}

/// Returns a place with its callers.
pub(super) fn path(place: &str, callers: &[String]) -> String {
    let all = std::iter::once(place).chain(callers.iter().map(String::as_str));
    all.collect::<Vec<_>>().join(" <- ")
}

pub(crate) struct Names<'a> {
    pub(crate) tracer: &'a Tracer,
    symbols: Symbols,
    known: HashMap<(Site, Option<Reason>), Named>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(tracer: &'a Tracer) -> Self {
        Names { tracer, symbols: Symbols::default(), known: HashMap::new() }
    }

    /// Returns what a thread sleeps for at a site, for a reason if it is no wait on a word.
    pub(crate) fn of(&mut self, site: Site, reason: Option<Reason>) -> Named {
        if let Some(known) = self.known.get(&(site, reason)) {
            return known.clone();
        }
        let stack: Vec<Frame> = self.symbols.stack(&self.tracer.images, site);
        let frames = self.tracer.images.frames(site);
        let op = frames.map_or(Op::Other, |frames| frames.op);
        let why = reason.map(|reason| self.tracer.kernel.why(reason));
        let told = match why {
            // What the word is for, only the stack tells.
            Some((Kind::Futex, _)) | None => frames.and_then(|frames| frames.kind),
            Some((kind, _)) => Some(kind),
        };
        let is_in_handler = frames.is_some_and(|frames| self.tracer.images.is_in_handler(frames));
        let kind = match stacks::kind_of(told, &stack, op) {
            Kind::Signal | Kind::Semaphore | Kind::Condvar | Kind::Futex if is_in_handler => {
                Kind::Stop
            }
            kind => kind,
        };
        let what = match (kind, why) {
            (Kind::Libc, _) => {
                stacks::libcs(&stack).map(|name| format!("{}, in {name}", kind.name()))
            }
            (_, Some((known, words))) if known == kind => Some(words.to_owned()),
            _ => None,
        };
        let what = what.unwrap_or_else(|| kind.name().to_owned());
        let (mut place, mut callers) = stacks::place(&stack);
        let is_interpreters = stacks::is_interpreters(&stack);
        if let Some([first, rest @ ..]) = self.tracer.python.at(site).map(Vec::as_slice) {
            // A function of another library tells more than that of Python that calls it.
            callers = match is_interpreters {
                true => {
                    place.clone_from(first);
                    rest.to_vec()
                }
                false => vec![first.clone()],
            };
        }
        let is_libcs = told.is_some() || stacks::is_inside(&stack);
        let named = Named { kind, place, callers, what, is_libcs, is_interpreters };
        self.known.insert((site, reason), named.clone());
        named
    }

    /// Says what a thread sleeps for, and where.
    pub(crate) fn slept_in(&mut self, site: Site, reason: Option<Reason>) -> String {
        let Named { what, place, .. } = self.of(site, reason);
        format!("{what} at {place}")
    }

    /// Returns what a row's thread sleeps for.
    pub(crate) fn of_row(&mut self, key: &Key) -> Named {
        self.of(key.site, key.reason)
    }

    /// Returns the function at a site and its callers, and a thread there.
    pub(crate) fn thread_at(&mut self, thread: u32, site: Site) -> String {
        let who = self.thread(thread);
        match site.0 {
            0 => who,
            _ => {
                let Named { place, callers, .. } = self.of(site, None);
                // Where a closure was inlined, only the standard library begins the thread.
                match place.starts_with("std::") {
                    true => who,
                    false => format!("{}, {who}", path(&place, &callers)),
                }
            }
        }
    }

    /// Returns the function at a site, with its line.
    pub(crate) fn place(&mut self, site: Site) -> String {
        self.of(site, None).place
    }

    /// Returns the names of the functions of a stack, the innermost first.
    pub(crate) fn stack(&mut self, site: Site) -> Vec<String> {
        let frames = self.symbols.stack(&self.tracer.images, site);
        frames.into_iter().map(|frame| frame.function).collect()
    }

    /// Returns whether threads wait at a site for a lock, as far as its name tells.
    pub(crate) fn class(&mut self, site: Site, lock: u64) -> Class {
        match self.of(site, None).kind {
            Kind::Futex if self.is_like_a_lock(site, lock) => Class::Lock,
            kind => kind.names_class().unwrap_or(Class::Work),
        }
    }

    /// Returns whether a word that threads wait for at a site has the values of a lock.
    pub(crate) fn is_like_a_lock(&self, site: Site, lock: u64) -> bool {
        self.tracer.words.get(&(site, lock & !SHARED)).is_some_and(Word::is_like_a_lock)
    }

    /// Returns whether a mutex of the C library was held by a thread that is not there any more.
    pub(crate) fn is_orphan(&mut self, key: &Key) -> bool {
        let is_told = self.tracer.images.frames(key.site).is_some_and(|one| one.kind.is_some());
        self.tracer.orphans.contains(&(key.process, key.lock))
            && self.of(key.site, None).kind == Kind::Mutex
            && (is_told || stacks::is_inside(&self.symbols.stack(&self.tracer.images, key.site)))
    }

    /// Returns whether readers have come while writers waited for their lock.
    pub(crate) fn is_passed(&self, process: u32, locks: &BTreeSet<u64>) -> bool {
        let passed = |lock: &u64| self.tracer.readers.passed.contains(&(process, *lock));
        locks.iter().any(passed)
    }

    /// Returns the name of a thread.
    pub(crate) fn thread(&self, thread: u32) -> String {
        match self.tracer.comms.get(&thread) {
            Some(comm) => format!("{comm} ({thread})"),
            None if thread == 0 => "the kernel".to_owned(),
            // One of another program, or of the kernel.
            None => match std::fs::read_to_string(format!("/proc/{thread}/comm")) {
                Ok(comm) => format!("{} ({thread})", comm.trim_end()),
                Err(_) => format!("thread {thread}"),
            },
        }
    }

    /// Says what the threads of a chain did. One that sleeps for a time waits for no other.
    pub(crate) fn steps(&mut self, chain: &[Link]) -> Vec<Step> {
        let mut steps = Vec::new();
        for (number, link) in chain.iter().enumerate() {
            let named = match link.state {
                State::Asleep(reason, site) => Some(self.of(site, Some(reason))),
                State::Waiting(_, site) => Some(self.of(site, None)),
                _ if link.site != Site(0) => Some(self.of(link.site, None)),
                _ => None,
            };
            let what = match link.state {
                State::Asleep(Reason(0), _) => "something else".to_owned(),
                State::Asleep(reason, _) => self.tracer.kernel.text(reason).to_owned(),
                State::Waiting(_, site) => self.of(site, None).kind.name().to_owned(),
                State::Preempted => self.tracer.urgency.behind(link.thread).unwrap_or_default(),
                _ => String::new(),
            };
            let is_timer = named.as_ref().is_some_and(|named| named.kind == Kind::Timer);
            let is_circle =
                matches!(link.state, State::Waiting(..)) && number + 1 == chain.len() && !is_timer;
            let named = named.filter(|named| named.place != "?");
            let is_interpreters = named.as_ref().is_none_or(|one| one.is_interpreters);
            let ran = self.tracer.python.ran(link.thread).filter(|_| is_interpreters);
            let place = match ran.filter(|_| link.state == State::Running).map(Vec::as_slice) {
                Some([first, rest @ ..]) => Some(path(first, &rest[..rest.len().min(1)])),
                _ => named.map(|one| path(&one.place, &one.callers[..one.callers.len().min(1)])),
            };
            let thread = if link.thread == 0 { String::new() } else { self.thread(link.thread) };
            let threads = usize::from(link.thread != 0);
            let (state, place) = (link.state.plain(), place.unwrap_or_default());
            steps.push(Step { thread, threads, state, is_circle, what, place });
            if is_timer && link.state.sleeps() {
                break;
            }
        }
        steps
    }
}
