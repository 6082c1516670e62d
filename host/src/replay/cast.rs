//! Which threads of a recording belong together: the vCPUs of a guest, or the threads of a program.
//!
//! A recording names no virtual machine. The vCPUs of a process are one guest, if it names
//! processes; else, in the order of their threads' numbers, another guest begins wherever the
//! number of the vCPU does not rise: a monitor starts its vCPUs in turn. Without vCPUs, threads
//! that yield and have one name belong together, with all others of that name.

use super::line::{Event, Line};
use anyhow::{Result, ensure};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Threads that wait for each other's locks.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// Their numbers; a thread's place is the number of its vCPU here.
    pub(crate) threads: Vec<u32>,
}

/// The guests of these vCPUs, of which each has the number that the recording gives it.
fn guests(vcpus: &BTreeMap<u32, Option<u32>>, of: &HashMap<u32, u32>) -> Vec<Group> {
    let mut guests: Vec<Group> = Vec::new();
    let mut processes: BTreeMap<u32, usize> = BTreeMap::new();
    let mut last = None;
    for (thread, &vcpu) in vcpus {
        let known = of.get(thread).and_then(|process| processes.get(process)).copied();
        let begins = match of.get(thread) {
            Some(_) => known.is_none(),
            None => guests.is_empty() || vcpu.is_some() && vcpu <= last,
        };
        last = vcpu;
        if begins {
            processes.extend(of.get(thread).map(|&process| (process, guests.len())));
            guests.push(Group { name: format!("guest {}", guests.len() + 1), threads: vec![] });
        }
        let place = known.unwrap_or(guests.len() - 1);
        guests[place].threads.push(*thread);
    }
    guests
}

#[derive(Debug, Default)]
pub(crate) struct Cast {
    pub(crate) groups: Vec<Group>,
    places: HashMap<u32, (usize, u32)>,
}

impl Cast {
    pub(crate) fn of(lines: &[Line<'_>]) -> Self {
        let mut vcpus: BTreeMap<u32, Option<u32>> = BTreeMap::new();
        let mut yields = BTreeSet::new();
        let mut names: BTreeMap<u32, &str> = BTreeMap::new();
        let mut processes: HashMap<u32, u32> = HashMap::new();
        for line in lines {
            processes.extend(line.process.map(|process| (line.thread, process)));
            match &line.event {
                Event::Entry { vcpu } => {
                    vcpus.entry(line.thread).and_modify(|of| *of = of.or(*vcpu)).or_insert(*vcpu);
                }
                Event::Pause(_) | Event::Exit(_) | Event::Kick(_) | Event::Ipi(_) => {
                    vcpus.entry(line.thread).or_default();
                }
                Event::Yield | Event::Said(_) => {
                    yields.insert(line.thread);
                }
                Event::Switch { from, to, .. } => {
                    for thread in [from, to].into_iter().filter(|thread| thread.id != 0) {
                        names.insert(thread.id, thread.name);
                    }
                }
                Event::Wakeup(_) | Event::Back | Event::Other => {}
            }
        }
        let mut cast = Self { groups: guests(&vcpus, &processes), ..Self::default() };
        if cast.groups.is_empty() {
            let wanted: BTreeSet<&str> =
                yields.iter().filter_map(|id| names.get(id).copied()).collect();
            cast.groups = wanted
                .into_iter()
                .map(|name| {
                    let of_it = names.iter().filter(|&(_, of)| *of == name);
                    Group { name: name.into(), threads: of_it.map(|(&id, _)| id).collect() }
                })
                .collect();
        }
        cast.index();
        cast
    }

    /// Makes one group of the threads with these numbers.
    pub(crate) fn named(threads: Vec<u32>, lines: &[Line<'_>]) -> Result<Self> {
        for id in &threads {
            let is_there = |line: &Line<'_>| match &line.event {
                Event::Switch { from, to, .. } => from.id == *id || to.id == *id,
                _ => line.thread == *id,
            };
            ensure!(lines.iter().any(is_there), "the recording has no thread {id}");
        }
        let groups = vec![Group { name: "threads".into(), threads }];
        let mut cast = Self { groups, ..Self::default() };
        cast.index();
        Ok(cast)
    }

    fn index(&mut self) {
        for (group, members) in self.groups.iter().enumerate() {
            for (place, &thread) in (0..).zip(&members.threads) {
                self.places.insert(thread, (group, place));
            }
        }
    }

    /// The group of a thread, and its place there.
    pub(crate) fn place(&self, thread: u32) -> Option<(usize, u32)> {
        self.places.get(&thread).copied()
    }
}
