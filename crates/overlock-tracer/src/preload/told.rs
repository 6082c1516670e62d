// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a preloaded library has told, until its turn comes among the kernel's records.

use super::memory::{self, Batch};
use overlock_trace::Site;
use std::collections::{HashMap, VecDeque};

/// What threads have told and has not had its turn.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(super) events: VecDeque<Saying>,
    /// A stack that a thread has told, until its next wait.
    stacks: HashMap<u32, OwnStack>,
    /// The places that threads have numbered.
    pub(super) places: HashMap<(u32, u16), Site>,
    pub(super) conditions: HashMap<u32, Condition>,
}

#[derive(Debug)]
pub(super) struct Saying {
    pub(super) at: u64,
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) event: memory::Event,
    pub(super) stack: Option<OwnStack>,
}

#[derive(Debug)]
pub(super) struct OwnStack {
    pub(super) frame: u64,
    pub(super) pointer: u64,
    pub(super) code: u64,
    pub(super) bytes: Vec<u8>,
}

/// A thread's wait for a condition, at the end of which it takes a mutex.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) process: u32,
    pub(super) condition: u64,
    pub(super) mutex: u64,
    pub(super) site: Site,
    pub(super) is_signalled: bool,
    /// When it ran after a signal.
    pub(super) woke: Option<u64>,
}

impl Told {
    pub(super) fn take(&mut self, batch: Batch) {
        let Batch { process, thread, events } = batch;
        let mut events = events.into_iter();
        while let Some(event) = events.next() {
            if event.what == memory::STACK {
                let length = event.thread as usize;
                let slots = length.div_ceil(size_of::<memory::Event>());
                let mut bytes = Vec::with_capacity(slots * size_of::<memory::Event>());
                events.by_ref().take(slots).for_each(|slot| bytes.extend(slot.bytes()));
                bytes.truncate(length);
                let (frame, code, pointer) = (event.at, event.lock, event.other);
                self.stacks.insert(thread, OwnStack { frame, pointer, code, bytes });
                continue;
            }
            let is_wait = event.what == memory::WAITS;
            let stack = if is_wait { self.stacks.remove(&thread) } else { None };
            self.events.push_back(Saying { at: event.at, process, thread, event, stack });
        }
    }
}
