// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each thread did from when to when: the common part of files for other tools.

use crate::finding::Names;
use crate::tracer::Tracer;
use overlock_trace::{Event, Off, Site, What};
use std::collections::{BTreeMap, HashMap};

/// A time in which a thread did one thing.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) thread: u32,
    pub(crate) process: u32,
    /// Where it waited, if that is what it did.
    pub(crate) waits: Option<Site>,
    /// In words.
    pub(crate) name: String,
    /// When it began, and ended, in nanoseconds since the first event.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// All that was kept, in the order of their ends.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    pub(crate) all: Vec<Slice>,
    /// The process of each thread, and when the thread came into view.
    pub(crate) threads: BTreeMap<u32, (u32, u64)>,
}

/// What a thread does, and since when.
struct Since {
    name: String,
    from: u64,
}

impl Slices {
    pub(crate) fn new(tracer: &Tracer, names: &mut Names<'_>) -> Self {
        let first = tracer.kept.first().map_or(0, |(event, _)| event.at_ns);
        let mut slices = Slices::default();
        let mut states: HashMap<u32, Since> = HashMap::new();
        let mut waits: HashMap<u32, (Site, Since)> = HashMap::new();
        for (Event { at_ns, thread, what }, _) in &tracer.kept {
            let at = at_ns.saturating_sub(first);
            let next = match what {
                What::Born { process, .. } => {
                    slices.threads.insert(*thread, (*process, at));
                    None
                }
                What::In => Some("running".to_owned()),
                What::Out(Off::Preempted) | What::Woken { .. } => Some("no processor".to_owned()),
                What::Out(Off::Throttled) => Some("no quota".to_owned()),
                What::Out(Off::Blocked(reason)) => {
                    Some(format!("asleep: {}", tracer.kernel.text(*reason)))
                }
                What::Wait { site, .. } => {
                    let (kind, place) = names.of(*site);
                    let name = format!("waits: {} at {place}", kind.name());
                    waits.insert(*thread, (*site, Since { name, from: at }));
                    None
                }
                What::WaitEnd | What::Got => {
                    let ended = waits.remove(thread);
                    slices.push(*thread, ended.map(|(site, since)| (Some(site), since)), at);
                    None
                }
                What::Exit => {
                    let ended = states.remove(thread);
                    slices.push(*thread, ended.map(|since| (None, since)), at);
                    None
                }
                _ => None,
            };
            let Some(name) = next else { continue };
            // A thread that is woken before it has given up its processor goes on running.
            let runs = states.get(thread).is_some_and(|since| since.name == "running");
            if matches!(what, What::Woken { .. }) && runs {
                continue;
            }
            let before = states.insert(*thread, Since { name, from: at });
            slices.push(*thread, before.map(|since| (None, since)), at);
        }
        slices
    }

    fn push(&mut self, thread: u32, ended: Option<(Option<Site>, Since)>, to: u64) {
        let Some((waits, Since { name, from })) = ended else { return };
        // A stop by a quota is told at its end, and takes the place of what was told before.
        if waits.is_none() && to <= from {
            return;
        }
        let process = self.threads.get(&thread).map_or(0, |(process, _)| *process);
        self.all.push(Slice { thread, process, waits, name, from, to: to.max(from) });
    }
}
