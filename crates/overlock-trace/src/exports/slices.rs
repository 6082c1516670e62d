//! What each thread did from when to when: the common part of files for other tools.

use crate::analysis::{Site, State, TraceEvent, What};
use crate::sources::tracer::Tracer;
use crate::verdicts::Names;
use std::collections::{BTreeMap, HashMap};

/// Who ended a sleep, where, and when.
type Ender = (u32, Site, u64);

/// A time in which a thread did one thing.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) thread: u32,
    pub(crate) process: u32,
    /// Where it slept, if that is what it did; and for which word, if for one.
    pub(crate) sleeps: Option<(Site, u64)>,
    pub(crate) name: String,
    /// When it began, and ended, in nanoseconds since the first event.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) ender: Option<Ender>,
    /// The processor, where it began to run.
    pub(crate) cpu: u32,
}

/// All that was kept, in the order of their ends.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    pub(crate) all: Vec<Slice>,
    /// When the first event was.
    pub(crate) first: u64,
    /// What had no end when the last event was kept.
    pub(crate) open: Vec<Slice>,
    /// The process of each thread, and when the thread came into view.
    pub(crate) threads: BTreeMap<u32, (u32, u64)>,
}

/// What a thread does, and since when.
struct Since {
    name: String,
    sleeps: Option<(Site, u64)>,
    from: u64,
    cpu: u32,
}

#[derive(Default)]
struct Open {
    state: Option<Since>,
    wait: Option<Since>,
    ender: Option<Ender>,
}

impl Slices {
    pub(crate) fn new(tracer: &Tracer, names: &mut Names<'_>) -> Self {
        let first = tracer.kept.first().map_or(0, |(event, _)| event.at_ns);
        let mut slices = Slices { first, ..Slices::default() };
        let mut open: HashMap<u32, Open> = HashMap::new();
        let mut released: HashMap<u64, Ender> = HashMap::new();
        for (TraceEvent { at_ns, thread, what }, cpu) in &tracer.kept {
            let at = at_ns.saturating_sub(first);
            let one = open.entry(*thread).or_default();
            let next = match what {
                What::Born { process, .. } => {
                    slices.threads.insert(*thread, (*process, at));
                    None
                }
                What::In => Some((State::Running.name().to_owned(), None)),
                What::Out(State::Asleep(..)) if one.wait.is_some() => {
                    Some(("asleep".to_owned(), None))
                }
                What::Out(State::Asleep(reason, site)) => {
                    let name = names.slept_in(*site, Some(*reason));
                    Some((format!("asleep: {name}"), Some((*site, 0))))
                }
                What::Out(state) => Some((state.name().to_owned(), None)),
                What::Woken { by, site } => {
                    one.ender = Some((*by, *site, at));
                    // A thread that is woken before it has given up its processor goes on running.
                    let runs = one.state.as_ref().is_some_and(|since| since.name == "running");
                    (!runs).then(|| (State::Preempted.name().to_owned(), None))
                }
                What::Wake { lock, how } => {
                    released.insert(*lock, (*thread, how.site, at));
                    None
                }
                What::Wait { site, lock, .. } => {
                    let name = format!("waits: {}", names.slept_in(*site, None));
                    one.wait =
                        Some(Since { name, sleeps: Some((*site, *lock)), from: at, cpu: *cpu });
                    None
                }
                What::WaitEnd | What::Got => {
                    if let Some(wait) = one.wait.take() {
                        let lock = wait.sleeps.map_or(0, |(_, lock)| lock);
                        let release = released.get(&lock).filter(|(_, _, then)| *then >= wait.from);
                        let ender = one.ender.take().or(release.copied());
                        slices.push(*thread, wait, at, ender);
                    }
                    None
                }
                What::Exit => {
                    if let Some(since) = one.state.take() {
                        slices.push(*thread, since, at, None);
                    }
                    None
                }
                _ => None,
            };
            let Some((name, sleeps)) = next else { continue };
            let before = one.state.replace(Since { name, sleeps, from: at, cpu: *cpu });
            let ender = one.ender.filter(|_| one.wait.is_none());
            // A stop by a quota is told at its end, and takes the place of what was told before.
            if let Some(before) = before.filter(|before| at > before.from) {
                slices.push(*thread, before, at, ender);
            }
        }
        for (thread, one) in open {
            let open = one.state.map(|since| slices.slice(thread, since, u64::MAX, None));
            slices.open.extend(open);
        }
        slices
    }

    fn push(&mut self, thread: u32, since: Since, to: u64, ender: Option<Ender>) {
        let slice = self.slice(thread, since, to, ender);
        self.all.push(slice);
    }

    fn slice(&self, thread: u32, since: Since, to: u64, ender: Option<Ender>) -> Slice {
        let process = self.threads.get(&thread).map_or(0, |(process, _)| *process);
        let Since { name, sleeps, from, cpu } = since;
        let ender = ender.filter(|_| sleeps.is_some());
        Slice { thread, process, sleeps, name, from, to: to.max(from), ender, cpu }
    }
}
