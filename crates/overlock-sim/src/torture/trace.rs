//! The latest events, and a hash of all events.

use std::fmt;
use std::panic::Location;

use crate::torture::arena::Arena;
use crate::torture::conditions::CPUS;

/// How many events are kept for the report of a failure.
const KEPT: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: u64,
    pub(crate) cpu: u8,
    /// How many interrupts are nested.
    pub(crate) level: u8,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// An atomic access; `new` is absent if it wrote nothing.
    Access {
        site: &'static Location<'static>,
        offset: u32,
        old: u32,
        new: Option<u32>,
    },
    Begin {
        lock: usize,
        verb: &'static str,
    },
    End {
        lock: usize,
        verb: &'static str,
        got: bool,
    },
    Freed {
        lock: usize,
    },
    /// This CPU is taken away.
    Away {
        ns: u64,
    },
    /// This CPU has to wait for a processor.
    Ready,
    /// This CPU runs.
    Runs,
    Interrupt,
    /// This CPU is thrown out of its wait for a notification.
    /// This CPU halts.
    Halts {
        offset: u32,
    },
    Naps {
        ns: u64,
    },
    Wakes {
        why: &'static str,
    },
    Kicks {
        cpu: Option<usize>,
        offset: u32,
        late_ns: u64,
    },
}

impl What {
    /// Numbers that distinguish this event from others.
    fn digest(&self) -> [u64; 3] {
        match *self {
            Self::Access { offset, old, new, .. } => {
                [1 | u64::from(offset) << 8, u64::from(old), new.map_or(u64::MAX, u64::from)]
            }
            Self::Begin { lock, verb } => [2, lock as u64, verb.len() as u64],
            Self::End { lock, verb, got } => {
                [3, lock as u64, (verb.len() as u64) << 1 | u64::from(got)]
            }
            Self::Freed { lock } => [4, lock as u64, 0],
            Self::Away { ns } => [5, ns, 0],
            Self::Ready => [6, 0, 0],
            Self::Runs => [7, 0, 0],
            Self::Interrupt => [8, 0, 0],
            Self::Halts { offset } => [9, u64::from(offset), 0],
            Self::Naps { ns } => [10, ns, 0],
            Self::Wakes { why } => [11, why.len() as u64, 0],
            Self::Kicks { cpu, offset, late_ns } => {
                [12 | (cpu.map_or(0, |cpu| cpu as u64 + 1) << 8), u64::from(offset), late_ns]
            }
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = format!("cpu {}{}", self.cpu, "'".repeat(usize::from(self.level)));
        write!(f, "{:>12} ns  {who:<10}  ", self.at)?;
        match self.what {
            What::Access { site, offset, old, new } => {
                let file = site.file().rsplit_once("src/").map_or(site.file(), |(_, file)| file);
                match Arena::lock_at(offset) {
                    Some((lock, 0)) => write!(f, "lock {lock}")?,
                    Some((lock, rest)) => write!(f, "lock {lock}+{rest}")?,
                    None => write!(f, "word {offset:#x}")?,
                }
                match new {
                    Some(new) => write!(f, ": {old:#x} -> {new:#x}")?,
                    None => write!(f, " is {old:#x}")?,
                }
                write!(f, "  ({file}:{})", site.line())
            }
            What::Begin { lock, verb } => write!(f, "{verb} lock {lock} ..."),
            What::End { lock, verb, got } => {
                write!(f, "... {verb} lock {lock}: {}", if got { "done" } else { "gave up" })
            }
            What::Freed { lock } => write!(f, "frees lock {lock}"),
            What::Away { ns } => write!(f, "is taken away for {ns} ns"),
            What::Ready => write!(f, "waits for a processor"),
            What::Runs => write!(f, "runs"),
            What::Interrupt => write!(f, "is interrupted"),
            What::Halts { offset } => write!(f, "halts on word {offset:#x}"),
            What::Naps { ns } => write!(f, "naps for {ns} ns"),
            What::Wakes { why } => write!(f, "wakes: {why}"),
            What::Kicks { cpu, offset, late_ns } => {
                match cpu {
                    Some(cpu) => write!(f, "kicks cpu {cpu} at word {offset:#x}")?,
                    None => write!(f, "kicks word {offset:#x}")?,
                }
                if late_ns != 0 { write!(f, ", arriving {late_ns} ns late") } else { Ok(()) }
            }
        }
    }
}

/// The latest events, and the hash of all events.
#[derive(Debug)]
pub(crate) struct Trace {
    ring: Vec<Event>,
    next: usize,
    /// A number that almost certainly differs if anything in the run differed.
    pub(crate) hash: u64,
    /// The last three different reads of each CPU: the offset plus one, and the value.
    reads: [[(u32, u32); 3]; CPUS],
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self { ring: Vec::with_capacity(KEPT), next: 0, hash: 0, reads: [[(0, 0); 3]; CPUS] }
    }

    /// Adds an event to the hash and keeps it for a while, unless it is a spinning CPU's read of a
    /// value that the CPU has just seen.
    pub(crate) fn add(&mut self, event: Event) {
        let [a, b, c] = event.what.digest();
        let who = u64::from(event.cpu) << 56 ^ event.at;
        for number in [who, a, b, c] {
            self.hash = (self.hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        if self.repeats(&event) {
            return;
        }
        if self.ring.len() < KEPT {
            self.ring.push(event);
        } else {
            self.ring[self.next] = event;
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// Whether a CPU repeats one of its last three reads and has done nothing else since.
    fn repeats(&mut self, event: &Event) -> bool {
        let reads = &mut self.reads[usize::from(event.cpu)];
        let What::Access { offset, old, new: None, .. } = event.what else {
            *reads = [(0, 0); 3];
            return false;
        };
        let read = (offset + 1, old);
        let known = reads.contains(&read);
        if !known {
            *reads = [read, reads[0], reads[1]];
        }
        known
    }

    /// The latest events, oldest first, one per line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let (newer, older) = self.ring.split_at(self.next.min(self.ring.len()));
        older.iter().chain(newer).map(ToString::to_string).collect()
    }
}
