//! The end of a run, and samples: everything that no vCPU's own thread does.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::delay::Delay;
use super::state::{State, Vcpus};
use super::turn::Turn;
use super::{Host, accounts};
use crate::host::sched::yield_to::Tally;
use crate::host::{Nanos, Pcpu, Vcpu};
use crate::lab::config::nanos;
use crate::lab::error::{Error, Stuck};
use crate::lab::place::Place;
use overlock_bench::RunConfig;
use overlock_results::Accounts;

/// How often to check whether a run has been cancelled, if it can be.
const PATIENCE: Duration = Duration::from_millis(20);

/// The host's account of a run that is over.
#[derive(Debug)]
pub(crate) struct Report {
    /// Nanoseconds from the first entry to the setting of the stop flag.
    pub(crate) ran_ns: u64,
    pub(crate) stopped_ns: u64,
    pub(crate) accounts: Vec<Accounts>,
    pub(crate) yields: Tally,
    pub(crate) failure: Option<Error>,
}

impl Host<'_> {
    /// Waits until the run has ended and all vCPUs with it. The thread that started them calls
    /// this.
    pub(crate) fn supervise(&self, config: &RunConfig) {
        loop {
            let (stopped, errands) = self.turn(|turn| turn.look(config));
            self.run(errands);
            if stopped {
                self.note_delays();
            }
            let state = self.lock();
            if state.alive == 0 {
                return;
            }
            // An event since the last check may have asked for an earlier one, unnoticed.
            let now = self.clock.now_ns();
            match state.next_alarm(config) {
                Some(alarm) if alarm <= now => {}
                Some(alarm) => {
                    let sleep = Duration::from_nanos(alarm - now);
                    let sleep = if config.cancel.is_some() { sleep.min(PATIENCE) } else { sleep };
                    drop(self.supervisor.wait_timeout(state, sleep));
                }
                None if config.cancel.is_some() => {
                    drop(self.supervisor.wait_timeout(state, PATIENCE));
                }
                None => drop(self.supervisor.wait(state)),
            }
        }
    }

    /// Records how long each thread has waited for one of the system's CPUs, up to the end of the
    /// run.
    fn note_delays(&self) {
        let delays: Vec<u64> = self.vcpus.posts.iter().map(|post| post.delay.sum()).collect();
        if let Some((accounts, _)) = &mut self.lock().books_at_stop {
            for (accounts, delay) in accounts.iter_mut().zip(delays) {
                accounts.run_delay_ns = delay;
            }
        }
    }

    /// Accounts for the run, which is over: every vCPU has ended.
    pub(crate) fn report(&self, grace: Duration) -> Report {
        let mut state = self.lock();
        // A run whose programs return by themselves has no stop.
        let stopped_ns = state.stopped.unwrap_or_else(|| self.clock.now_ns());
        let ran_ns = stopped_ns - state.started.unwrap_or(stopped_ns);
        let mut stuck = std::mem::take(&mut state.stuck);
        stuck.sort_by_key(|stuck| stuck.vcpu);
        let runaway = (!stuck.is_empty()).then_some(Error::Runaway { grace, stuck });
        let (accounts, yields) = state
            .books_at_stop
            .take()
            .unwrap_or_else(|| state.books(&self.vcpus, stopped_ns, Delay::sum));
        Report { ran_ns, stopped_ns, accounts, yields, failure: state.failure.take().or(runaway) }
    }

    /// Records that `vcpu` was ended by force, at the place that `find` finds.
    pub(crate) fn abandoned(&self, vcpu: u32, find: impl FnOnce() -> Place) {
        let mut state = self.lock();
        // Its place is of no interest when the run has ended for a better reason.
        if state.failure.is_some() {
            return;
        }
        let doing = state.guests[vcpu as usize].last;
        drop(state);
        let place = find();
        state = self.lock();
        state.stuck.push(Stuck { vcpu, doing, place });
    }
}

impl Turn<'_> {
    /// Does everything that is due; returns whether that was to set the stop flag.
    fn look(&mut self, config: &RunConfig) -> bool {
        let Some(started) = self.state.started else { return false };
        self.look_for_a_sample(config, started);
        self.state.end_at.get_or_insert(started.saturating_add(nanos(config.duration).0));
        let cancelled = config.cancel.is_some_and(|cancel| cancel.load(Relaxed));
        match self.state.stopped {
            None if cancelled || self.state.end_at.is_some_and(|end| end <= self.now) => {
                self.state.stopped = Some(self.now);
                self.state.books_at_stop = Some(self.state.books(self.vcpus, self.now, |_| 0));
                self.vcpus.records[0].shared().stop.store(true, Relaxed);
                return true;
            }
            Some(stopped)
                if !self.state.forced
                    && self.now >= stopped.saturating_add(nanos(config.grace).0) =>
            {
                self.force();
            }
            _ => {}
        }
        false
    }

    /// Takes the sample that is due, the first one period after the start: asks every vCPU in the
    /// guest where it is.
    fn look_for_a_sample(&mut self, config: &RunConfig, started: u64) {
        let Some(every) = config.sample_every else { return };
        let every = nanos(every).0;
        let due = *self.state.next_sample.get_or_insert(started.saturating_add(every));
        if due > self.now {
            return;
        }
        self.state.next_sample = Some(self.now.saturating_add(every));
        let scheduler = &self.state.scheduler;
        for Vcpu(vcpu) in (0..scheduler.config().pcpus).filter_map(|n| scheduler.owner(Pcpu(n))) {
            self.vcpus.posts[vcpu as usize].sample.store(true, Relaxed);
            self.errands.evict.insert(vcpu);
        }
    }
}

impl State {
    /// Returns the accounts of each vCPU, with the `delay` of its thread, and the yields, until
    /// `now`.
    fn books(
        &self,
        vcpus: &Vcpus,
        now: u64,
        delay: impl Fn(&Delay) -> u64,
    ) -> (Vec<Accounts>, Tally) {
        let lives = (0..).zip(&self.guests).zip(&vcpus.posts).map(|((vcpu, guest), post)| {
            let usage = self.scheduler.usage(Nanos(now), Vcpu(vcpu)).unwrap_or_default();
            let life = accounts::with(guest.accounts.clone(), usage, delay(&post.delay));
            let stints = self.notes.as_ref().map(|notes| notes.of(vcpu, now)).unwrap_or_default();
            Accounts { pm_reads: post.pm_reads.load(Relaxed), stints, ..life }
        });
        (lives.collect(), self.scheduler.tally().clone())
    }

    /// Returns when to check next, if not only when all have ended.
    fn next_alarm(&self, config: &RunConfig) -> Option<u64> {
        self.started?;
        let end = match self.stopped {
            None => self.end_at.unwrap_or(0),
            Some(_) if self.forced => u64::MAX,
            Some(stopped) => stopped.saturating_add(nanos(config.grace).0),
        };
        Some(end.min(self.next_sample.unwrap_or(u64::MAX))).filter(|&alarm| alarm != u64::MAX)
    }
}
