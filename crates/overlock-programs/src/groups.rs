//! The process groups of all living children, as a signal handler can read them.
//!
//! A list that only grows: an entry without a group is free, and is used again. Nothing in it is
//! ever freed, so a handler can follow it at any time.
//!
//! # A number that is used again
//! Once a child is reaped, its number may become that of a stranger. A handler on another thread
//! may have read it just before:
//! ```text
//!   handler:  READERS += 1 ── reads group ──────── kill ── READERS -= 1
//!   parent:                       group = 0 ── waits for READERS == 0 ── reaps
//! ```
//! All of these are SeqCst, so they have one order. If the handler has read the number, it read
//! before the parent wrote 0, so it had counted itself before the parent looks at `READERS`: the
//! parent reaps after the kill. Otherwise it has read 0, and kills nobody. A handler that
//! interrupts the parent's own thread ends before that thread goes on.

use rustix::process::{Pid, Signal, kill_process_group};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize};

/// The present place of a group, or a free one.
#[derive(Debug)]
struct Entry {
    /// The group, or 0.
    group: AtomicI32,
    /// The entry that was there before; set before the entry is published.
    next: *const Entry,
}

// SAFETY: `next` is never written after the entry was published, and entries are never freed.
unsafe impl Sync for Entry {}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(null_mut());
static READERS: AtomicUsize = AtomicUsize::new(0);

fn entries() -> impl Iterator<Item = &'static Entry> {
    // SAFETY: entries are leaked, so each pointer is null or valid for ever.
    let first = unsafe { FIRST.load(SeqCst).cast_const().as_ref() };
    // SAFETY: as above.
    std::iter::successors(first, |entry| unsafe { entry.next.as_ref() })
}

/// Sends SIGTERM to the groups of all living children: for a handler, at the first Ctrl-C.
pub fn end_all() {
    signal_all(Signal::TERM);
}

/// Sends SIGKILL to the groups of all living children: for a handler that ends the process.
pub fn kill_all() {
    signal_all(Signal::KILL);
}

fn signal_all(signal: Signal) {
    READERS.fetch_add(1, SeqCst);
    for entry in entries() {
        if let Some(group) = Pid::from_raw(entry.group.load(SeqCst)) {
            // An error means that the group has just gone.
            let _ = kill_process_group(group, signal);
        }
    }
    READERS.fetch_sub(1, SeqCst);
}

/// A group that [`signal_all`] knows, until it is told to forget it.
#[derive(Debug)]
pub(crate) struct Registered(&'static Entry);

impl Registered {
    pub(crate) fn new(group: Pid) -> Self {
        let group = group.as_raw_nonzero().get();
        let is_mine =
            |entry: &&Entry| entry.group.compare_exchange(0, group, SeqCst, SeqCst).is_ok();
        Registered(entries().find(is_mine).unwrap_or_else(|| added(group)))
    }

    /// Returns when no handler can send a signal to the group any more.
    pub(crate) fn forget(&self) {
        self.0.group.store(0, SeqCst);
        while READERS.load(SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}

fn added(group: i32) -> &'static Entry {
    let entry = Box::leak(Box::new(Entry { group: AtomicI32::new(group), next: null_mut() }));
    loop {
        let first = FIRST.load(SeqCst);
        entry.next = first;
        let entry = std::ptr::from_mut(entry);
        if FIRST.compare_exchange(first, entry, SeqCst, SeqCst).is_ok() {
            // SAFETY: leaked, and from now on only read.
            return unsafe { &*entry };
        }
    }
}
