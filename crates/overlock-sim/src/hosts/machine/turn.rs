//! One turn of the host: the scheduler receives an event, and its answer is carried out.
//!
//! This is the laboratory's host in virtual time: the scheduler and its policies are the same, and
//! keep the state of each vCPU. Only the consequences are computed here.

use overlock_bench::Hint;
use overlock_results::Accounts;
use overlock_vcpu::host::sched::yield_to::Tally;
use overlock_vcpu::host::sched::{Action, Event as Told, Spin, SpinHint, SpinSource, Standing};
use overlock_vcpu::host::{Pcpu, Vcpu};

use super::calls::ask;
use super::{Event, HostMachine, VcpuState};

/// How often a pause window doubles at most: 4,096 cycles become some seconds.
const DOUBLED_MAX: u32 = 20;

impl HostMachine<'_> {
    fn standing(&self, vcpu: u32) -> Standing {
        self.scheduler.standing(vcpu)
    }

    pub(super) fn doing(&self, vcpu: u32) -> &'static str {
        match self.standing(vcpu) {
            Standing::Halted => "was halted, and no vCPU kicked it",
            Standing::Queued(_) => "was waiting for a pCPU",
            Standing::Running(_) if self.vcpus[vcpu as usize].spin.is_asleep() => "was spinning",
            Standing::Running(_) => "was running",
            Standing::Stopped => "had ended",
        }
    }

    /// Passes an event to the scheduler, and carries out the actions it returns.
    pub(super) fn tell(&mut self, event: Told) {
        let alone = self.scheduler.queued() == 0;
        let woken = match event {
            Told::Kicked { target: Vcpu(woken) } | Told::Ipi { to: Vcpu(woken), .. } => Some(woken),
            _ => None,
        };
        let polls = woken.and_then(|woken| self.polls(woken));
        let mut actions = std::mem::take(&mut self.actions);
        self.scheduler.on(self.core.now, event, &mut actions);
        let spinner = matches!(event, Told::LongSpin { .. }).then(|| event.owner()).flatten();
        let attempt = spinner.map_or(0, |Vcpu(vcpu)| self.attempt(vcpu));
        if let Some(Vcpu(vcpu)) = event.owner()
            && !matches!(self.standing(vcpu), Standing::Running(_))
        {
            self.take_off(vcpu);
        }
        let after = match woken {
            None => self.costs.switch + attempt,
            Some(_) if polls.is_some_and(|own| self.scheduler.owner(own) == woken) => {
                self.costs.call / 2
            }
            // A woken vCPU gets an idle pCPU, or at first replaces no other vCPU.
            Some(woken) => self.falls_asleep_ns(woken).unwrap_or(self.costs.wake),
        };
        self.carry_out(actions, after);
        if alone && self.scheduler.queued() > 0 {
            (0..self.slices.len() as u32).for_each(|pcpu| self.set_slice(pcpu));
        }
        self.note();
    }

    /// How long `vcpu`, which has just halted, takes to fall asleep and come back; `None` if it
    /// sleeps. A switch is to fall asleep, to wake another, and its way into the guest.
    fn falls_asleep_ns(&self, vcpu: u32) -> Option<u64> {
        let back = self.costs.call / 2;
        let asleep = self.costs.switch.saturating_sub(back) / 2;
        let since = self.core.now - self.vcpus[vcpu as usize].halted_at?;
        (since < asleep).then_some(asleep + back)
    }

    /// The pCPU on which `vcpu`, which has halted, still polls.
    fn polls(&self, vcpu: u32) -> Option<u32> {
        let own = self.vcpus[vcpu as usize].poll.goes_on(self.core.now)?;
        (self.last_on[own as usize] == vcpu).then_some(own)
    }

    /// Carries out what the scheduler asks for. A vCPU runs `after` a delay where another was.
    fn carry_out(&mut self, mut actions: Vec<Action>, after: u64) {
        for action in actions.drain(..) {
            match action {
                Action::Run { vcpu, pcpu, .. } => self.put_on(vcpu.0, pcpu.0, after),
                Action::Preempt { vcpu, pcpu } => {
                    self.vcpus[vcpu.index()].accounts.evictions += 1;
                    let event = Event::Evicted { vcpu: vcpu.0, pcpu: pcpu.0 };
                    let evict = self.lines.varied(self.costs.evict, &mut self.rng);
                    let phase = std::mem::take(&mut self.phases[pcpu.index()]);
                    self.core.add(self.core.now + evict + phase, event);
                }
                Action::SetTimer { pcpu, .. } => self.set_slice(pcpu.0),
                Action::Idle { .. } => {}
            }
        }
        self.actions = actions;
    }

    /// Returns how long the last step of another scheduler's handler of pause loops took, if it
    /// attempted to yield: the target's task and the locks of both queues come from the target's
    /// pCPU. A spinner that keeps its pCPU is that much longer in the host.
    fn attempt(&mut self, vcpu: u32) -> u64 {
        let Self { scheduler, lines, vcpus, core, costs, .. } = self;
        let Some(theirs) = scheduler.take_attempt() else { return 0 };
        let state = &mut vcpus[vcpu as usize];
        let own = state.pcpu.unwrap_or(0);
        let until = scheduler.locks(own, theirs, 3 * (lines.far_ns(own, theirs) + costs.rmw));
        if matches!(scheduler.standing(vcpu), Standing::Running(_)) {
            scheduler.is_in_host(vcpu, core.now, until);
            state.at = state.at.max(until);
        }
        until - core.now
    }

    /// Whether the handler of the current vCPU's pause loop goes on.
    pub(super) fn handles(&self) -> bool {
        self.scheduler.handles(self.core.current)
    }

    /// The next step of the handler of a pause loop.
    pub(super) fn go_on(&mut self, vcpu: u32) {
        let mut actions = std::mem::take(&mut self.actions);
        self.scheduler.go_on(self.core.now, vcpu, &mut actions);
        let attempt = self.attempt(vcpu);
        if !matches!(self.standing(vcpu), Standing::Running(_)) {
            self.take_off(vcpu);
        }
        self.carry_out(actions, self.costs.switch + attempt);
        self.note();
    }

    /// Records that the current vCPU is in the host for a time, which another scheduler looks at.
    pub(super) fn is_in_host(&mut self, from: u64, until: u64) {
        if from < until {
            self.scheduler.is_in_host(self.core.current, from, until);
        }
    }

    pub(super) fn plan_balance(&mut self, pcpu: u32) {
        let every = self.scheduler.look_every_ns();
        if every > 0 {
            let phase = every * u64::from(pcpu) / self.slices.len() as u64;
            self.core.add((self.core.now / every + 1) * every + phase, Event::Balance { pcpu });
        }
    }

    /// Lets `pcpu` look for work in other queues.
    pub(super) fn balance(&mut self, pcpu: u32) {
        let mut actions = std::mem::take(&mut self.actions);
        self.scheduler.look(self.core.now, pcpu, &mut actions);
        self.carry_out(actions, self.costs.wake);
        self.plan_balance(pcpu);
        self.note();
    }

    /// Notes the standings of all vCPUs, if a timeline is recorded.
    fn note(&mut self) {
        let Self { notes: Some(notes), scheduler, core, vcpus, .. } = self else { return };
        for vcpu in 0..vcpus.len() as u32 {
            notes.note(vcpu, scheduler.standing(vcpu).shown(), core.now);
        }
    }

    /// Records that `vcpu` has lost its pCPU.
    fn take_off(&mut self, vcpu: u32) {
        let Self { vcpus, lines, core, .. } = self;
        let state = &mut vcpus[vcpu as usize];
        let asleep = state.spin.wakes(vcpu, lines);
        state.spin.breaks_off();
        // The rest of an unfinished entry into the guest is not work, because the next entry is
        // charged in full. As work it would grow with every preemption on the way.
        let since = core.now.max(state.enters_at);
        state.debt = asleep.unwrap_or(state.at).saturating_sub(since);
        core.withdraw(vcpu);
        (state.pcpu, state.yield_wanted) = (None, false);
    }

    /// Makes `vcpu` the owner of `pcpu`, if it is not already, and lets it continue `after` a
    /// delay.
    fn put_on(&mut self, vcpu: u32, pcpu: u32, after: u64) {
        if self.vcpus[vcpu as usize].pcpu != Some(pcpu) {
            let after = self.lines.varied(after, &mut self.rng);
            let state = &mut self.vcpus[vcpu as usize];
            (state.pcpu, state.slice_over, state.window_doubled) = (Some(pcpu), None, 0);
            state.poll.ends(self.core.now + after, self.halt_poll_ns);
            self.last_on[pcpu as usize] = vcpu;
            state.enters_at = self.core.now + after;
            state.at = state.enters_at + std::mem::take(&mut state.debt);
            self.plan(vcpu);
            self.show(vcpu);
        }
        self.set_slice(pcpu);
    }

    /// Shows `vcpu` how long it was away, and its program what that caused.
    fn show(&mut self, vcpu: u32) {
        let usage = self.scheduler.usage(self.core.now, vcpu);
        let state = &mut self.vcpus[vcpu as usize];
        state.away_ns = usage.steal.0 + usage.halted.0;
        let stolen = usage.steal.0 - std::mem::replace(&mut state.steal_ns, usage.steal.0);
        if stolen > 0 {
            let (guest, now) = (self.guest, self.core.now);
            ask(|| guest.was_away(vcpu, now.saturating_sub(stolen), now));
        }
    }

    /// Sets the timer of `pcpu` to the end of its owner's slice, if any vCPU waits for a pCPU.
    fn set_slice(&mut self, pcpu: u32) {
        let end = self.scheduler.tick(pcpu).unwrap_or(0);
        let set = &mut self.slices[pcpu as usize];
        if end != 0 && (*set == 0 || end < *set) {
            *set = end;
            self.core.add(end.max(self.core.now), Event::Slice { pcpu });
        }
    }

    pub(super) fn slice(&mut self, pcpu: u32) {
        if self.slices[pcpu as usize] > self.core.now {
            // The timer has been set to another time since.
            return;
        }
        self.slices[pcpu as usize] = 0;
        let Some(end) = self.scheduler.tick(pcpu) else { return };
        let owner = self.scheduler.owner(pcpu);
        if let (true, Some(owner)) = (end <= self.core.now, owner) {
            self.look_at_section(owner);
            self.tell(Told::Timer { pcpu: Pcpu(pcpu) });
            if self.scheduler.is_preempting(pcpu) {
                let start = self.scheduler.picked(pcpu);
                self.vcpus[owner as usize].slice_over = Some((start, end));
            }
        }
        self.set_slice(pcpu);
    }

    /// Reports whether `vcpu`, which the scheduler is about to judge, is in a critical section.
    fn look_at_section(&mut self, vcpu: u32) {
        if self.scheduler.grace_ns() > 0 {
            let state = &mut self.vcpus[vcpu as usize];
            state.yield_wanted = state.critical;
            let inside = state.critical;
            self.tell(Told::CriticalSection { vcpu: Vcpu(vcpu), inside });
        }
    }

    /// Records that `vcpu` is out of the guest, as requested, if it still owned the pCPU.
    pub(super) fn evicted(&mut self, vcpu: u32, pcpu: u32) {
        let owner = self.scheduler.owner(pcpu) == Some(vcpu);
        if !owner || !self.scheduler.is_preempting(pcpu) {
            return;
        }
        self.look_at_section(vcpu);
        let VcpuState { in_user, in_handler, .. } = self.vcpus[vcpu as usize];
        if in_user && !in_handler {
            self.tell(Told::InUser { vcpu: Vcpu(vcpu) });
        }
        self.tell(Told::Preempted { vcpu: Vcpu(vcpu) });
        let state = &mut self.vcpus[vcpu as usize];
        if state.pcpu.is_some() {
            // On its way into the guest it has nothing to come out of.
            if state.enters_at <= self.core.now {
                self.delay(vcpu, self.costs.call);
            }
            return self.set_slice(pcpu);
        }
        state.accounts.preemptions += 1;
        if let Some((start, end)) = state.slice_over.take() {
            state.accounts.slices += 1;
            state.accounts.slice_ns += self.core.now.saturating_sub(start);
            state.accounts.overrun_ns += self.core.now.saturating_sub(end);
        }
    }

    /// Keeps a vCPU that owns its pCPU out of the guest for `ns`, and lets it check its lines if it
    /// sleeps.
    pub(super) fn delay(&mut self, vcpu: u32, ns: u64) {
        self.rouse(vcpu);
        let (state, now) = (&mut self.vcpus[vcpu as usize], self.core.now);
        state.at = state.at.max(now) + ns;
        state.enters_at = state.enters_at.max(now) + ns;
        self.plan(vcpu);
    }

    /// Makes `vcpu` check its lines again if it sleeps in a spin loop.
    pub(super) fn rouse(&mut self, vcpu: u32) {
        let Self { vcpus, lines, core, .. } = self;
        let state = &mut vcpus[vcpu as usize];
        state.spin.breaks_off();
        if let Some(asleep) = state.spin.wakes(vcpu, lines) {
            state.at = asleep.max(core.now);
        }
    }

    /// Kicks `vcpu`, or wakes it at its deadline. Returns what waking its thread costs the kicker.
    pub(crate) fn kick(&mut self, vcpu: u32) -> u64 {
        let halted = self.standing(vcpu) == Standing::Halted;
        let sleeps = halted && self.falls_asleep_ns(vcpu).is_none() && self.polls(vcpu).is_none();
        self.tell(Told::Kicked { target: Vcpu(vcpu) });
        let runs = matches!(self.standing(vcpu), Standing::Running(_));
        if sleeps && runs { self.costs.kick } else { 0 }
    }

    /// Halts `vcpu` until it is kicked, or until `deadline`.
    pub(crate) fn halt(&mut self, vcpu: u32, deadline: Option<u64>) {
        let now = self.core.now;
        let state = &mut self.vcpus[vcpu as usize];
        state.accounts.halts += 1;
        let due = deadline.is_some_and(|deadline| deadline <= now);
        if due || state.pending != 0 && !state.in_handler {
            state.at += self.costs.call / 2;
            return;
        }
        let halt = state.accounts.halts;
        state.halted_at = Some(now);
        let own = state.pcpu;
        self.tell(Told::Halted { vcpu: Vcpu(vcpu) });
        if self.standing(vcpu) == Standing::Halted {
            self.vcpus[vcpu as usize].poll.begins(now, own);
        }
        // If a kick has come before, what is left is the way back.
        let state = &mut self.vcpus[vcpu as usize];
        state.at += if state.pcpu.is_some() { self.costs.call / 2 } else { 0 };
        if let (Some(deadline), Standing::Halted) = (deadline, self.standing(vcpu)) {
            self.core.add(deadline, Event::Deadline { vcpu, halt });
        }
    }

    pub(super) fn deadline(&mut self, vcpu: u32, halt: u64) {
        let same = self.vcpus[vcpu as usize].accounts.halts == halt;
        if same && self.standing(vcpu) == Standing::Halted {
            self.kick(vcpu);
        }
    }

    pub(crate) fn yield_to(&mut self, vcpu: u32, to: Option<u32>) {
        self.vcpus[vcpu as usize].accounts.yields += 1;
        let me = Vcpu(vcpu);
        self.tell(match to {
            Some(to) => Told::YieldedTo { vcpu: me, to: Vcpu(to) },
            None => Told::Yielded { vcpu: me },
        });
    }

    /// Reports a long spin of `vcpu`; the policy decides what happens to its pCPU.
    pub(crate) fn long_spin(&mut self, vcpu: u32, source: SpinSource) {
        let known = |name: Option<u32>| name.filter(|&name| name != vcpu).map(Vcpu);
        let told =
            |hint: Hint| SpinHint { holder: known(hint.holder), waiters: hint.waiters.map(known) };
        let guest = self.guest;
        let (hint, truth) = ask(|| (told(guest.hint(vcpu)), told(guest.truth(vcpu))));
        if self.scheduler.windows_grow() {
            let state = &mut self.vcpus[vcpu as usize];
            state.window_doubled = (state.window_doubled + 1).min(DOUBLED_MAX);
        }
        self.tell(Told::LongSpin { spin: Spin { vcpu: Vcpu(vcpu), source, hint, truth } });
    }

    pub(crate) fn enter_critical(&mut self) {
        self.cpu().critical = true;
    }

    /// Ends the critical section. Returns whether the host waits for its end.
    pub(crate) fn leave_critical(&mut self) -> bool {
        let notes = self.costs.notes;
        let state = self.cpu();
        state.at += notes;
        state.critical = false;
        std::mem::take(&mut state.yield_wanted)
    }

    pub(crate) fn end_grace(&mut self, vcpu: u32) {
        self.vcpus[vcpu as usize].accounts.graces += 1;
        self.tell(Told::CriticalSection { vcpu: Vcpu(vcpu), inside: false });
        if let Some(pcpu) = self.vcpus[vcpu as usize].pcpu {
            self.evicted(vcpu, pcpu);
        }
    }

    pub(crate) fn away_ns(&self) -> u64 {
        self.vcpus[self.core.current as usize].away_ns
    }

    pub(crate) fn is_preempted(&self, vcpu: u32) -> bool {
        matches!(self.standing(vcpu), Standing::Queued(_))
    }

    /// Stops and samples all running vCPUs: one that is found twice in the same loop has spun for
    /// long.
    pub(super) fn sample(&mut self) {
        self.core.add(self.core.now + self.sample_every, Event::Sample);
        for vcpu in 0..self.vcpus.len() as u32 {
            if self.vcpus[vcpu as usize].pcpu.is_none() {
                continue;
            }
            let (guest, found) = (self.guest, self.vcpus[vcpu as usize].spin.found());
            let found = found.map(|key| (key, ask(|| guest.progress(vcpu))));
            let state = &mut self.vcpus[vcpu as usize];
            let before = std::mem::replace(&mut state.sampled, found);
            state.accounts.evictions += 1;
            self.delay(vcpu, self.costs.call);
            if found.is_some() && found == before {
                self.vcpus[vcpu as usize].accounts.sampled_spins += 1;
                self.long_spin(vcpu, SpinSource::Sampled);
            }
        }
    }

    /// Tells the programs to return, and wakes the sleeping vCPUs so that they see it.
    pub(super) fn stop(&mut self) {
        self.books_at_stop = Some(self.books_now());
        self.core.add(self.core.now.saturating_add(self.grace_ns), Event::GiveUp);
        for vcpu in 0..self.vcpus.len() as u32 {
            if self.vcpus[vcpu as usize].spin.is_asleep() {
                self.delay(vcpu, 0);
            } else if self.standing(vcpu) == Standing::Halted {
                self.kick(vcpu);
            }
        }
    }

    pub(super) fn books_now(&self) -> (Vec<Accounts>, Tally) {
        let of = |(vcpu, state): (u32, &VcpuState)| {
            let usage = self.scheduler.usage(self.core.now, vcpu);
            let (ran_ns, steal_ns) = (usage.ran.0, usage.steal.0);
            let notes = self.notes.as_ref();
            let stints = notes.map(|notes| notes.of(vcpu, self.core.now)).unwrap_or_default();
            Accounts {
                ran_ns,
                steal_ns,
                halted_ns: usage.halted.0,
                stints,
                ..state.accounts.clone()
            }
        };
        let accounts = (0..).zip(&self.vcpus).map(of).collect();
        (accounts, self.scheduler.tally().clone())
    }
}
