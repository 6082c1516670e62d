// SPDX-License-Identifier: MIT OR Apache-2.0
//! What threads do at present, for sources that have to know.

use crate::analysis::Analysis;
use crate::timeline::State;

impl Analysis {
    /// Returns since when a thread could run and has had no processor, if that is so.
    #[must_use]
    pub fn preempted_since(&self, thread: u32) -> Option<u64> {
        let line = &self.threads.get(&thread)?.line;
        (line.state() == State::Preempted).then(|| line.since())
    }

    /// Returns whether a thread has a processor.
    #[must_use]
    pub fn runs(&self, thread: u32) -> bool {
        self.threads.get(&thread).is_some_and(|thread| thread.line.state() == State::Running)
    }

    /// Returns whether a thread is in a wait.
    #[must_use]
    pub fn waits(&self, thread: u32) -> bool {
        self.threads.get(&thread).is_some_and(|thread| thread.wait.is_some())
    }

    /// Returns whether a thread has slept in the wait that it is in.
    #[must_use]
    pub fn has_slept(&self, thread: u32) -> bool {
        let wait = self.threads.get(&thread).and_then(|thread| thread.wait.as_ref());
        wait.is_some_and(|wait| wait.slept)
    }

    /// Returns the waits that have not ended and began before a time: a thread and its word each,
    /// for a source that can look up the holder.
    pub fn waiting_since(&self, before: u64) -> impl Iterator<Item = (u32, u32, u64)> {
        self.threads.iter().filter_map(move |(id, thread)| {
            let wait = thread.wait.as_ref().filter(|wait| !wait.is_woken && wait.began < before)?;
            Some((*id, thread.process, wait.lock))
        })
    }
}
