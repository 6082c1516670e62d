//! A minimal round-robin with the shape of `overlock_host::sched`.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vcpu(pub(crate) u32);
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pcpu(pub(crate) u32);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Halted(Vcpu),
    LongSpin(Vcpu, Option<Vcpu>),
    Yielded(Vcpu),
    Preempted(Vcpu),
    Stopped(Vcpu),
    Kicked { target: Vcpu, by: Option<Vcpu> },
    Ipi { from: Vcpu, to: Vcpu },
    Timer(Pcpu),
    CriticalSection { vcpu: Vcpu, inside: bool },
}
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Run { vcpu: Vcpu, pcpu: Pcpu, until: u64 },
    Idle { pcpu: Pcpu },
    Preempt { vcpu: Vcpu, pcpu: Pcpu },
    SetTimer { pcpu: Pcpu, at: u64 },
}
#[derive(Debug)]
pub(crate) struct Scheduler {
    slots: Vec<Option<Vcpu>>,
    queue: VecDeque<Vcpu>,
    halted: Vec<bool>,
    kicked: Vec<bool>,
    slice: u64,
}
impl Scheduler {
    pub(crate) fn new(vcpus: u32, pcpus: u32, slice: u64) -> Self {
        let n = vcpus as usize;
        Self {
            slots: vec![None; pcpus as usize],
            queue: VecDeque::with_capacity(n),
            halted: vec![true; n],
            kicked: vec![false; n],
            slice,
        }
    }
    fn fill(&mut self, now: u64, p: usize) -> Option<Action> {
        let pcpu = Pcpu(p as u32);
        Some(match self.queue.pop_front() {
            Some(vcpu) => {
                self.slots[p] = Some(vcpu);
                Action::Run { vcpu, pcpu, until: now + self.slice }
            }
            None => {
                self.slots[p] = None;
                Action::Idle { pcpu }
            }
        })
    }
    fn slot(&self, v: Vcpu) -> usize {
        self.slots.iter().position(|s| *s == Some(v)).unwrap()
    }
    fn wake(&mut self, now: u64, v: Vcpu) -> Option<Action> {
        if !self.halted[v.0 as usize] {
            self.kicked[v.0 as usize] = true;
            return None;
        }
        self.halted[v.0 as usize] = false;
        self.queue.push_back(v);
        let p = self.slots.iter().position(|s| s.is_none())?;
        self.fill(now, p)
    }
    pub(crate) fn on(&mut self, now: u64, event: Event) -> Option<Action> {
        match event {
            Event::Halted(v) => {
                let p = self.slot(v);
                if std::mem::take(&mut self.kicked[v.0 as usize]) {
                    self.queue.push_front(v);
                } else {
                    self.halted[v.0 as usize] = true;
                }
                self.fill(now, p)
            }
            Event::LongSpin(v, target) => {
                let p = self.slot(v);
                if let Some(at) = target.and_then(|t| self.queue.iter().position(|q| *q == t)) {
                    let t = self.queue.remove(at).unwrap();
                    self.queue.push_front(t);
                }
                self.queue.push_back(v);
                self.fill(now, p)
            }
            Event::Yielded(v) | Event::Preempted(v) => {
                let p = self.slot(v);
                self.queue.push_back(v);
                self.fill(now, p)
            }
            Event::Stopped(v) => {
                let p = self.slot(v);
                self.fill(now, p)
            }
            Event::Kicked { target, .. } => self.wake(now, target),
            Event::Ipi { to, .. } => self.wake(now, to),
            Event::Timer(pcpu) => {
                let v = self.slots[pcpu.0 as usize]?;
                Some(if self.queue.is_empty() {
                    Action::SetTimer { pcpu, at: now + self.slice }
                } else {
                    Action::Preempt { vcpu: v, pcpu }
                })
            }
            Event::CriticalSection { .. } => None,
        }
    }
}
