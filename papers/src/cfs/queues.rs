//! The queues: who is in which, who is picked, and who moves.

use overlock_sim::hosts::OtherScheduler as _;
use overlock_vcpu::host::sched::yield_to::Notice;
use overlock_vcpu::host::sched::{Action, Standing};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};

use super::{BUSY_FACTOR, Cfs, MIGRATION_NS, TICK_NS, Task, WAKEUP_NS};

impl Cfs {
    pub(super) fn owned(&self, vcpu: u32) -> Option<u32> {
        match self.standing(vcpu) {
            Standing::Running(Pcpu(pcpu)) => Some(pcpu),
            _ => None,
        }
    }

    pub(super) fn accounted(&self, vcpu: u32, now: u64) -> Task {
        let mut task = self.tasks[vcpu as usize].clone();
        let span = now.saturating_sub(task.since);
        match task.standing {
            Standing::Running(_) => {
                task.usage.ran = task.usage.ran + Nanos(span);
                task.time += span as i64;
            }
            Standing::Queued(_) => task.usage.steal = task.usage.steal + Nanos(span),
            Standing::Halted if task.begun => task.usage.halted = task.usage.halted + Nanos(span),
            Standing::Halted | Standing::Stopped => {}
        }
        task.since = now;
        task
    }

    /// Books the time since the last call.
    pub(super) fn account(&mut self, vcpu: u32) {
        self.tasks[vcpu as usize] = self.accounted(vcpu, self.now);
        if let Some(pcpu) = self.owned(vcpu) {
            let first = self.first(pcpu).map(|first| self.tasks[first as usize].time);
            let own = self.tasks[vcpu as usize].time;
            let least = &mut self.queues[pcpu as usize].least;
            *least = (*least).max(first.map_or(own, |first| first.min(own)));
        }
    }

    /// The vCPU in the queue of `pcpu` that lags most.
    pub(super) fn first(&self, pcpu: u32) -> Option<u32> {
        let waiting = self.queues[pcpu as usize].waiting.iter().copied();
        waiting.min_by_key(|&vcpu| self.tasks[vcpu as usize].time)
    }

    pub(super) fn next_tick(&self, pcpu: u32) -> u64 {
        // The ticks of pCPUs come one after the other.
        let phase = u64::from(pcpu) * TICK_NS / self.queues.len() as u64;
        (self.now.saturating_sub(phase) / TICK_NS + 1) * TICK_NS + phase
    }

    /// Joins `vcpu` to a queue, with the virtual time that it has.
    pub(super) fn enqueue(&mut self, vcpu: u32, pcpu: u32) {
        let tick_at = self.next_tick(pcpu);
        let task = &mut self.tasks[vcpu as usize];
        (task.standing, task.home) = (Standing::Queued(Pcpu(pcpu)), pcpu);
        let queue = &mut self.queues[pcpu as usize];
        queue.waiting.push(vcpu);
        if queue.tick_at <= self.now {
            queue.tick_at = tick_at;
        }
    }

    pub(super) fn dequeue(&mut self, vcpu: u32) {
        let home = self.tasks[vcpu as usize].home as usize;
        self.queues[home].waiting.retain(|&other| other != vcpu);
    }

    /// Changes the home of `vcpu`, which keeps its distance from the others in the queue.
    pub(super) fn move_to(&mut self, vcpu: u32, pcpu: u32) {
        let task = &mut self.tasks[vcpu as usize];
        let from = std::mem::replace(&mut task.home, pcpu);
        task.time += self.queues[pcpu as usize].least - self.queues[from as usize].least;
    }

    /// Takes `vcpu` off `pcpu`.
    pub(super) fn leave(&mut self, vcpu: u32, pcpu: u32, standing: Standing) {
        self.account(vcpu);
        let task = &mut self.tasks[vcpu as usize];
        (task.standing, task.left_at) = (standing, self.now);
        let queue = &mut self.queues[pcpu as usize];
        (queue.owner, queue.preempting) = (None, false);
        queue.skip =
            queue.skip.filter(|&skip| skip != vcpu || standing == Standing::Queued(Pcpu(pcpu)));
    }

    /// Asks the owner of `pcpu` to come out.
    pub(super) fn preempt(&mut self, pcpu: u32, actions: &mut Vec<Action>) {
        let queue = &mut self.queues[pcpu as usize];
        let Some(owner) = queue.owner.filter(|_| !queue.preempting) else { return };
        queue.preempting = true;
        actions.push(Action::Preempt { vcpu: Vcpu(owner), pcpu: Pcpu(pcpu) });
    }

    /// Makes `to`, which waits, the next on its pCPU. `pcpu` is that of the vCPU that yields.
    pub(super) fn boost(&mut self, to: u32, pcpu: u32, actions: &mut Vec<Action>) {
        let theirs = self.tasks[to as usize].home;
        self.queues[theirs as usize].next = Some(to);
        if theirs != pcpu {
            self.preempt(theirs, actions);
        }
    }

    /// Picks who runs on `pcpu` next: of those in its queue, and `before`, which has just run.
    pub(super) fn switch(&mut self, pcpu: u32, before: Option<u32>, actions: &mut Vec<Action>) {
        if let Some(before) = before {
            self.leave(before, pcpu, Standing::Queued(Pcpu(pcpu)));
            self.enqueue(before, pcpu);
        }
        if let Some(picked) = self.pick(pcpu).or_else(|| self.fetch_if_idle_long(pcpu)) {
            self.dequeue(picked);
            let (now, tick_at) = (self.now, self.next_tick(pcpu));
            let queue = &mut self.queues[pcpu as usize];
            (queue.owner, queue.picked, queue.tick_at) = (Some(picked), now, tick_at);
            queue.next = queue.next.filter(|&next| next != picked);
            queue.skip = queue.skip.filter(|&skip| skip != picked);
            return self.run(picked, pcpu, actions);
        }
        self.queues[pcpu as usize].idle_since = Some(self.now);
        actions.push(Action::Idle { pcpu: Pcpu(pcpu) });
    }

    /// Lets `vcpu` run on `pcpu`, which it owns.
    pub(super) fn run(&mut self, vcpu: u32, pcpu: u32, actions: &mut Vec<Action>) {
        self.account(vcpu);
        let task = &mut self.tasks[vcpu as usize];
        (task.standing, task.home) = (Standing::Running(Pcpu(pcpu)), pcpu);
        (task.woken, task.spinning, task.in_user) = (false, false, false);
        self.policy.notice(Nanos(self.now), Notice::Runs(Vcpu(vcpu)));
        let until = Nanos(self.queues[pcpu as usize].tick_at);
        actions.push(Action::Run { vcpu: Vcpu(vcpu), pcpu: Pcpu(pcpu), until });
    }

    /// The vCPU that lags most, unless hints name another that is not too far ahead of it.
    fn pick(&self, pcpu: u32) -> Option<u32> {
        let queue = &self.queues[pcpu as usize];
        let time = |vcpu: u32| self.tasks[vcpu as usize].time;
        let first = self.first(pcpu)?;
        let near = |vcpu: &u32| time(*vcpu) - time(first) <= WAKEUP_NS;
        let mut picked = first;
        if queue.skip == Some(first) {
            let others = queue.waiting.iter().copied().filter(|&vcpu| vcpu != first);
            picked = others.min_by_key(|&vcpu| time(vcpu)).filter(near).unwrap_or(first);
        }
        let next = queue.next.filter(|next| queue.waiting.contains(next));
        Some(next.filter(near).unwrap_or(picked))
    }

    /// An idle pCPU near `home`: that itself, or another of the socket.
    pub(super) fn idle_near(&self, home: u32) -> Option<u32> {
        let idle = |pcpu: &u32| self.owner(*pcpu).is_none();
        Some(home).filter(idle).or_else(|| self.socket_of(home).find(idle))
    }

    fn socket_of(&self, pcpu: u32) -> std::ops::Range<u32> {
        let first = pcpu / self.socket * self.socket;
        first..(first + self.socket).min(self.queues.len() as u32)
    }

    /// Records that `pcpu`, which was idle, has got something to do by a wake-up.
    pub(super) fn ends_idle(&mut self, pcpu: u32) {
        let queue = &mut self.queues[pcpu as usize];
        let Some(since) = queue.idle_since.take() else { return };
        let span = (self.now - since) as i64;
        let most = 2 * MIGRATION_NS as i64;
        let usual = queue.idle_ns as i64;
        queue.idle_ns = if span > most { most } else { usual + (span - usual) / 8 } as u64;
    }

    /// Fetches a vCPU for `pcpu`, which falls idle, if that is likely to pay.
    fn fetch_if_idle_long(&mut self, pcpu: u32) -> Option<u32> {
        if self.queues[pcpu as usize].idle_ns < MIGRATION_NS {
            return None;
        }
        let near = self.socket_of(pcpu);
        self.fetch(pcpu, near, 1).or_else(|| self.fetch(pcpu, 0..self.queues.len() as u32, 1))
    }

    /// Moves a vCPU that has not just run from the longest queue of `from` to that of `pcpu`, if
    /// `least` wait there.
    fn fetch(&mut self, pcpu: u32, from: std::ops::Range<u32>, least: usize) -> Option<u32> {
        let waiting = |pcpu: u32| &self.queues[pcpu as usize].waiting;
        let longest = from.rev().max_by_key(|&other| waiting(other).len())?;
        if waiting(longest).len() < least {
            return None;
        }
        let is_cold = |vcpu: &&u32| self.now - self.tasks[**vcpu as usize].left_at >= MIGRATION_NS;
        let vcpu = *waiting(longest).iter().find(is_cold)?;
        self.account(vcpu);
        self.dequeue(vcpu);
        self.move_to(vcpu, pcpu);
        self.enqueue(vcpu, pcpu);
        Some(vcpu)
    }

    /// The periodic look for work in other queues: within the socket, and now and then beyond.
    pub(super) fn looks_elsewhere(&mut self, now: u64, pcpu: u32, actions: &mut Vec<Action>) {
        self.now = now;
        let queue = &mut self.queues[pcpu as usize];
        queue.looks += 1;
        let (looks, own, is_idle) = (queue.looks, queue.waiting.len(), queue.owner.is_none());
        let pcpus = self.queues.len() as u32;
        let sockets = u64::from(pcpus.div_ceil(self.socket));
        if !is_idle && !looks.is_multiple_of(BUSY_FACTOR) {
            return;
        }
        let turn = if is_idle { looks } else { looks / BUSY_FACTOR };
        let from = if turn.is_multiple_of(sockets) { 0..pcpus } else { self.socket_of(pcpu) };
        // A queue that is longer by one is enough: so three vCPUs on two pCPUs take turns in twos.
        if self.fetch(pcpu, from, own + 1).is_none() {
            return;
        }
        if is_idle {
            self.queues[pcpu as usize].idle_since = None;
            self.switch(pcpu, None, actions);
        } else {
            let at = Nanos(self.queues[pcpu as usize].tick_at);
            actions.push(Action::SetTimer { pcpu: Pcpu(pcpu), at });
        }
    }
}
