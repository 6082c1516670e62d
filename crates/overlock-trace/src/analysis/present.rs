//! What threads do at present, for sources that have to know.

use super::engine::Analysis;
use super::state::{Site, State};

impl Analysis {
    /// Returns what a thread does, and since when.
    #[must_use]
    pub fn state(&self, thread: u32) -> Option<(State, u64)> {
        let line = &self.threads.get(&thread)?.line;
        Some((line.state(), line.since()))
    }

    /// Returns threads, each with its process, that have slept since before a time at a place that
    /// is not known.
    pub fn nameless_since(&self, before: u64) -> impl Iterator<Item = (u32, u32)> {
        self.threads.iter().filter_map(move |(id, thread)| {
            let is_nameless = matches!(thread.line.state(), State::Asleep(_, Site(0)));
            let is_it = is_nameless && !thread.has_ended && thread.line.since() < before;
            is_it.then_some((*id, thread.process))
        })
    }

    /// Returns where a thread waits or sleeps, or no place if it runs, if that is known.
    #[must_use]
    pub fn place_of(&self, thread: u32) -> Option<Option<Site>> {
        let thread = self.threads.get(&thread)?;
        match thread.line.state() {
            State::Asleep(_, Site(0)) => None,
            State::Asleep(_, site) => Some(Some(site)),
            State::Waiting(..) => thread.wait.as_ref().map(|wait| Some(wait.site)),
            State::Running => Some(None),
            _ => None,
        }
    }

    /// Returns since when a thread could run and has had no processor, if that is so.
    #[must_use]
    pub fn preempted_since(&self, thread: u32) -> Option<u64> {
        self.state(thread).filter(|(state, _)| *state == State::Preempted).map(|(_, since)| since)
    }

    /// Returns whether a thread has a processor.
    #[must_use]
    pub fn runs(&self, thread: u32) -> bool {
        self.state(thread).is_some_and(|(state, _)| state == State::Running)
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

    /// Returns the threads of a process that have not ended, what events last said of each, and how
    /// often it has got a processor: as long as that stays the same, it sleeps in one place.
    pub fn threads_of(&self, process: u32) -> impl Iterator<Item = (u32, State, u64)> {
        self.threads
            .iter()
            .filter(move |(_, thread)| thread.process == process && !thread.has_ended)
            .map(|(id, thread)| (*id, thread.line.state(), thread.turns))
    }
}
