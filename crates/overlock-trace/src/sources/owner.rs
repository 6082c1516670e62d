//! Asking a lock's own memory for its holder: the GNU C library's mutexes keep it.

use crate::analysis::hash::{HashMap, HashSet};
use crate::analysis::{Holder, SHARED};
use crate::sources::platform;

/// Where such a mutex has its holder, in bytes behind the word that threads wait on.
const OWNER: usize = 8;

/// Returns whether such a mutex of a process is free, if its memory can be read.
pub(crate) fn is_free(process: u32, lock: u64) -> Option<bool> {
    let mut bytes = [1; 4];
    let read = platform::read_memory(process, lock & !SHARED, &mut bytes);
    (read == bytes.len()).then(|| u32::from_ne_bytes(bytes) == 0)
}

/// Asks a mutex of the GNU C library that a thread waits for for its holder, which is a thread of
/// the same process unless processes share it. Returns the number that it has found, too.
pub(crate) fn holder(threads: &HashMap<u32, u32>, waiter: u32, lock: u64) -> (Holder, u32) {
    let mut bytes = [0; OWNER + 4];
    if platform::read_memory(waiter, lock & !SHARED, &mut bytes) != bytes.len() {
        return (Holder::Unknown, 0);
    }
    let word =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let owner = word(OWNER);
    let holder = match word(0) {
        0 => Holder::Nobody,
        _ if threads.contains_key(&owner)
            && (lock & SHARED != 0 || threads.get(&owner) == threads.get(&waiter)) =>
        {
            Holder::Thread(owner)
        }
        _ => Holder::Unknown,
    };
    (holder, owner)
}

/// What looks at the GNU C library's read-write locks have found while threads waited for them.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// How many there were at the last look.
    counts: HashMap<(u32, u64), u32>,
    /// The words at which threads waited while readers came.
    pub(crate) passed: HashSet<(u32, u64)>,
}

impl Readers {
    /// Looks at the lock for whose word a thread of a process waits: the lock's first word counts
    /// its readers, and writers wait for the third or the fourth.
    pub(crate) fn look(&mut self, process: u32, word: u64) {
        let (mut bytes, word) = ([0; 4], word & !SHARED);
        let lock = (word & !7).saturating_sub(8);
        platform::read_memory(process, lock, &mut bytes);
        let now = u32::from_ne_bytes(bytes) >> 3;
        let before = self.counts.insert((process, word), now);
        if before.is_some_and(|before| now > before) {
            self.passed.insert((process, word));
        }
    }

    /// A process has ended.
    pub(crate) fn forget(&mut self, process: u32) {
        self.counts.retain(|(of, _), _| *of != process);
    }
}

/// Where a stream of the C library has its number of a file and the address of its lock, in bytes,
/// and the upper half of its first word.
const FILE: usize = 0x70;
const LOCK: usize = 0x88;
const MAGIC: u32 = 0xfbad;
/// Where the lock of a stream that the program has opened is, behind the stream.
const OPENED: u64 = 0xe0;

/// Returns the file of the stream that a word is the lock of, if it is one.
pub(crate) fn stream(process: u32, lock: u64) -> Option<i32> {
    let number = |text| u64::from_str_radix(text, 16).ok();
    let opened = lock.saturating_sub(OPENED);
    let mut bytes = vec![0; LOCK + 8];
    if platform::read_memory(process, opened, &mut bytes) == bytes.len()
        && let Some(file) = file(&bytes, lock)
    {
        return Some(file);
    }
    // Those of its own, the C library has in its data.
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let is_data = |line: &&str| line.contains(" rw-p ") && line.contains("/libc");
    maps.lines().filter(is_data).find_map(|line| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let (start, end) = (number(start)?, number(end)?);
        let mut bytes = vec![0; usize::try_from(end - start).ok()?.min(MOST_DATA)];
        let read = platform::read_memory(process, start, &mut bytes);
        (0..read).step_by(8).find_map(|at| file(bytes.get(at..read)?, lock))
    })
}

/// The most bytes of the C library's data that are looked at.
const MOST_DATA: usize = 1 << 16;

/// Returns the file of a stream, if these are the bytes of one with this lock.
fn file(bytes: &[u8], lock: u64) -> Option<i32> {
    let of_lock = u64::from_ne_bytes(bytes.get(LOCK..LOCK + 8)?.try_into().ok()?);
    let flags = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    let file = i32::from_ne_bytes(bytes.get(FILE..FILE + 4)?.try_into().ok()?);
    (of_lock == lock && flags >> 16 == MAGIC).then_some(file)
}
