//! The process groups of all living children, as a signal handler can read them.
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
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicUsize};

/// How many children can live at once: as many as there can be CPUs, on which they run.
const MOST: usize = 1 << 13;

/// The groups; where there is none, zero.
static GROUPS: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];
static READERS: AtomicUsize = AtomicUsize::new(0);

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
    for group in &GROUPS {
        if let Some(group) = Pid::from_raw(group.load(SeqCst)) {
            // An error means that the group has just gone.
            let _ = kill_process_group(group, signal);
        }
    }
    READERS.fetch_sub(1, SeqCst);
}

/// A group that [`signal_all`] knows, until it is told to forget it.
#[derive(Debug)]
pub(crate) struct Registered(&'static AtomicI32);

impl Registered {
    pub(crate) fn new(group: Pid) -> Self {
        let group = group.as_raw_nonzero().get();
        let takes = |place: &&AtomicI32| place.compare_exchange(0, group, SeqCst, SeqCst).is_ok();
        Registered(GROUPS.iter().find(takes).expect("no more children than CPUs"))
    }

    /// Returns when no handler can send a signal to the group any more.
    pub(crate) fn forget(&self) {
        self.0.store(0, SeqCst);
        while READERS.load(SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}
