//! The smallest possible host in virtual time: it carries out what a scheduler decides, checks each
//! decision against its own books, and plays the vCPUs.
//!
//! Each vCPU follows a script: run for a given time, then perform a deed. Leaving the guest takes
//! `latency`, as on a real host. Nothing here reads a clock, so a seed reproduces a run.

use overlock_results::Rng;
use overlock_vcpu::host::sched::yield_to::{Decision, Outcome, Policy};
use overlock_vcpu::host::sched::{Action, Config, Event, Scheduler, Spin};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};

/// What a vCPU does at the end of a stretch of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Spin(Spin),
    Yield,
    /// Sleeps until it is woken, at most for this long.
    Halt(Nanos),
    Kick(Vcpu),
    Ipi(Vcpu),
    Critical(bool),
    Stop,
}

/// A vCPU's program: what it does next, and after how much CPU time.
pub(crate) type Script = Box<dyn FnMut(&mut Rng, Vcpu) -> (Nanos, Deed)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Asleep,
    Ready,
    On(usize),
    Gone,
}

struct Guest {
    script: Script,
    place: Place,
    left: Nanos,
    deed: Deed,
    wakes: Option<Nanos>,
    kicked: bool,
    /// Whether it was woken and has not run since: then a kick adds nothing.
    woken: bool,
    ready_since: Nanos,
    longest_wait: Nanos,
    ran: Nanos,
}

pub(crate) struct Machine<P: Policy> {
    pub(crate) sched: Scheduler<P>,
    pub(crate) now: Nanos,
    pub(crate) decisions: Vec<Decision>,
    latency: Nanos,
    guests: Vec<Guest>,
    timers: Vec<Option<Nanos>>,
    owners: Vec<Option<Vcpu>>,
    preempts: Vec<Option<Nanos>>,
    rng: Rng,
}

/// The next thing that happens; the order is that of things that happen at the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Deed(usize),
    Out(usize),
    Timer(usize),
    Wake(usize),
}

impl<P: Policy> Machine<P> {
    pub(crate) fn new(
        config: Config,
        policy: P,
        latency: Nanos,
        seed: u64,
        scripts: Vec<Script>,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let guests = scripts.into_iter().enumerate().map(|(n, mut script)| {
            let (left, deed) = script(&mut rng, Vcpu(n as u32));
            Guest {
                script,
                place: Place::Asleep,
                left,
                deed,
                wakes: None,
                kicked: false,
                woken: false,
                ready_since: Nanos::ZERO,
                longest_wait: Nanos::ZERO,
                ran: Nanos::ZERO,
            }
        });
        let guests: Vec<_> = guests.collect();
        assert_eq!(guests.len(), config.vcpus as usize);
        let slots = config.pcpus as usize;
        let mut machine = Self {
            sched: Scheduler::new(config, policy).unwrap(),
            now: Nanos::ZERO,
            decisions: Vec::new(),
            latency,
            timers: vec![None; slots],
            owners: vec![None; slots],
            preempts: vec![None; slots],
            guests,
            rng,
        };
        for n in 0..machine.guests.len() {
            machine.wake(n);
            machine.send(Event::Kicked { target: Vcpu(n as u32) }, None);
        }
        machine
    }

    pub(crate) fn run(&mut self, end: Nanos) {
        self.run_while(end, |_| true);
    }

    pub(crate) fn run_while(&mut self, end: Nanos, mut go_on: impl FnMut(&Self) -> bool) {
        while go_on(self) {
            let Some((at, next)) = self.next().filter(|&(at, _)| at <= end) else {
                self.advance(end);
                return;
            };
            self.advance(at);
            self.step(next);
        }
    }

    pub(crate) fn ran(&self, vcpu: usize) -> Nanos {
        self.guests[vcpu].ran
    }

    /// The longest time for which a vCPU has waited for a pCPU, up to now.
    pub(crate) fn longest_wait(&self, vcpu: usize) -> Nanos {
        let guest = &self.guests[vcpu];
        let waiting = guest.place == Place::Ready;
        let current = if waiting { self.now - guest.ready_since } else { Nanos::ZERO };
        guest.longest_wait.max(current)
    }

    pub(crate) fn running(&self, vcpu: usize) -> bool {
        matches!(self.guests[vcpu].place, Place::On(_))
    }

    fn next(&self) -> Option<(Nanos, Next)> {
        let slots = 0..self.owners.len();
        let deeds = slots.clone().filter_map(|p| {
            // A vCPU works until it is out, and may perform a deed of its own before that.
            let owner = self.owners[p]?;
            Some((self.now + self.guests[owner.index()].left, Next::Deed(p)))
        });
        let outs = slots.clone().filter_map(|p| Some((self.preempts[p]?, Next::Out(p))));
        let timers = slots.filter_map(|p| Some((self.timers[p]?, Next::Timer(p))));
        let wakes = self.guests.iter().enumerate();
        let wakes = wakes.filter_map(|(n, guest)| Some((guest.wakes?, Next::Wake(n))));
        deeds.chain(outs).chain(timers).chain(wakes).min()
    }

    fn advance(&mut self, to: Nanos) {
        let span = to - self.now;
        for owner in self.owners.iter().flatten() {
            let guest = &mut self.guests[owner.index()];
            guest.ran = guest.ran + span;
            guest.left = guest.left - span;
        }
        self.now = self.now.max(to);
    }

    fn step(&mut self, next: Next) {
        match next {
            Next::Timer(p) => {
                self.timers[p] = None;
                self.send(Event::Timer { pcpu: Pcpu(p as u32) }, None);
            }
            Next::Out(p) => {
                self.preempts[p] = None;
                let owner = self.owners[p].unwrap();
                self.send(Event::Preempted { vcpu: owner }, Some(p));
            }
            Next::Wake(n) => {
                self.wake(n);
                self.send(Event::Kicked { target: Vcpu(n as u32) }, None);
            }
            Next::Deed(p) => self.deed(p),
        }
    }

    fn deed(&mut self, p: usize) {
        let vcpu = self.owners[p].unwrap();
        let deed = self.guests[vcpu.index()].deed;
        let guest = &mut self.guests[vcpu.index()];
        (guest.left, guest.deed) = (guest.script)(&mut self.rng, vcpu);
        // A script that never works would stop time.
        guest.left = guest.left.max(Nanos(1));
        match deed {
            Deed::Spin(spin) => self.send(Event::LongSpin { spin }, Some(p)),
            Deed::Yield => self.send(Event::Yielded { vcpu }, Some(p)),
            Deed::Halt(span) => {
                if !std::mem::take(&mut guest.kicked) {
                    guest.place = Place::Asleep;
                    guest.wakes = Some(self.now + span);
                }
                self.send(Event::Halted { vcpu }, Some(p));
            }
            Deed::Stop => {
                guest.place = Place::Gone;
                self.send(Event::Stopped { vcpu }, Some(p));
            }
            Deed::Kick(target) => {
                self.wake(target.index());
                self.send(Event::Kicked { target }, None);
            }
            Deed::Ipi(to) => {
                self.wake(to.index());
                self.send(Event::Ipi { from: vcpu, to }, None);
            }
            Deed::Critical(inside) => self.send(Event::CriticalSection { vcpu, inside }, None),
        }
    }

    fn wake(&mut self, n: usize) {
        let now = self.now;
        let guest = &mut self.guests[n];
        guest.wakes = None;
        match guest.place {
            Place::Asleep => {
                (guest.place, guest.ready_since, guest.woken) = (Place::Ready, now, true);
            }
            Place::Ready | Place::On(_) => guest.kicked |= !guest.woken,
            Place::Gone => {}
        }
    }

    /// Sends an event. `out` is the slot whose owner is out of the guest and waits for an answer.
    fn send(&mut self, event: Event, out: Option<usize>) {
        let action = self.sched.on(self.now, event).unwrap();
        if let Some(decision) = self.sched.decision() {
            self.check(decision);
            self.decisions.push(decision.clone());
        }
        if let Some(p) = out {
            let answered = matches!(action, Some(Action::Run { pcpu, .. } | Action::Idle { pcpu })
                if pcpu.index() == p);
            assert!(answered, "{event:?} of the owner of pcpu{p} was answered by {action:?}");
            self.vacate(p);
        }
        if let Some(action) = action {
            self.carry_out(action);
        }
        let ready = self.guests.iter().any(|guest| guest.place == Place::Ready);
        assert!(!ready || self.owners.iter().all(Option::is_some), "a pCPU idles, a vCPU waits");
    }

    fn vacate(&mut self, p: usize) {
        self.preempts[p] = None;
        let owner = self.owners[p].take().expect("the slot that answers has an owner");
        let guest = &mut self.guests[owner.index()];
        if guest.place == Place::On(p) {
            (guest.place, guest.ready_since) = (Place::Ready, self.now);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Run { vcpu, pcpu, until } => {
                let p = pcpu.index();
                assert_eq!(self.owners[p], None, "{pcpu} has an owner; {vcpu} cannot run there");
                let guest = &mut self.guests[vcpu.index()];
                assert_eq!(guest.place, Place::Ready, "{vcpu} cannot run");
                guest.longest_wait = guest.longest_wait.max(self.now - guest.ready_since);
                (guest.place, guest.woken) = (Place::On(p), false);
                self.owners[p] = Some(vcpu);
                self.timers[p] = Some(until);
            }
            Action::Idle { pcpu } => {
                assert_eq!(self.owners[pcpu.index()], None, "{pcpu} has an owner");
                self.timers[pcpu.index()] = None;
            }
            Action::Preempt { vcpu, pcpu } => {
                assert_eq!(self.owners[pcpu.index()], Some(vcpu), "{vcpu} does not own {pcpu}");
                let pending = self.preempts[pcpu.index()].replace(self.now + self.latency);
                assert_eq!(pending, None, "{vcpu} is already being preempted");
            }
            Action::SetTimer { pcpu, at } => {
                assert!(self.owners[pcpu.index()].is_some(), "{pcpu} idles and needs no timer");
                self.timers[pcpu.index()] = Some(at);
            }
        }
    }

    /// A directed yield goes to a vCPU that waits for a pCPU, and is not the giver.
    fn check(&self, decision: &Decision) {
        if let Outcome::Directed { to, .. } | Outcome::Plain { to, .. } = decision.outcome {
            assert_ne!(to, decision.vcpu, "a yield to oneself: {decision:?}");
            let place = self.guests[to.index()].place;
            assert_eq!(place, Place::Ready, "a yield to one that is not waiting: {decision:?}");
        }
    }
}
