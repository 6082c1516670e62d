//! Everything that time brings about: slices that end, halts that time out, samples, and the end.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{Accounts, Doing, Errands, Host, State};
use crate::engine::Config;
use crate::error::{Error, Stuck};
use crate::place::Place;
use overlock_host::sched::Event;
use overlock_host::sched::yield_to::Tally;
use overlock_host::{Pcpu, Vcpu};

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
    /// Runs the clock of the run until all vCPUs have ended. Called by the thread that started them.
    pub(crate) fn supervise(&self, config: &Config) {
        let mut state = self.lock();
        while state.alive > 0 {
            let mut errands = Errands::default();
            let now = self.clock.now_ns();
            state.look(self, now, config, &mut errands);
            let alarm = state.next_alarm(now);
            state.alarm = alarm;
            drop(state);
            self.run(errands);
            state = self.lock();
            // What happened meanwhile may have asked for an earlier look, unheard.
            let now = self.clock.now_ns();
            let sleep = state.next_alarm(now).min(alarm).saturating_sub(now);
            if state.alive > 0 && sleep > 0 {
                let sleep = Duration::from_nanos(sleep);
                let woken = self.supervisor.wait_timeout(state, sleep);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// The run is over: every vCPU has ended.
    pub(crate) fn report(&self, grace: Duration) -> Report {
        let mut state = self.lock();
        let accounts = state.guests.iter().zip(&self.posts).map(|(guest, post)| Accounts {
            pm_reads: post.pm_reads.load(Relaxed),
            ..guest.accounts.clone()
        });
        let accounts = accounts.collect();
        // A run whose programs return by themselves has no stop.
        let stopped_ns = state.stopped.unwrap_or_else(|| self.clock.now_ns());
        let ran_ns = stopped_ns - state.started.unwrap_or(stopped_ns);
        let mut stuck = std::mem::take(&mut state.stuck);
        stuck.sort_by_key(|stuck| stuck.vcpu);
        let runaway = (!stuck.is_empty()).then(|| Error::Runaway { grace, stuck });
        let yields = state.scheduler.tally().clone();
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

impl State {
    /// Does everything that is due.
    fn look(&mut self, host: &Host, now: u64, config: &Config, errands: &mut Errands) {
        for pcpu in 0..self.timers.len() {
            if self.timers[pcpu].is_some_and(|at| at <= now) {
                self.timers[pcpu] = None;
                self.slice_over(host, now, pcpu, errands);
            }
        }
        for vcpu in 0..self.guests.len() as u32 {
            if let Doing::Halted { deadline: Some(deadline), .. } = self.guests[vcpu as usize].doing
                && deadline <= now
            {
                self.wake(host, now, vcpu, None, errands);
            }
        }
        if let Some(every) = config.sample_every
            && self.next_sample.is_none_or(|at| at <= now)
        {
            self.next_sample = Some(now + every.as_nanos() as u64);
            self.sample(host, errands);
        }
        self.look_for_the_end(host, now, config, errands);
    }

    fn slice_over(&mut self, host: &Host, now: u64, pcpu: usize, errands: &mut Errands) {
        if let Some(vcpu) = self.owners[pcpu] {
            let record = &host.records[vcpu as usize];
            let inside = record.critical.load(Relaxed);
            // If that earns it a grace, the guest has to say when the section is over.
            record.yield_wanted.store(inside, Relaxed);
            let event = Event::CriticalSection { vcpu: Vcpu(vcpu), inside };
            self.tell(host, now, event, errands);
        }
        self.tell(host, now, Event::Timer(Pcpu(pcpu as u32)), errands);
    }

    /// Asks everyone in the guest where it is.
    fn sample(&mut self, host: &Host, errands: &mut Errands) {
        for (vcpu, guest) in (0..).zip(&self.guests) {
            if matches!(guest.doing, Doing::Running { .. }) {
                host.posts[vcpu as usize].sample.store(true, Relaxed);
                errands.evict.insert(vcpu);
            }
        }
    }

    /// Sets the stop flag when the time is over, and ends by force who does not heed it.
    fn look_for_the_end(&mut self, host: &Host, now: u64, config: &Config, errands: &mut Errands) {
        let Some(started) = self.started else { return };
        self.end_at.get_or_insert(started + config.duration.as_nanos() as u64);
        let cancelled = config.cancel.is_some_and(|cancel| cancel.load(Relaxed));
        match self.stopped {
            None if cancelled || self.end_at.is_some_and(|end| end <= now) => {
                self.stopped = Some(now);
                host.records[0].shared().stop.store(true, Relaxed);
            }
            Some(stopped) if !self.forced && now >= stopped + config.grace.as_nanos() as u64 => {
                self.force(host, now, errands);
            }
            _ => {}
        }
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
