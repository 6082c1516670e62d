// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that time brings about: slices that end, halts that time out, samples, and the end.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::turn::Turn;
use super::{Accounts, Doing, Host, State};
use crate::engine::{Config, nanos};
use crate::error::{Error, Stuck};
use crate::place::Place;
use overlock_host::sched::Event;
use overlock_host::sched::yield_to::Tally;
use overlock_host::{Nanos, Pcpu, Vcpu};

/// The longest sleep of the supervisor, so that a cancelled run ends soon.
const PATIENCE: Duration = Duration::from_millis(20);

/// What the host has to say when a run is over.
#[derive(Debug)]
pub(crate) struct Report {
    /// Nanoseconds from the first entry to the setting of the stop flag.
    pub(crate) ran_ns: u64,
    /// When that was.
    pub(crate) stopped_ns: u64,
    pub(crate) accounts: Vec<Accounts>,
    pub(crate) yields: Tally,
    pub(crate) failure: Option<Error>,
}

impl Host<'_> {
    /// Runs the clock of the run until all vCPUs have ended. Called by the thread that started
    /// them.
    pub(crate) fn supervise(&self, config: &Config) {
        loop {
            let errands = self.turn(|turn| {
                turn.look(config);
                turn.state.alarm = turn.state.next_alarm(turn.now);
            });
            self.run(errands);
            let state = self.lock();
            if state.alive == 0 {
                return;
            }
            // What happened since the look may have asked for an earlier one, unheard.
            let now = self.clock.now_ns();
            let alarm = state.next_alarm(now).min(state.alarm);
            if alarm > now {
                let sleep = Duration::from_nanos(alarm - now);
                drop(self.supervisor.wait_timeout(state, sleep));
            }
        }
    }

    /// The run is over: every vCPU has ended.
    pub(crate) fn report(&self, grace: Duration) -> Report {
        let mut state = self.lock();
        // A run whose programs return by themselves has no stop.
        let stopped_ns = state.stopped.unwrap_or_else(|| self.clock.now_ns());
        let ran_ns = stopped_ns - state.started.unwrap_or(stopped_ns);
        let mut stuck = std::mem::take(&mut state.stuck);
        stuck.sort_by_key(|stuck| stuck.vcpu);
        let runaway = (!stuck.is_empty()).then_some(Error::Runaway { grace, stuck });
        let (accounts, yields) =
            state.books_at_stop.take().unwrap_or_else(|| state.books(self, stopped_ns));
        Report { ran_ns, stopped_ns, accounts, yields, failure: state.failure.take().or(runaway) }
    }

    /// `vcpu` was ended by force, at the place that `find` finds.
    pub(crate) fn abandoned(&self, vcpu: u32, find: impl FnOnce() -> Place) {
        let mut state = self.lock();
        // Where it was is of no interest when the run has ended for a better reason.
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
    /// Does everything that is due.
    fn look(&mut self, config: &Config) {
        for pcpu in 0..self.state.timers.len() {
            self.look_at_slice(pcpu);
        }
        for vcpu in 0..self.state.guests.len() as u32 {
            if let Doing::Halted { deadline: Some(deadline), .. } =
                self.state.guests[vcpu as usize].doing
                && deadline <= self.now
            {
                self.wake(vcpu, None);
            }
        }
        self.look_for_a_sample(config);
        self.look_for_the_end(config);
    }

    /// If the slice on `pcpu` is over, tells the scheduler.
    pub(super) fn look_at_slice(&mut self, pcpu: usize) {
        if self.state.timers[pcpu].is_none_or(|at| at > self.now) {
            return;
        }
        self.state.timers[pcpu] = None;
        if let Some(vcpu) = self.state.owners[pcpu] {
            let record = &self.host.records[vcpu as usize];
            let inside = record.critical.load(Relaxed);
            // If that earns it a grace, the guest has to say when the section is over.
            let grace = self.state.scheduler.config().grace > Nanos::ZERO;
            record.yield_wanted.store(inside && grace, Relaxed);
            let event = Event::CriticalSection { vcpu: Vcpu(vcpu), inside };
            self.tell(event);
        }
        self.tell(Event::Timer(Pcpu(pcpu as u32)));
    }

    /// Takes the sample that is due, the first one period after the start.
    fn look_for_a_sample(&mut self, config: &Config) {
        let (Some(started), Some(every)) = (self.state.started, config.sample_every) else {
            return;
        };
        let every = nanos(every).0;
        let due = *self.state.next_sample.get_or_insert(started.saturating_add(every));
        if due <= self.now {
            self.state.next_sample = Some(self.now.saturating_add(every));
            self.sample();
        }
    }

    /// Asks everyone in the guest where it is.
    fn sample(&mut self) {
        for (vcpu, guest) in (0..).zip(&self.state.guests) {
            if matches!(guest.doing, Doing::Running { .. }) {
                self.host.posts[vcpu as usize].sample.store(true, Relaxed);
                self.errands.evict.insert(vcpu);
            }
        }
    }

    /// Sets the stop flag when the time is over, and ends by force who does not heed it.
    fn look_for_the_end(&mut self, config: &Config) {
        let Some(started) = self.state.started else { return };
        self.state.end_at.get_or_insert(started.saturating_add(nanos(config.duration).0));
        let cancelled = config.cancel.is_some_and(|cancel| cancel.load(Relaxed));
        match self.state.stopped {
            None if cancelled || self.state.end_at.is_some_and(|end| end <= self.now) => {
                self.state.stopped = Some(self.now);
                self.state.books_at_stop = Some(self.state.books(self.host, self.now));
                self.host.records[0].shared().stop.store(true, Relaxed);
            }
            Some(stopped)
                if !self.state.forced
                    && self.now >= stopped.saturating_add(nanos(config.grace).0) =>
            {
                self.force();
            }
            _ => {}
        }
    }
}

impl State {
    /// The life of each vCPU, and the yields, until `now`.
    fn books(&self, host: &Host, now: u64) -> (Vec<Accounts>, Tally) {
        let lives = self.guests.iter().zip(&host.posts).map(|(guest, post)| {
            let mut life = guest.accounts.clone();
            life.pm_reads = post.pm_reads.load(Relaxed);
            match guest.doing {
                Doing::Running { since } => life.ran_ns += now.saturating_sub(since),
                Doing::Queued { since } => life.steal_ns += now.saturating_sub(since),
                Doing::Halted { since, .. } => life.halted_ns += now.saturating_sub(since),
                Doing::NotReady | Doing::Ended => {}
            }
            life
        });
        (lives.collect(), self.scheduler.tally().clone())
    }

    /// When to look next.
    fn next_alarm(&self, now: u64) -> u64 {
        let halts = self.guests.iter().map(|guest| match guest.doing {
            Doing::Halted { deadline, .. } => deadline,
            _ => None,
        });
        let others = [self.end_at.filter(|_| self.stopped.is_none()), self.next_sample];
        let due = self.timers.iter().copied().chain(halts).chain(others).flatten().min();
        due.unwrap_or(u64::MAX).min(now + PATIENCE.as_nanos() as u64)
    }
}
