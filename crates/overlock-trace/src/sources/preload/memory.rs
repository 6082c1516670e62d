//! The memory in which the threads of traced processes tell what they do: the layout of
//! `preload/layout.h`.
//!
//! It is a file without a name, so nothing is left behind, and what a process has told stays there
//! however it ends.

use anyhow::{Context, Result};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

const LAYOUT: u32 = 3;
const CHUNKS: usize = 16384;
const CHUNK_EVENTS: usize = 128;

const FREE: u32 = 0;
const OPEN: u32 = 1;
const CLOSED: u32 = 2;

/// Whether what threads tell is read.
const WATCHED: u32 = 1;
const ENDED: u32 = 2;

pub(super) const WAITS: u8 = 1;
pub(super) const GOT: u8 = 2;
pub(super) const TAKES: u8 = 3;
pub(super) const WAKES: u8 = 4;
pub(super) const LEAVES: u8 = 5;
pub(super) const ACCOUNT: u8 = 6;
pub(super) const YIELDS: u8 = 7;
pub(super) const SLEPT: u8 = 8;
pub(super) const STACK: u8 = 9;

/// One event: the meaning of its fields is in `preload/layout.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    pub(super) at: u64,
    pub(super) lock: u64,
    pub(super) other: u64,
    pub(super) thread: u32,
    pub(super) what: u8,
    pub(super) kind: u8,
    pub(super) site: u16,
}

impl Event {
    /// Returns the memory of a slot that holds a part of a stack.
    pub(super) fn bytes(&self) -> [u8; size_of::<Self>()] {
        // SAFETY: plain data without padding.
        unsafe { std::mem::transmute(*self) }
    }
}

#[repr(C, align(64))]
struct Head {
    state: AtomicU32,
    count: AtomicU32,
    process: u32,
    thread: u32,
    serial: u64,
}

#[repr(C, align(4096))]
struct Shared {
    token: AtomicU64,
    layout: AtomicU32,
    joined: AtomicU32,
    dropped: AtomicU64,
    claims: AtomicU64,
    is_watched: AtomicU32,
    hint: AtomicU32,
    used: AtomicU32,
    accounts: AtomicU32,
}

/// Behind a page of words and four of locks that processes share.
const HEADS: usize = 5 * 4096;
const EVENTS: usize = HEADS + CHUNKS * size_of::<Head>();
const SIZE: usize = EVENTS + CHUNKS * CHUNK_EVENTS * size_of::<Event>();
const _: () = assert!(size_of::<Event>() == 32 && size_of::<Head>() == 64);
const _: () = assert!(size_of::<Shared>() == 4096 && SIZE == 5 * 4096 + CHUNKS * (64 + 4096));

/// The smallest descriptor that the memory gets, if that many are allowed: a program may rely on
/// the small numbers.
const DESCRIPTOR: RawFd = 600;
/// Chunks of threads that are gone are looked for when so many are in use, each time after so many
/// turns.
const MANY: usize = CHUNKS / 2;
const TURNS: u32 = 50;

#[derive(Debug)]
pub(super) struct Memory {
    file: OwnedFd,
    base: NonNull<u8>,
    token: u64,
    /// How many events of each chunk have been read.
    read: Vec<u32>,
    turns: u32,
}

#[derive(Debug)]
pub(super) struct Batch {
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) events: Vec<Event>,
}

impl Memory {
    pub(super) fn new() -> Result<Self> {
        Self::make().context("can't make memory for what the program's threads tell")
    }

    fn make() -> Result<Self> {
        // SAFETY: a C string.
        let file = unsafe { libc::memfd_create(c"overlock trace".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        // SAFETY: the call has just made this descriptor, and no other code knows it.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // SAFETY: takes integers and touches no memory.
        let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, DESCRIPTOR) };
        // SAFETY: the call has just made this descriptor, and no other code knows it.
        let file = if copy < 0 { file } else { unsafe { OwnedFd::from_raw_fd(copy) } };
        let file = File::from(file);
        file.set_len(SIZE as u64)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base =
            unsafe { libc::mmap(null_mut(), SIZE, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        let base = NonNull::new(base.cast()).filter(|_| base != libc::MAP_FAILED);
        let base = base.ok_or_else(std::io::Error::last_os_error)?;
        let token = RandomState::new().build_hasher().finish().max(1);
        let memory = Memory { file: file.into(), base, token, read: vec![0; CHUNKS], turns: 0 };
        memory.shared().layout.store(LAYOUT, Relaxed);
        memory.shared().token.store(token, Relaxed);
        Ok(memory)
    }

    /// Returns the descriptor, which the program has to inherit.
    pub(super) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Returns what the variable of the library says.
    pub(super) fn variable(&self) -> String {
        format!("{}:{}:{}", self.descriptor(), std::process::id(), self.token)
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping begins with it and lasts as long as `self`; all of it is atomic.
        unsafe { self.base.cast().as_ref() }
    }

    /// Lets the program go: from now on it is watched.
    pub(super) fn watched(&self) {
        self.says(WATCHED);
    }

    /// Lets threads tell the accounts of holders they wait for, too.
    pub(super) fn wants_accounts(&self) {
        self.shared().accounts.store(1, Relaxed);
    }

    fn says(&self, whether: u32) {
        let word = &self.shared().is_watched;
        word.store(whether, Relaxed);
        // SAFETY: the word is only an address here; the kernel wakes those that wait by it.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Returns how many processes have loaded the library.
    pub(super) fn joined(&self) -> u32 {
        self.shared().joined.load(Relaxed)
    }

    /// Returns how many events found no room.
    pub(super) fn dropped(&self) -> u64 {
        self.shared().dropped.load(Relaxed)
    }

    /// Reads what is new: for each thread in its order.
    pub(super) fn drain(&mut self) -> Vec<Batch> {
        let used = (self.shared().used.load(Relaxed) as usize).min(CHUNKS);
        let mut first_free = None;
        self.turns += 1;
        let finds_dead = used > MANY && self.turns.is_multiple_of(TURNS);
        let mut batches = Vec::new();
        for index in 0..used {
            // SAFETY: the heads are behind the first page, and `index` is below their number.
            let head = unsafe { self.base.add(HEADS).cast::<Head>().add(index) };
            // SAFETY: only its atomic fields are accessed here.
            let (state, count) = unsafe { (&(*head.as_ptr()).state, &(*head.as_ptr()).count) };
            // ORDERING: pairs with the store of a thread that closes it: the count is then final.
            let now = state.load(Acquire);
            if now == FREE {
                first_free.get_or_insert(index);
                continue;
            }
            // ORDERING: pairs with the store of a thread that publishes: what is below is complete.
            let end = count.load(Acquire).min(CHUNK_EVENTS as u32);
            let start = self.read[index];
            if end > start {
                // SAFETY: written before the count, which is not zero, and not changed until the
                // chunk is free.
                let (process, thread, serial) = unsafe {
                    let head = head.as_ptr();
                    ((*head).process, (*head).thread, (*head).serial)
                };
                let at = EVENTS + index * CHUNK_EVENTS * size_of::<Event>();
                // SAFETY: inside of the mapping; the thread changes nothing below the count.
                let events = unsafe {
                    let first = self.base.add(at).cast::<Event>().as_ptr().add(start as usize);
                    std::slice::from_raw_parts(first, (end - start) as usize).to_vec()
                };
                batches.push((serial, Batch { process, thread, events }));
                self.read[index] = end;
            }
            let is_dead = || {
                // SAFETY: as above, if anything was read; else zeros or of the chunk's last thread.
                let (process, thread) =
                    unsafe { ((*head.as_ptr()).process, (*head.as_ptr()).thread) };
                end > 0 && !Path::new(&format!("/proc/{process}/task/{thread}")).exists()
            };
            if now == CLOSED || (finds_dead && now == OPEN && end == start && is_dead()) {
                self.read[index] = 0;
                count.store(0, Relaxed);
                // ORDERING: pairs with the exchange by which a thread claims it.
                state.store(FREE, Release);
                first_free.get_or_insert(index);
            }
        }
        let hint = u32::try_from(first_free.unwrap_or(used)).unwrap_or(0);
        self.shared().hint.store(hint, Relaxed);
        batches.sort_by_key(|(serial, _)| *serial);
        batches.into_iter().map(|(_, batch)| batch).collect()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The program may go on, and need not tell any more.
        self.says(ENDED);
        // SAFETY: the mapping that `make` made; no reference to it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), SIZE) };
    }
}

// SAFETY: the mapping belongs to this value, on whichever thread it is.
unsafe impl Send for Memory {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    /// A program that outlives its trace must not fill the memory and search it for room.
    #[test]
    fn the_program_learns_that_the_trace_has_ended() {
        let memory = Memory::new().unwrap();
        let file = File::from(memory.file.try_clone().unwrap());
        let says = || {
            let mut word = [0; 4];
            file.read_exact_at(&mut word, std::mem::offset_of!(Shared, is_watched) as u64).unwrap();
            u32::from_ne_bytes(word)
        };
        assert_eq!(says(), 0);
        memory.watched();
        assert_eq!(says(), WATCHED);
        drop(memory);
        assert_eq!(says(), ENDED);
    }
}
