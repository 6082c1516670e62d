// SPDX-License-Identifier: MIT OR Apache-2.0
//! One turn at the state: something has happened, the scheduler is told, and what it says is done.
//!
//! ```text
//!               wake                  Run
//!  Halted ───────────────► Queued ──────────► Running
//!    ▲                       ▲                 │ │ │
//!    │                       └──── give_up ────┘ │ └─ end ─► Ended
//!    └─────────────────────────── halt ──────────┘
//! ```
//!
//! The scheduler keeps the same states; here they carry what a guest may see of them: the preempted
//! flag, its steal time, and whether its thread may enter the guest.

use std::sync::atomic::Ordering::{Relaxed, Release};

use overlock_host::sched::{Action, Event, Spin, SpinHint, SpinSource};
use overlock_host::{Nanos, Pcpu, Vcpu};

use super::{Doing, Errands, Exit, Guest, Host, Stand, State};
use crate::guest::abi::Call;
use crate::spin_loops;

/// The state, locked, at one moment.
pub(super) struct Turn<'a> {
    pub(super) host: &'a Host<'a>,
    pub(super) state: &'a mut State,
    /// The moment.
    pub(super) now: u64,
    /// What is left to do once the state is unlocked.
    pub(super) errands: Errands,
}

impl Turn<'_> {
    /// Deals with `vcpu` having left the guest.
    pub(super) fn out(&mut self, vcpu: u32, exit: Exit) {
        let at = vcpu as usize;
        self.state.guests[at].accounts.count(&exit);
        if self.state.forced && !matches!(exit, Exit::Ended(_)) {
            return self.end(vcpu);
        }
        if let Some(pcpu) = self.state.owners.iter().position(|&owner| owner == Some(vcpu)) {
            self.look_at_slice(pcpu);
        }
        match exit {
            Exit::Ready => self.ready(vcpu),
            Exit::Call(call, arguments) => self.call(vcpu, call, arguments),
            Exit::Evicted(rip) => self.evicted(vcpu, rip),
            Exit::Ended(result) => {
                if let Err(error) = result {
                    self.state.failure.get_or_insert(error);
                    self.force();
                }
                self.end(vcpu);
            }
        }
        // A preemption may have been asked for while the vCPU was out for another reason.
        if self.state.guests[at].preempt_asked
            && matches!(self.state.guests[at].doing, Doing::Running { .. })
        {
            self.state.guests[at].accounts.preemptions += 1;
            self.give_up(vcpu, Event::Preempted(Vcpu(vcpu)));
        }
    }

    /// `vcpu` has a thread. Once all have, all start.
    fn ready(&mut self, vcpu: u32) {
        self.state.guests[vcpu as usize].doing = Doing::Halted { since: self.now, deadline: None };
        if self.state.guests.iter().any(|guest| guest.doing == Doing::NotReady) {
            return;
        }
        self.state.started = Some(self.now);
        self.errands.alarm = true;
        for vcpu in 0..self.state.guests.len() as u32 {
            self.state.guests[vcpu as usize].doing =
                Doing::Halted { since: self.now, deadline: None };
            self.wake(vcpu, None);
        }
    }

    fn call(&mut self, vcpu: u32, call: Call, [first, second]: [u64; 2]) {
        let me = Vcpu(vcpu);
        let target = u32::try_from(first).ok().filter(|&t| (t as usize) < self.state.guests.len());
        match call {
            Call::Started | Call::Finished => {}
            Call::Halt => {
                let deadline = (first != 0).then_some(first);
                let due = deadline.is_some_and(|deadline| deadline <= self.now);
                if !due && !self.host.records[vcpu as usize].deliverable() {
                    self.halt(vcpu, deadline);
                }
            }
            Call::Kick => {
                if let Some(target) = target {
                    self.wake(target, Some(me));
                }
            }
            Call::LongSpin => self.long_spin(vcpu, SpinSource::Reported),
            Call::YieldTo => match target {
                Some(to) => self.give_up(vcpu, Event::YieldedTo { vcpu: me, to: Vcpu(to) }),
                None => self.give_up(vcpu, Event::Yielded(me)),
            },
            Call::Ipi => {
                if let Some(target) = target {
                    let pending = &self.host.records[target as usize].pending;
                    // ORDERING: Release → the Acquire in `deliver`; the receiver sees what the
                    // sender did.
                    pending.fetch_or(1 << (second & 31), Release);
                    if target != vcpu
                        && matches!(self.state.guests[target as usize].doing, Doing::Running { .. })
                    {
                        self.errands.evict.insert(target);
                    }
                    self.ready_to_run(target);
                    self.tell(Event::Ipi { from: me, to: Vcpu(target) });
                }
            }
            Call::EndGrace => {
                // Whether its slice is over is the scheduler's to say, by a preemption.
                self.host.records[vcpu as usize].yield_wanted.store(false, Relaxed);
                let over = Event::CriticalSection { vcpu: me, inside: false };
                self.tell(over);
            }
        }
    }

    /// A signal brought `vcpu` out: for its processor, for a sample, or for an interrupt.
    fn evicted(&mut self, vcpu: u32, rip: Option<u64>) {
        let guest = &mut self.state.guests[vcpu as usize];
        let Some(rip) = rip else { return };
        self.host.posts[vcpu as usize].sample.store(false, Relaxed);
        let found = spin_loops::loop_at(self.host.code, rip);
        let spins = found.is_some() && found == guest.last_loop;
        guest.last_loop = found;
        if spins && !guest.preempt_asked {
            guest.accounts.sampled_spins += 1;
            self.long_spin(vcpu, SpinSource::Sampled);
        }
    }

    /// `vcpu` spins; the policy says what becomes of its processor.
    fn long_spin(&mut self, vcpu: u32, source: SpinSource) {
        let record = &self.host.records[vcpu as usize];
        let hint = (record.hint)(record);
        let known = |name: Option<u32>| name.filter(|&name| name != vcpu).map(Vcpu);
        let hint = SpinHint { holder: known(hint.holder), waiters: hint.waiters.map(known) };
        // What the guest says is the truth here: it is one of ours.
        let spin = Spin { vcpu: Vcpu(vcpu), source, hint, truth: hint };
        self.give_up(vcpu, Event::LongSpin(spin));
    }

    /// The running `vcpu` halts.
    fn halt(&mut self, vcpu: u32, deadline: Option<u64>) {
        self.stop_running(vcpu, Doing::Halted { since: self.now, deadline });
        if deadline.is_some_and(|deadline| deadline < self.state.alarm) {
            self.errands.alarm = true;
        }
        self.tell(Event::Halted(Vcpu(vcpu)));
    }

    /// The running `vcpu` offers its processor with an event that is answered by a `Run` or an
    /// `Idle`.
    fn give_up(&mut self, vcpu: u32, event: Event) {
        self.stop_running(vcpu, Doing::Queued { since: self.now });
        self.tell(event);
    }

    fn stop_running(&mut self, vcpu: u32, doing: Doing) {
        let guest = &mut self.state.guests[vcpu as usize];
        if let Doing::Running { since } = guest.doing {
            guest.accounts.ran_ns += self.now - since;
        }
        guest.preempt_asked = false;
        guest.doing = doing;
        self.host.records[vcpu as usize].yield_wanted.store(false, Relaxed);
        self.host.records[vcpu as usize]
            .preempted
            .store(matches!(doing, Doing::Queued { .. }), Relaxed);
        self.host.stand(vcpu, Stand::Waiting);
    }

    /// Kicks `vcpu`, or wakes it because its time has come.
    pub(super) fn wake(&mut self, vcpu: u32, by: Option<Vcpu>) {
        self.ready_to_run(vcpu);
        self.tell(Event::Kicked { target: Vcpu(vcpu), by });
    }

    /// If `vcpu` is halted, it is no longer: the scheduler is about to be told.
    fn ready_to_run(&mut self, vcpu: u32) {
        let record = &self.host.records[vcpu as usize];
        let guest = &mut self.state.guests[vcpu as usize];
        if let Doing::Halted { since, .. } = guest.doing {
            guest.accounts.halted_ns += self.now - since;
            record.halted_ns.store(guest.accounts.halted_ns, Relaxed);
            guest.doing = Doing::Queued { since: self.now };
            record.preempted.store(true, Relaxed);
        }
    }

    /// `vcpu` will never run again.
    fn end(&mut self, vcpu: u32) {
        let guest = &mut self.state.guests[vcpu as usize];
        let ran = matches!(guest.doing, Doing::Running { .. });
        guest.last = match guest.doing {
            Doing::NotReady => "had not begun",
            Doing::Queued { .. } => "was waiting for a processor",
            Doing::Running { .. } => "was running",
            Doing::Halted { .. } => "was halted, and nobody kicked it",
            Doing::Ended => return,
        };
        self.stop_running(vcpu, Doing::Ended);
        self.host.stand(vcpu, Stand::Ended);
        self.state.alive -= 1;
        self.errands.alarm |= self.state.alive == 0;
        if ran {
            self.tell(Event::Stopped(Vcpu(vcpu)));
        }
    }

    /// Ends every vCPU by force: those in the guest are evicted, all others end where they wait.
    pub(super) fn force(&mut self) {
        self.state.forced = true;
        for vcpu in 0..self.state.guests.len() as u32 {
            match self.state.guests[vcpu as usize].doing {
                Doing::Running { .. } => self.errands.evict.insert(vcpu),
                Doing::Queued { .. } | Doing::Halted { .. } => {
                    self.end(vcpu);
                    self.errands.wake.insert(vcpu);
                }
                // One that is not ready yet ends when it is.
                Doing::NotReady | Doing::Ended => {}
            }
        }
    }

    /// Tells the scheduler, and does what it says.
    pub(super) fn tell(&mut self, event: Event) {
        if let Some(action) = self.state.scheduler.on(Nanos(self.now), event) {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Run { vcpu: Vcpu(vcpu), pcpu: Pcpu(pcpu), until: Nanos(until) } => {
                self.state.timers[pcpu as usize] = Some(until);
                self.state.owners[pcpu as usize] = Some(vcpu);
                self.errands.alarm |= until < self.state.alarm;
                self.set_slice(vcpu, until);
                self.start_running(vcpu);
            }
            Action::Idle { pcpu: Pcpu(pcpu) } => {
                self.state.timers[pcpu as usize] = None;
                self.state.owners[pcpu as usize] = None;
            }
            Action::Preempt { vcpu: Vcpu(vcpu), .. } => {
                self.state.guests[vcpu as usize].preempt_asked = true;
                self.errands.evict.insert(vcpu);
            }
            Action::SetTimer { pcpu: Pcpu(pcpu), at: Nanos(at) } => {
                self.state.timers[pcpu as usize] = Some(at);
                self.errands.alarm |= at < self.state.alarm;
                if let Some(vcpu) = self.state.owners[pcpu as usize] {
                    self.set_slice(vcpu, at);
                }
            }
        }
    }

    /// Has `vcpu`'s own timer end its slice, if anybody waits for the processor. If somebody comes
    /// later, the supervisor's look does.
    fn set_slice(&self, vcpu: u32, end: u64) {
        let waits = |other: &Guest| matches!(other.doing, Doing::Queued { .. });
        let wanted = (0..).zip(&self.state.guests).any(|(n, other)| n != vcpu && waits(other));
        let end = if wanted { end } else { 0 };
        self.host.posts[vcpu as usize].slice_end.store(end, Relaxed);
    }

    fn start_running(&mut self, vcpu: u32) {
        let record = &self.host.records[vcpu as usize];
        let guest = &mut self.state.guests[vcpu as usize];
        match guest.doing {
            Doing::Queued { since } => {
                guest.accounts.steal_ns += self.now - since;
                record.steal_ns.store(guest.accounts.steal_ns, Relaxed);
                (record.was_away)(record, since, self.now);
            }
            // A kick came before the halt, and the scheduler sends it straight back.
            Doing::Halted { .. } | Doing::Running { .. } => {}
            Doing::NotReady | Doing::Ended => return,
        }
        guest.doing = Doing::Running { since: self.now };
        record.preempted.store(false, Relaxed);
        self.host.stand(vcpu, Stand::Running);
        self.errands.wake.insert(vcpu);
    }
}
