//! One turn at the state: the scheduler hears of an event, and its answer is carried out.
//!
//! The scheduler keeps the standing of each vCPU. This file has only the consequences: what a guest
//! can see (the preempted flag, its steal time), which threads to wake or to signal, which timer to
//! set.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use crate::host::sched::{Action, Event, Spin, SpinHint, SpinSource, Standing};
use crate::host::{Nanos, Pcpu, Vcpu};
use overlock_bench::Hint;

use super::accounts;
use super::state::{Errands, Exit, Next, State, Step, Vcpus};
use crate::lab::error::Error;
use crate::lab::guest::abi::Call;
use crate::lab::spin_loops;

/// How often in a turn a vCPU keeps its processor because it has not run: the last time for 2,048
/// slices, a tenth of a second at least. If no vCPU has run by then, the run fails.
const TRIES: u32 = 12;

/// The state, locked, at one moment.
pub(super) struct Turn<'a> {
    pub(super) vcpus: &'a Vcpus<'a>,
    pub(super) state: &'a mut State,
    pub(super) now: u64,
    /// As [`Host::long_visit_ns`](super::Host::long_visit_ns).
    pub(super) long_visit_ns: u64,
    /// The work that is left once the state is unlocked.
    pub(super) errands: Errands,
}

impl Turn<'_> {
    pub(super) fn out(&mut self, vcpu: u32, exit: Exit) {
        let guest = &mut self.state.guests[vcpu as usize];
        accounts::count(&mut guest.accounts, &exit);
        if self.state.forced && !matches!(exit, Exit::Ended(_)) {
            return self.end(vcpu);
        }
        if guest.owes && self.vcpus.records[vcpu as usize].pending.load(Relaxed) == 0 {
            guest.owes = false;
            self.tell(Event::Answered { vcpu: Vcpu(vcpu) });
        }
        let stays = self.stays(vcpu, &exit);
        if !stays {
            self.look_at_slice(vcpu);
        }
        match exit {
            Exit::Ready => self.ready(vcpu),
            Exit::Call(call, arguments) => {
                // A vCPU that makes a hypercall is not in a loop of pauses.
                self.state.guests[vcpu as usize].last_loop = None;
                self.call(vcpu, call, arguments);
            }
            Exit::Evicted { rip, .. } => self.evicted(vcpu, rip),
            Exit::Ended(result) => {
                if let Err(error) = result {
                    self.fail(error);
                }
                self.end(vcpu);
            }
        }
        if !stays {
            self.look_at_preemption(vcpu);
        }
    }

    /// Whether `vcpu`, which has to give its processor up, keeps it all the same, because it was
    /// brought out before it ran (H5): for a slice, or a visit that certainly runs, and each time
    /// for twice as long.
    fn stays(&mut self, vcpu: u32, exit: &Exit) -> bool {
        let guest = &mut self.state.guests[vcpu as usize];
        if !matches!(exit, Exit::Evicted { ran: false, .. }) {
            guest.in_vain = 0;
            return false;
        }
        let Some(Standing::Running(pcpu)) = self.state.scheduler.standing(Vcpu(vcpu)) else {
            return false;
        };
        let scheduler = &self.state.scheduler;
        let is_over = scheduler.slice_end(pcpu).is_some_and(|end| end.0 <= self.now);
        if !is_over && !scheduler.is_preempting(pcpu) {
            return false;
        }
        let slice = scheduler.config().slice.0;
        let guest = &mut self.state.guests[vcpu as usize];
        guest.in_vain += 1;
        if guest.in_vain > TRIES {
            let tries = std::mem::take(&mut guest.in_vain);
            if self.long_visit_ns == u64::MAX {
                self.fail(Error::SliceTooShort { vcpu, tries, slice: Duration::from_nanos(slice) });
                self.end(vcpu);
            }
            return false;
        }
        let more = slice.min(self.long_visit_ns).saturating_mul(1 << (guest.in_vain - 1));
        let end = self.now.saturating_add(more);
        self.vcpus.posts[vcpu as usize].slice_end.store(end, Relaxed);
        self.errands.arm.insert(vcpu);
        true
    }

    pub(super) fn step(&self, vcpu: u32) -> Step {
        match self.standing(vcpu) {
            Standing::Running(_) => Step::Go(Next::Enter),
            Standing::Stopped => Step::Go(Next::Leave),
            Standing::Halted => Step::Wait(self.state.guests[vcpu as usize].deadline),
            Standing::Queued(_) => Step::Wait(None),
        }
    }

    /// Wakes `vcpu` if it is halted and its deadline has passed.
    pub(super) fn look_at_deadline(&mut self, vcpu: u32) {
        let due = |deadline| deadline <= self.now;
        if self.standing(vcpu) == Standing::Halted
            && self.state.guests[vcpu as usize].deadline.is_some_and(due)
        {
            self.wake(vcpu);
        }
    }

    fn standing(&self, vcpu: u32) -> Standing {
        self.state.scheduler.standing(Vcpu(vcpu)).unwrap_or(Standing::Stopped)
    }

    fn pcpu(&self, vcpu: u32) -> Option<Pcpu> {
        match self.standing(vcpu) {
            Standing::Running(pcpu) => Some(pcpu),
            _ => None,
        }
    }

    /// Records that `vcpu` has a thread. Once all have, all start.
    fn ready(&mut self, vcpu: u32) {
        if !std::mem::replace(&mut self.state.guests[vcpu as usize].ready, true) {
            self.state.missing -= 1;
        }
        if self.state.missing > 0 {
            return;
        }
        self.state.started = Some(self.now);
        self.errands.alarm = true;
        for vcpu in 0..self.state.guests.len() as u32 {
            self.wake(vcpu);
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
                if !due && !self.vcpus.records[vcpu as usize].deliverable() {
                    self.state.guests[vcpu as usize].deadline = deadline;
                    self.tell(Event::Halted { vcpu: me });
                }
            }
            Call::Kick => {
                if let Some(target) = target {
                    self.wake(target);
                }
            }
            Call::LongSpin => self.long_spin(vcpu, SpinSource::Reported),
            Call::YieldTo => match target {
                Some(to) => self.tell(Event::YieldedTo { vcpu: me, to: Vcpu(to) }),
                None => self.tell(Event::Yielded { vcpu: me }),
            },
            Call::Ipi => {
                if let Some(target) = target {
                    self.interrupt(vcpu, target, second);
                }
            }
            Call::IpiAll => {
                let others = 0..self.state.guests.len() as u32;
                for target in others.filter(|&target| target != vcpu) {
                    self.interrupt(vcpu, target, first);
                }
            }
            Call::EndGrace => {
                // The scheduler decides, by a preemption, whether its slice is over.
                self.vcpus.records[vcpu as usize].yield_wanted.store(false, Relaxed);
                self.tell(Event::CriticalSection { vcpu: me, inside: false });
            }
        }
    }

    fn interrupt(&mut self, from: u32, to: u32, number: u64) {
        // ORDERING: Release → the Acquire in `deliver`; the receiver sees what the sender did.
        self.vcpus.records[to as usize].pending.fetch_or(1 << (number & 31), Release);
        self.state.guests[to as usize].owes = true;
        if to != from && self.pcpu(to).is_some() {
            self.errands.evict.insert(to);
        }
        self.tell(Event::Ipi { from: Vcpu(from), to: Vcpu(to) });
    }

    /// Handles a signal that brought `vcpu` out: for its processor, for a sample, or for an
    /// interrupt.
    fn evicted(&mut self, vcpu: u32, rip: Option<u64>) {
        let Some(rip) = rip else { return };
        self.vcpus.posts[vcpu as usize].sample.store(false, Relaxed);
        let record = &self.vcpus.records[vcpu as usize];
        let found = spin_loops::loop_at(self.vcpus.code, rip);
        let found = found.map(|pause| (pause, (record.hooks.progress)(record)));
        let guest = &mut self.state.guests[vcpu as usize];
        let spins = found.is_some() && found == guest.last_loop;
        guest.last_loop = found;
        if spins && self.pcpu(vcpu).is_some_and(|pcpu| !self.state.scheduler.is_preempting(pcpu)) {
            self.state.guests[vcpu as usize].accounts.sampled_spins += 1;
            self.long_spin(vcpu, SpinSource::Sampled);
        }
    }

    /// Reports that `vcpu` spins; the policy decides what to do with its processor.
    fn long_spin(&mut self, vcpu: u32, source: SpinSource) {
        let record = &self.vcpus.records[vcpu as usize];
        let known = |name: Option<u32>| name.filter(|&name| name != vcpu).map(Vcpu);
        let told =
            |hint: Hint| SpinHint { holder: known(hint.holder), waiters: hint.waiters.map(known) };
        let (hint, truth) = (told((record.hooks.hint)(record)), told((record.hooks.truth)(record)));
        self.tell(Event::LongSpin { spin: Spin { vcpu: Vcpu(vcpu), source, hint, truth } });
    }

    /// Kicks `vcpu`, or wakes it because its deadline has passed.
    fn wake(&mut self, vcpu: u32) {
        self.tell(Event::Kicked { target: Vcpu(vcpu) });
    }

    fn look_at_slice(&mut self, vcpu: u32) {
        let Some(pcpu) = self.pcpu(vcpu) else { return };
        let Some(Nanos(end)) = self.state.scheduler.slice_end(pcpu) else {
            // No vCPU waits any more; an end that has passed must not bring it out again.
            return self.vcpus.posts[vcpu as usize].slice_end.store(0, Relaxed);
        };
        if end > self.now {
            return;
        }
        self.look_at_section(vcpu);
        self.tell(Event::Timer { pcpu });
        if self.state.scheduler.is_preempting(pcpu) {
            let start = self.state.scheduler.slice_start(pcpu).map_or(end, |start| start.0);
            self.state.guests[vcpu as usize].slice_over = Some((start, end));
        }
    }

    /// Tells the scheduler whether `vcpu`, which it is about to judge, is in a critical section.
    fn look_at_section(&mut self, vcpu: u32) {
        if self.state.scheduler.config().grace == Nanos::ZERO {
            return;
        }
        let record = &self.vcpus.records[vcpu as usize];
        let inside = record.critical.load(Relaxed);
        // If that earns it a grace, the guest has to report the end of the critical section.
        record.yield_wanted.store(inside, Relaxed);
        self.tell(Event::CriticalSection { vcpu: Vcpu(vcpu), inside });
    }

    /// If `vcpu` was asked to leave the guest, tells the scheduler that it has.
    fn look_at_preemption(&mut self, vcpu: u32) {
        let Some(pcpu) = self.pcpu(vcpu) else { return };
        if !self.state.scheduler.is_preempting(pcpu) {
            return;
        }
        self.look_at_section(vcpu);
        self.tell(Event::Preempted { vcpu: Vcpu(vcpu) });
        let lost = self.pcpu(vcpu).is_none();
        let guest = &mut self.state.guests[vcpu as usize];
        if lost {
            guest.accounts.preemptions += 1;
            if let Some((start, end)) = guest.slice_over {
                guest.accounts.slices += 1;
                guest.accounts.slice_ns += self.now.saturating_sub(start);
                guest.accounts.overrun_ns += self.now.saturating_sub(end);
            }
        }
    }

    /// Ends `vcpu`, which will never run again.
    fn end(&mut self, vcpu: u32) {
        let guest = &mut self.state.guests[vcpu as usize];
        guest.last = match self.state.scheduler.standing(Vcpu(vcpu)) {
            Some(Standing::Halted) if !guest.ready => "had not begun",
            Some(Standing::Queued(_)) => "was waiting for a processor",
            Some(Standing::Running(_)) => "was running",
            Some(Standing::Halted) => "was halted, and no vCPU kicked it",
            Some(Standing::Stopped) | None => return,
        };
        self.state.alive -= 1;
        self.errands.alarm |= self.state.alive == 0;
        self.tell(Event::Stopped { vcpu: Vcpu(vcpu) });
    }

    fn fail(&mut self, error: Error) {
        self.state.failure.get_or_insert(error);
        self.force();
    }

    /// Ends every vCPU by force: those in the guest are evicted, all others end where they wait.
    pub(super) fn force(&mut self) {
        self.state.forced = true;
        for vcpu in 0..self.state.guests.len() as u32 {
            if self.pcpu(vcpu).is_some() {
                self.errands.evict.insert(vcpu);
            } else {
                self.end(vcpu);
                self.errands.wake.insert(vcpu);
            }
        }
    }

    /// Tells the scheduler, carries out its answer, and shows the effects to the vCPUs concerned.
    fn tell(&mut self, event: Event) {
        let alone = self.state.scheduler.queued() == 0;
        let action = match self.state.scheduler.on(Nanos(self.now), event) {
            Ok(action) => action,
            Err(source) => return self.fail(Error::Impossible { event, source }),
        };
        let woken = match event {
            Event::Kicked { target } => Some(target),
            Event::Ipi { to, .. } => Some(to),
            _ => None,
        };
        if let Some(vcpu) = event.owner().or(woken) {
            self.show(vcpu);
        }
        if let Some(action) = action {
            self.act(action);
        }
        if alone && self.state.scheduler.queued() > 0 {
            (0..self.state.scheduler.config().pcpus).for_each(|pcpu| self.set_slice(Pcpu(pcpu)));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Run { vcpu, pcpu, .. } => {
                let guest = &mut self.state.guests[vcpu.index()];
                (guest.deadline, guest.slice_over) = (None, None);
                let post = &self.vcpus.posts[vcpu.index()];
                post.pcpu.store(pcpu.0, Relaxed);
                post.granted.store(self.now, Relaxed);
                self.show(vcpu);
                self.set_slice(pcpu);
                self.errands.wake.insert(vcpu.0);
            }
            Action::Idle { .. } => {}
            Action::Preempt { vcpu, .. } => self.errands.evict.insert(vcpu.0),
            Action::SetTimer { pcpu, .. } => self.set_slice(pcpu),
        }
    }

    /// Sets the timer of the owner of `pcpu` to end its slice, if any vCPU waits for a processor.
    fn set_slice(&mut self, pcpu: Pcpu) {
        let Some(Vcpu(owner)) = self.state.scheduler.owner(pcpu) else { return };
        let end = self.state.scheduler.slice_end(pcpu).map_or(0, |end| end.0);
        self.vcpus.posts[owner as usize].slice_end.store(end, Relaxed);
        self.errands.arm.insert(owner);
    }

    /// Shows the guest the standing of `vcpu`, and its program the effect of a wait for a
    /// processor.
    fn show(&mut self, vcpu: Vcpu) {
        let standing = self.standing(vcpu.0);
        if let Some(notes) = &mut self.state.notes {
            notes.note(vcpu.0, standing.shown(), self.now);
        }
        let Some(usage) = self.state.scheduler.usage(Nanos(self.now), vcpu) else { return };
        let record = &self.vcpus.records[vcpu.index()];
        let running = self.pcpu(vcpu.0).is_some();
        record.preempted.store(self.state.scheduler.is_preempted(vcpu), Relaxed);
        record.halted_ns.store(usage.halted.0, Relaxed);
        if !running {
            record.yield_wanted.store(false, Relaxed);
            return;
        }
        let stolen = usage.steal.0 - record.steal_ns.swap(usage.steal.0, Relaxed);
        if stolen > 0 {
            (record.hooks.was_away)(record, self.now.saturating_sub(stolen), self.now);
        }
    }
}
