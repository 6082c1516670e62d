//! The host of S2 and S4: Linux's fair scheduler of that time, and its directed yields.
//!
//! It takes the events and gives the actions of `overlock_vcpu::host`'s scheduler, under the same
//! policies, and differs from it in four things that a guest feels:
//!
//! - Each pCPU has a queue of its own. A pCPU that falls idle fetches a vCPU from another queue
//!   only if it is usually idle for longer than [`MIGRATION_NS`], and not one that ran just before;
//!   otherwise the vCPU waits for the next periodic look.
//! - A vCPU that wakes gets the pCPU that it had, or an idle one of the same socket. It replaces an
//!   owner only if it lags by [`WAKEUP_NS`].
//! - A directed yield hands nothing over: it makes the chosen vCPU the next on *its own* pCPU,
//!   whose owner is preempted, and asks to be skipped on the spinner's. Both are hints, which count
//!   only as far as the vCPU that lags most is within [`WAKEUP_NS`].
//! - The handler of a pause loop can't tell a vCPU that runs in the host (in the same handler, say)
//!   from one that waits. It attempts to yield to it, takes the locks of two run queues for that,
//!   and fails. Since 3.9 an attempt fails without these locks if no other
//!   vCPU waits for either pCPU, and the handler gives up after three of those; and since 3.17 the
//!   pause window of a vCPU doubles with each exit, until it loses its pCPU.
//!
//! Left out: groups, weights, NUMA placement, and the affine choice between the waker's pCPU and
//! the sleeper's own.
//!
//! # Sources
//! Linux 3.5, 3.9, 3.17 and 4.14, `kernel/sched/fair.c`, `core.c` (`yield_to`),
//! `virt/kvm/kvm_main.c` (`kvm_vcpu_on_spin`); the spans are the defaults for eight CPUs and more.

use overlock_sim::hosts::OtherScheduler;
use overlock_vcpu::host::sched::yield_to::{
    Candidate, Cause, Chosen, Decision, Missed, Notice, Outcome, Policy, Ruling, Skipped, Tally,
    Trace, View,
};
use overlock_vcpu::host::sched::{Action, Event, Spin, Standing, Usage};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};

mod queues;

/// The period in which every vCPU of a queue is to run once.
const LATENCY_NS: u64 = 24_000_000;
/// The least of it for each.
const GRANULARITY_NS: u64 = 3_000_000;
/// By how much a vCPU that wakes must lag, and by how much one that is boosted may lead.
const WAKEUP_NS: i64 = 4_000_000;
/// What moving a vCPU to another pCPU is taken to cost.
const MIGRATION_NS: u64 = 500_000;
/// How many times as seldom a busy pCPU looks for work elsewhere as an idle one.
const BUSY_FACTOR: u64 = 32;
/// How many attempts may fail for want of waiting vCPUs.
const TRIES: u32 = 3;
/// The interval at which a running vCPU's slice is looked at.
const TICK_NS: u64 = 1_000_000;

/// One vCPU, which is a thread of the host.
#[derive(Clone, Debug, Default)]
struct Task {
    standing: Standing,
    /// Its virtual time, relative to that of other vCPUs in the same queue.
    time: i64,
    home: u32,
    since: u64,
    usage: Usage,
    kicked: bool,
    woken: bool,
    begun: bool,
    spinning: bool,
    in_user: bool,
    /// When it last left a pCPU.
    left_at: u64,
    /// From when and until when it is in the host, although it has a pCPU.
    in_host: (u64, u64),
}

/// One pCPU and its queue.
#[derive(Clone, Debug, Default)]
struct Queue {
    owner: Option<u32>,
    /// When the owner was picked.
    picked: u64,
    waiting: Vec<u32>,
    /// The vCPU that a yield asked to run next, and the one that asked to be skipped.
    next: Option<u32>,
    skip: Option<u32>,
    preempting: bool,
    /// The least virtual time that vCPUs join with; it never goes back.
    least: i64,
    /// When the owner's slice is looked at next.
    tick_at: u64,
    idle_since: Option<u64>,
    /// How long it is usually idle.
    idle_ns: u64,
    /// How often it has looked for work elsewhere.
    looks: u64,
    /// Until when attempts to yield have its lock.
    locked_until: u64,
}

#[derive(Debug)]
pub(super) struct Cfs {
    policy: Box<dyn Policy + Send>,
    now: u64,
    tasks: Vec<Task>,
    queues: Vec<Queue>,
    /// pCPUs of a socket.
    socket: u32,
    /// vCPUs of a guest.
    guest: u32,
    /// Whether the handler of pause loops is that of Linux 3.5.
    is_2012: bool,
    tally: Tally,
    /// The handlers of pause loops that go on, by vCPU.
    handlers: Vec<Option<Handler>>,
    /// The pCPU for the lock of whose queue the last step of a handler has to go, if it has.
    attempt: Option<u32>,
}

/// A handler of a pause loop, between two attempts.
#[derive(Clone, Debug)]
struct Handler {
    spin: Spin,
    decision: Decision,
    /// The vCPUs that turned out to run.
    failed: Vec<u32>,
    tries: u32,
}

impl OtherScheduler for Cfs {
    fn standing(&self, vcpu: u32) -> Standing {
        self.tasks[vcpu as usize].standing
    }

    fn owner(&self, pcpu: u32) -> Option<u32> {
        self.queues[pcpu as usize].owner
    }

    fn is_preempting(&self, pcpu: u32) -> bool {
        self.queues[pcpu as usize].preempting
    }

    fn queued(&self) -> u32 {
        self.queues.iter().map(|queue| queue.waiting.len() as u32).sum()
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn picked(&self, pcpu: u32) -> u64 {
        self.queues[pcpu as usize].picked
    }

    fn tick(&self, pcpu: u32) -> Option<u64> {
        let queue = &self.queues[pcpu as usize];
        let due = queue.owner.is_some() && !queue.waiting.is_empty() && !queue.preempting;
        due.then_some(queue.tick_at)
    }

    fn look_every_ns(&self) -> u64 {
        u64::from(self.socket.min(self.queues.len() as u32)) * TICK_NS
    }

    fn locks(&mut self, own: u32, theirs: u32, ns: u64) -> u64 {
        let free = |pcpu: u32| self.queues[pcpu as usize].locked_until;
        let until = self.now.max(free(own)).max(free(theirs)) + ns;
        for pcpu in [own, theirs] {
            self.queues[pcpu as usize].locked_until = until;
        }
        until
    }

    fn is_in_host(&mut self, vcpu: u32, from: u64, until: u64) {
        self.tasks[vcpu as usize].in_host = (from, until);
    }

    fn usage(&self, now: u64, vcpu: u32) -> Usage {
        self.accounted(vcpu, now).usage
    }

    fn on(&mut self, now: u64, event: Event, actions: &mut Vec<Action>) {
        self.now = now;
        match event {
            Event::Halted { vcpu } => self.halted(vcpu.0, actions),
            Event::LongSpin { spin } => self.long_spin(&spin, actions),
            Event::Yielded { vcpu } => {
                let Some(pcpu) = self.owned(vcpu.0) else { return };
                self.queues[pcpu as usize].skip = Some(vcpu.0);
                self.switch(pcpu, Some(vcpu.0), actions);
            }
            Event::YieldedTo { vcpu, to } => self.yields_to(vcpu.0, to.0, actions),
            Event::Preempted { vcpu } => {
                let Some(pcpu) = self.owned(vcpu.0) else { return };
                if self.queues[pcpu as usize].preempting {
                    self.policy.notice(Nanos(now), Notice::Worked(vcpu));
                }
                self.switch(pcpu, Some(vcpu.0), actions);
            }
            Event::Stopped { vcpu } => self.stopped(vcpu.0, actions),
            Event::Kicked { target } => self.wake(target.0, actions),
            Event::Ipi { from, to } => {
                self.policy.notice(Nanos(now), Notice::Ipi { from, to });
                self.wake(to.0, actions);
            }
            Event::Answered { vcpu } => self.policy.notice(Nanos(now), Notice::Answered(vcpu)),
            Event::Timer { pcpu } => self.timer(pcpu.0, actions),
            Event::InUser { vcpu } => self.tasks[vcpu.index()].in_user = true,
            Event::CriticalSection { .. } | Event::Plugged { .. } => {}
        }
    }

    fn handles(&self, vcpu: u32) -> bool {
        self.handlers[vcpu as usize].is_some()
    }

    // The next step of a spinner's handler, which attempts to yield to one candidate after the
    // other, until it succeeds or the policy knows no other. A step ends with an attempt, which
    // takes time.
    fn go_on(&mut self, now: u64, spinner: u32, actions: &mut Vec<Action>) {
        self.now = now;
        self.handle(spinner, actions);
    }

    fn look(&mut self, now: u64, pcpu: u32, actions: &mut Vec<Action>) {
        self.looks_elsewhere(now, pcpu, actions);
    }

    fn take_attempt(&mut self) -> Option<u32> {
        self.attempt.take()
    }

    fn windows_grow(&self) -> bool {
        !self.is_2012
    }
}

impl Cfs {
    pub(super) fn new(
        (vcpus, guest): (u32, u32),
        (pcpus, socket): (u32, u32),
        is_2012: bool,
        policy: Box<dyn Policy + Send>,
    ) -> Self {
        let task = |vcpu: u32| Task { home: vcpu % pcpus, ..Task::default() };
        let idle = Queue { idle_since: Some(0), idle_ns: 2 * MIGRATION_NS, ..Queue::default() };
        Self {
            policy,
            now: 0,
            tasks: (0..vcpus).map(task).collect(),
            // Busy pCPUs look for work one after the other.
            queues: (0..u64::from(pcpus))
                .map(|pcpu| Queue { looks: pcpu * BUSY_FACTOR / u64::from(pcpus), ..idle.clone() })
                .collect(),
            socket: socket.max(1),
            guest: guest.max(1),
            is_2012,
            tally: Tally::default(),
            handlers: vec![None; vcpus as usize],
            attempt: None,
        }
    }

    fn halted(&mut self, vcpu: u32, actions: &mut Vec<Action>) {
        let Some(pcpu) = self.owned(vcpu) else { return };
        if std::mem::take(&mut self.tasks[vcpu as usize].kicked) {
            return self.run(vcpu, pcpu, actions);
        }
        self.policy.notice(Nanos(self.now), Notice::Worked(Vcpu(vcpu)));
        self.leave(vcpu, pcpu, Standing::Halted);
        self.switch(pcpu, None, actions);
    }

    fn stopped(&mut self, vcpu: u32, actions: &mut Vec<Action>) {
        let standing = self.standing(vcpu);
        self.policy.notice(Nanos(self.now), Notice::Answered(Vcpu(vcpu)));
        match standing {
            Standing::Running(Pcpu(pcpu)) => {
                self.leave(vcpu, pcpu, Standing::Stopped);
                self.switch(pcpu, None, actions);
            }
            Standing::Queued(_) => self.dequeue(vcpu),
            Standing::Halted | Standing::Stopped => {}
        }
        self.account(vcpu);
        self.tasks[vcpu as usize].standing = Standing::Stopped;
    }

    /// The slice of the owner of `pcpu` is looked at.
    fn timer(&mut self, pcpu: u32, actions: &mut Vec<Action>) {
        let Some(owner) = self.owner(pcpu) else { return };
        self.account(owner);
        let tick_at = self.next_tick(pcpu);
        let queue = &mut self.queues[pcpu as usize];
        queue.tick_at = tick_at;
        let running = queue.waiting.len() as u64 + 1;
        let slice = LATENCY_NS.max(GRANULARITY_NS * running) / running;
        let ran = self.now - queue.picked;
        let Some(first) = self.first(pcpu) else { return };
        let lead = self.tasks[owner as usize].time - self.tasks[first as usize].time;
        if ran > slice || ran >= GRANULARITY_NS && lead > slice as i64 {
            self.preempt(pcpu, actions);
        } else {
            actions.push(Action::SetTimer { pcpu: Pcpu(pcpu), at: Nanos(tick_at) });
        }
    }

    fn wake(&mut self, target: u32, actions: &mut Vec<Action>) {
        let task = &mut self.tasks[target as usize];
        match task.standing {
            Standing::Stopped => {}
            Standing::Running(_) => task.kicked = true,
            Standing::Queued(_) => task.kicked |= !task.woken,
            Standing::Halted => {
                self.account(target);
                let home = self.tasks[target as usize].home;
                let pcpu = self.idle_near(home).unwrap_or(home);
                self.move_to(target, pcpu);
                let least = self.queues[pcpu as usize].least;
                let task = &mut self.tasks[target as usize];
                (task.begun, task.woken) = (true, true);
                // A sleeper joins at most half a period before the others.
                task.time = task.time.max(least - LATENCY_NS as i64 / 2);
                self.enqueue(target, pcpu);
                self.wakes_up(target, pcpu, actions);
            }
        }
    }

    /// Lets `target`, which has just joined the queue of `pcpu`, run there if it should.
    fn wakes_up(&mut self, target: u32, pcpu: u32, actions: &mut Vec<Action>) {
        let Some(owner) = self.owner(pcpu) else {
            self.ends_idle(pcpu);
            return self.switch(pcpu, None, actions);
        };
        self.account(owner);
        let lag = self.tasks[owner as usize].time - self.tasks[target as usize].time;
        if lag > WAKEUP_NS {
            self.preempt(pcpu, actions);
        } else {
            let at = Nanos(self.queues[pcpu as usize].tick_at);
            actions.push(Action::SetTimer { pcpu: Pcpu(pcpu), at });
        }
    }

    fn long_spin(&mut self, spin: &Spin, actions: &mut Vec<Action>) {
        let spinner = spin.vcpu.0;
        self.tasks[spinner as usize].spinning = true;
        let mut decision = self.decision(spinner, Cause::Spin(spin.source));
        let seen = self.candidates(spinner, None);
        let pcpus = self.queues.len() as u32;
        decision.truth = spin.awaited(&View::new(Nanos(self.now), pcpus, &seen));
        self.handlers[spinner as usize] =
            Some(Handler { spin: *spin, decision, failed: Vec::new(), tries: TRIES });
        self.handle(spinner, actions);
    }

    fn handle(&mut self, spinner: u32, actions: &mut Vec<Action>) {
        let Some(mut handler) = self.handlers[spinner as usize].take() else { return };
        let Some(pcpu) = self.owned(spinner) else { return };
        let (now, pcpus) = (Nanos(self.now), self.queues.len() as u32);
        let Handler { spin, decision, failed, tries } = &mut handler;
        decision.outcome = loop {
            if *tries == 0 {
                break Outcome::Stayed { why: Missed::NotOvercommitted };
            }
            let seen = self.candidates(spinner, Some((&decision.trace, failed)));
            let view = View::new(now, pcpus, &seen);
            match self.policy.on_spin(spin, &view, &mut decision.trace) {
                Ruling::To(Vcpu(to), why) => {
                    let theirs = self.tasks[to as usize].home;
                    let is_alone = |pcpu: u32| self.queues[pcpu as usize].waiting.is_empty();
                    let is_cheap = !self.is_2012 && is_alone(pcpu) && is_alone(theirs);
                    if !is_cheap {
                        self.attempt = Some(theirs);
                    }
                    if matches!(self.standing(to), Standing::Queued(_)) {
                        self.boost(to, pcpu, actions);
                        break Outcome::Directed { to: Vcpu(to), why };
                    }
                    decision.trace.skip(Vcpu(to), Skipped::Running);
                    failed.push(to);
                    if !is_cheap {
                        self.handlers[spinner as usize] = Some(handler);
                        return;
                    }
                    *tries -= 1;
                }
                Ruling::Plain(why) => match self.first(pcpu) {
                    Some(to) => break Outcome::Plain { to: Vcpu(to), why },
                    None => break Outcome::Stayed { why: Missed::NobodyWaits },
                },
                Ruling::Stay(why) => break Outcome::Stayed { why },
            }
        };
        self.tally.count(decision);
        if matches!(decision.outcome, Outcome::Stayed { .. }) {
            return self.run(spinner, pcpu, actions);
        }
        self.queues[pcpu as usize].skip = Some(spinner);
        self.switch(pcpu, Some(spinner), actions);
    }

    /// What `spinner` can know of all vCPUs: the truth, or what its handler sees, which looks at
    /// each once.
    fn candidates(&self, spinner: u32, looked: Option<(&Trace, &[u32])>) -> Vec<Candidate> {
        let seen = |vcpu: u32| {
            let candidate = self.candidate(spinner, vcpu);
            let Some((looked, failed)) = looked else { return candidate };
            let spins = looked.skipped(Vcpu(vcpu)) == Some(Skipped::Spinning);
            let runs = candidate.unfit == Some(Skipped::Running);
            match candidate {
                _ if spins => Candidate { unfit: Some(Skipped::Spinning), ..candidate },
                _ if runs && self.is_in_the_host(vcpu) && !failed.contains(&vcpu) => {
                    Candidate { unfit: None, spinning: true, in_user: false }
                }
                _ => candidate,
            }
        };
        (0..self.tasks.len() as u32).map(seen).collect()
    }

    /// `vcpu` asks for `to` by name.
    fn yields_to(&mut self, vcpu: u32, to: u32, actions: &mut Vec<Action>) {
        let Some(pcpu) = self.owned(vcpu) else { return };
        let mut decision = self.decision(vcpu, Cause::Request);
        if self.tasks.get(to as usize).is_some_and(|to| matches!(to.standing, Standing::Queued(_)))
        {
            self.boost(to, pcpu, actions);
            decision.outcome = Outcome::Directed { to: Vcpu(to), why: Chosen::Named };
            self.queues[pcpu as usize].skip = Some(vcpu);
        }
        self.tally.count(&decision);
        self.switch(pcpu, Some(vcpu), actions);
    }

    fn decision(&self, vcpu: u32, cause: Cause) -> Decision {
        Decision {
            at: Nanos(self.now),
            vcpu: Vcpu(vcpu),
            cause,
            truth: None,
            outcome: Outcome::Stayed { why: Missed::TargetUnfit },
            trace: Trace::new(self.tasks.len() as u32),
        }
    }

    /// What is true of `vcpu` when `spinner` spins.
    fn candidate(&self, spinner: u32, vcpu: u32) -> Candidate {
        let task = &self.tasks[vcpu as usize];
        let unfit = match task.standing {
            _ if vcpu == spinner => Some(Skipped::Itself),
            _ if vcpu / self.guest != spinner / self.guest => Some(Skipped::OtherGuest),
            Standing::Halted => Some(Skipped::Halted),
            Standing::Stopped => Some(Skipped::Stopped),
            Standing::Running(_) => Some(Skipped::Running),
            Standing::Queued(_) => None,
        };
        Candidate { unfit, spinning: task.spinning, in_user: task.in_user }
    }

    fn is_in_the_host(&self, vcpu: u32) -> bool {
        let (from, until) = self.tasks[vcpu as usize].in_host;
        (from..until).contains(&self.now)
    }
}

#[cfg(test)]
mod tests;
