//! The counters of a program's processes, in memory that they share with the process that starts
//! the program.
//!
//! The memory is a file without a name, so nothing is left behind. The layout is the library's
//! (`tally`).

/// The layout of the shared counters, which is the library's.
#[path = "../preload/src/tally.rs"]
mod tally;

use crate::locks::{LOCKS, NONE};
use anyhow::{Context, Result};
use overlock::counters::Event;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::Relaxed;
pub(crate) use tally::VARIABLE;
use tally::{BUILD, COUNTERS, NAMES, PLACES, Place, Tally};

/// The counter that is not a number of events: of several processes, the longest counts.
pub const LONGEST_STALL: &str = "mutex.longest_stall_ns";

/// The smallest descriptor that the memory gets, if that many are allowed: a program may rely on
/// the small numbers.
const DESCRIPTOR: RawFd = 600;

#[derive(Debug)]
pub struct Shared {
    file: OwnedFd,
    tally: NonNull<Tally>,
}

impl Shared {
    /// Makes memory in which nothing is counted yet.
    pub fn new() -> Result<Self> {
        Self::make().context("can't make memory for the counters")
    }

    fn make() -> Result<Self> {
        let file = memfd_create("overlock counters", MemfdFlags::CLOEXEC)?;
        // The small numbers may be all that are allowed.
        let file = fcntl_dupfd_cloexec(&file, DESCRIPTOR).unwrap_or(file);
        let size = size_of::<Tally>();
        without_limit(|| ftruncate(&file, size as u64))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let at = unsafe { mmap(null_mut(), size, access, MapFlags::SHARED, &file, 0) }?;
        let tally = NonNull::new(at.cast::<Tally>()).context("the kernel maps nothing at null")?;
        let shared = Shared { file, tally };
        let token = RandomState::new().build_hasher().finish().max(1);
        shared.tally().head.token.store(token, Relaxed);
        shared.tally().head.build.store(BUILD, Relaxed);
        Ok(shared)
    }

    fn tally(&self) -> &Tally {
        // SAFETY: mapped until the drop, by us alone unmapped; it consists of atomic cells.
        unsafe { self.tally.as_ref() }
    }

    /// Returns the descriptor, which the program has to inherit.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Returns the variable that tells the library of the memory, and its value.
    pub fn variable(&self) -> (&'static str, String) {
        let token = self.tally().head.token.load(Relaxed);
        (VARIABLE, format!("{}:{}:{token}", self.descriptor(), std::process::id()))
    }

    pub fn read(&self) -> Counted {
        let head = &self.tally().head;
        let claimed = head.claimed.load(Relaxed) as usize;
        let own = claimed.min(PLACES - 1);
        let (own, last) = self.tally().places.split_at(own);
        let mut processes: Vec<ProcessCounts> =
            own.iter().map(|place| ProcessCounts::of(place, 1)).collect();
        if let Some(more) = claimed.checked_sub(PLACES - 1).filter(|more| *more > 0) {
            processes.extend(last.first().map(|place| ProcessCounts::of(place, more)));
        }
        Counted { processes, strangers: head.strangers.load(Relaxed) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped in `make`; no reference outlives `self`.
        let _ = unsafe { munmap(self.tally.as_ptr().cast(), size_of::<Tally>()) };
    }
}

/// Makes a file although the size of files is limited (RLIMIT_FSIZE), as far as the user may.
fn without_limit<R>(make: impl FnOnce() -> R) -> R {
    let limit = getrlimit(Resource::Fsize);
    let _ = setrlimit(Resource::Fsize, Rlimit { current: limit.maximum, ..limit });
    let made = make();
    let _ = setrlimit(Resource::Fsize, limit);
    made
}

#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Each process, and the last that share a place.
    pub processes: Vec<ProcessCounts>,
    /// How many processes have loaded a library of another build.
    pub strangers: u32,
}

/// The counters of one process, or of all that came after the last free place.
#[derive(Clone, Debug)]
pub struct ProcessCounts {
    pub pid: u32,
    /// More than 1 if it is not one process.
    pub processes: usize,
    lock: String,
    program: String,
    longest_ns: u64,
    counts: Vec<u64>,
}

impl ProcessCounts {
    fn of(place: &Place, processes: usize) -> Self {
        let lock = place.lock.load(Relaxed).checked_sub(1).map(|lock| lock as usize);
        let names: Vec<&str> = LOCKS.iter().copied().chain([NONE]).collect();
        let program = place.program.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
        let program: Vec<u8> = program.take_while(|byte| *byte != 0).collect();
        ProcessCounts {
            pid: place.pid.load(Relaxed),
            processes,
            lock: lock.and_then(|lock| names.get(lock)).copied().unwrap_or("undecided").into(),
            program: String::from_utf8_lossy(&program).into_owned(),
            longest_ns: place.longest_ns.load(Relaxed),
            counts: (0..COUNTERS).map(|counter| place.sum(counter)).collect(),
        }
    }

    fn named(&self) -> impl Iterator<Item = (String, u64)> {
        let events = Event::ALL.iter().map(|event| format!("events.{}", event.name()));
        let names = NAMES.iter().map(|name| (*name).to_owned()).chain(events);
        let counts = self.counts.iter().copied();
        names.zip(counts).chain([(LONGEST_STALL.to_owned(), self.longest_ns)])
    }

    pub fn record(&self) -> Value {
        let library = concat!("overlock-preload ", env!("CARGO_PKG_VERSION"));
        let mut record = json!({
            "kind": "process", "library": library, "lock": self.lock, "program": self.program,
            "pid": self.pid,
        });
        if self.processes > 1 {
            record["processes"] = self.processes.into();
        }
        for (name, count) in self.named() {
            if let Some((group, name)) = name.split_once('.') {
                record[group][name] = count.into();
            }
        }
        record
    }
}

impl Counted {
    pub fn count(&self) -> usize {
        self.processes.iter().map(|counts| counts.processes).sum()
    }

    pub fn is_loaded(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Adds up the counters of all processes; leaves out zeros. Of the longest stalls it takes the
    /// longest.
    pub fn sums(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::<String, u64>::new();
        for (name, count) in self.processes.iter().flat_map(ProcessCounts::named) {
            let is_longest = name == LONGEST_STALL;
            let sum = sums.entry(name).or_default();
            *sum = if is_longest { count.max(*sum) } else { *sum + count };
        }
        sums.retain(|_, sum| *sum > 0);
        sums
    }

    pub fn longest_stall_ns(&self) -> Option<u64> {
        self.processes.iter().map(|counts| counts.longest_ns).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counter: usize, count: u64, longest_ns: u64) -> ProcessCounts {
        let mut counts = vec![0; COUNTERS];
        counts[counter] = count;
        let (lock, program) = ("hybrid".into(), "x".into());
        ProcessCounts { pid: 7, processes: 1, lock, program, longest_ns, counts }
    }

    #[test]
    fn counters_of_all_processes_are_added_up_but_for_the_longest_stall() {
        let processes = vec![counts(0, 3, 20), counts(0, 4, 90), counts(NAMES.len(), 5, 40)];
        let sums = Counted { processes, strangers: 0 }.sums();
        let expected = [("events.lock_slowpath", 5), (LONGEST_STALL, 90), (NAMES[0], 7)];
        let expected = expected.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(sums, BTreeMap::from(expected));
    }

    #[test]
    fn processes_without_a_place_of_their_own_share_the_last() {
        let shared = Shared::new().unwrap();
        assert!(!shared.read().is_loaded());
        let tally = shared.tally();
        for place in &tally.places {
            place.add(3, 1, 2);
        }
        tally.head.claimed.store(PLACES as u32 + 9, Relaxed);
        let counted = shared.read();
        assert_eq!((counted.processes.len(), counted.count()), (PLACES, PLACES + 9));
        assert_eq!(counted.processes[PLACES - 1].record()["processes"], 10);
        assert_eq!(counted.sums()[NAMES[1]], 2 * PLACES as u64);
    }
}
