//! The machine: vCPUs with clocks of their own, and one order of everything that others can see.
//!
//! # State
//! A vCPU that owns a pCPU has a clock of its own, `at`, which runs ahead of the machine's time by
//! the duration of what the vCPU is still doing: a transfer, a pause, work. Only before something
//! that others can see does it wait until the machine has caught up ([`sync`](calls::sync)): see
//! [`engine`](crate::engine).
//!
//! A spinner sleeps: see [`spin`](super::spin).
//!
//! # Invariants
//! - T1: visible accesses happen in the order of their times; those at equal times happen in the
//!   order in which they were planned.
//! - T2: a vCPU that owns no pCPU has no valid plan; its remaining work is its `debt`.
//! - T3: a vCPU that sleeps in a spin loop watches every line that the loop has read.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};

use overlock_bench::timeline::{Notes, Window};
use overlock_bench::{Hint, RunConfig};
use overlock_results::Accounts;
use overlock_vcpu::host::Vcpu;
use overlock_vcpu::host::sched::yield_to::Tally;
use overlock_vcpu::host::sched::{Action, Event as Told};

use self::halt_poll::Poll;
use super::Error;
use super::coherence::{LineId, Lines, Reached};
use super::host_profile::{Background, HostProfile, Ns};
use super::scheduling::{MakeScheduler, OtherScheduler, ns, scheduler};
use super::spin::{Loop, Only};
use crate::engine::{self, Access, Core, Home, Touch};
use overlock_results::{Rng, seed_of};

mod background;
pub(crate) mod calls;
mod halt_poll;
mod interrupts;
mod pause;
mod turn;

/// What the host asks of the program, and tells it.
pub(crate) trait Guest {
    fn run(&self);
    fn interrupt(&self, number: u32);
    fn hint(&self, vcpu: u32) -> Hint;
    fn truth(&self, vcpu: u32) -> Hint;
    fn progress(&self, vcpu: u32) -> u64;
    fn was_away(&self, vcpu: u32, since_ns: u64, until_ns: u64);
}

#[derive(Debug, Default)]
pub(crate) struct VcpuState {
    pub(crate) at: u64,
    /// The pCPU it owns.
    pub(crate) pcpu: Option<u32>,
    /// When its buffered stores can be seen by others.
    stores_done: u64,
    /// How much work it has left when it gets a pCPU again.
    debt: u64,
    /// When its last entry into the guest ends, or has ended.
    enters_at: u64,
    pub(crate) spin: Loop,
    /// Whether it announces that it is in a critical section whose end the host waits for.
    critical: bool,
    yield_wanted: bool,
    halted_at: Option<u64>,
    poll: Poll,
    window_doubled: u32,
    /// Interrupts that await delivery, and whether one is being delivered.
    pending: u32,
    in_handler: bool,
    owes: bool,
    /// Whether the work it does is in user mode.
    pub(crate) in_user: bool,
    /// The start and the end of the slice because of which it was asked to come out.
    slice_over: Option<(u64, u64)>,
    /// The spin loop in which the last sample found it.
    sampled: Option<(u64, u64)>,
    /// Nanoseconds without a pCPU, as visible to the vCPU.
    away_ns: u64,
    steal_ns: u64,
    ended: bool,
    pub(crate) accounts: Accounts,
}

/// What a run counts beyond its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    /// How many times cells were accessed.
    pub accesses: u64,
    /// How many cache lines moved.
    pub transfers: u64,
}

/// Something that happens without a vCPU's doing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The owner's slice may be over.
    Slice { pcpu: u32 },
    /// The owner is out of the guest, as requested.
    Evicted { vcpu: u32, pcpu: u32 },
    /// An interrupt reaches a vCPU.
    Interrupt { vcpu: u32 },
    /// A halted vCPU is woken, if it is still in that halt.
    Deadline { vcpu: u32, halt: u64 },
    /// Other load on the host takes a pCPU for a while.
    Background { pcpu: u32 },
    /// Under another scheduler, a pCPU looks for work in other queues.
    Balance { pcpu: u32 },
    /// All running vCPUs are sampled.
    Sample,
    /// The run is checked for an early end.
    Look,
    /// The programs are told to return.
    Stop,
    /// The programs have not returned in time.
    GiveUp,
}

/// How many events are planned between two checks for an early end of the run.
const LOOK_EVERY_EVENTS: u64 = 1 << 16;
/// How many nanoseconds of virtual time pass at most between two such checks: a vCPU that is alone
/// needs no events.
const LOOK_EVERY_NS: u64 = 10_000_000;
/// How many nanoseconds of virtual time the programs of a cancelled run, whose results are dropped,
/// have to return.
const CANCELLED_GRACE_NS: u64 = 100_000_000;

pub(crate) struct HostMachine<'run> {
    pub(crate) core: Core<Event>,
    pub(crate) costs: Ns,
    pub(crate) lines: Lines,
    pub(crate) rng: Rng,
    pub(crate) vcpus: Vec<VcpuState>,
    pub(crate) guest: &'run dyn Guest,
    /// How long a loop of pauses lasts until it exits to the host; 0 means for ever.
    pub(crate) pause_window: u64,
    /// Whether locks that can wait do wait.
    pub(crate) waits: bool,
    pub(crate) wake_ns: u64,
    /// Whether interrupts between vCPUs take no exit.
    pub(crate) hidden_ipis: bool,
    /// For how long the host polls at most for the end of a halt.
    halt_poll_ns: u64,
    /// The vCPU that each pCPU had last, if the host polls.
    last_on: Vec<u32>,
    pub(crate) accesses: u64,
    /// What the locks of the run share, which the machine only keeps.
    pub(crate) shared: &'run dyn Any,
    /// Reads the PM timer, on a vCPU.
    pub(crate) pm_timer: &'run dyn Fn() -> u32,
    cancel: Option<&'run AtomicBool>,
    /// How many events have been planned when the run is next checked for an early end.
    next_look: u64,
    scheduler: Box<dyn OtherScheduler>,
    /// What the scheduler last asked for; empty between events.
    actions: Vec<Action>,
    guest_vcpus: u32,
    background: Option<Background>,
    /// The times to which the slice timers of the pCPUs are set; 0 means not set.
    slices: Vec<u64>,
    /// By how much longer the first slice of each pCPU is.
    phases: Vec<u64>,
    sample_every: u64,
    grace_ns: u64,
    pub(crate) stop_at: u64,
    /// The notes for a timeline, if one is recorded.
    notes: Option<Notes>,
    books_at_stop: Option<(Vec<Accounts>, Tally)>,
    alive: u32,
    given_up: bool,
}

/// By how much longer the first slices of `pcpus` are. All start together; without this, all slices
/// of a run would end together, as they do on no real host. The first ends when it should.
fn phases(pcpus: u32, most: u64, rng: &mut Rng) -> Vec<u64> {
    let drawn: Vec<u64> = (0..pcpus).map(|_| if most > 0 { rng.below(most) } else { 0 }).collect();
    let first = drawn.iter().min().copied().unwrap_or(0);
    drawn.into_iter().map(|phase| phase - first).collect()
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.events += other.events;
        self.accesses += other.accesses;
        self.transfers += other.transfers;
    }
}

impl<'run> HostMachine<'run> {
    pub(crate) fn new(
        host: &HostProfile,
        seed: u64,
        config: &RunConfig<'run>,
        guest: &'run dyn Guest,
        shared: &'run dyn Any,
        pm_timer: &'run dyn Fn() -> u32,
        make: Option<MakeScheduler>,
    ) -> Result<Self, Error> {
        let wrong = |what: String| Error::Config(what);
        let total = host.topology.pcpus();
        if config.pcpus > total {
            let (pcpus, name) = (config.pcpus, &host.name);
            return Err(wrong(format!("the host {name} has {total} pCPUs, not {pcpus}")));
        }
        let scheduler = scheduler(config, &host.topology, make)?;
        let costs = host.costs.ns();
        let stop_at = ns(config.duration);
        let mut rng = Rng::new(seed_of(seed, 0));
        let phases = phases(config.pcpus, scheduler.phase_ns(), &mut rng);
        Ok(Self {
            core: Core::new(config.vcpus as usize),
            costs,
            lines: Lines::new(&host.topology, costs, host.jitter_percent),
            rng,
            vcpus: (0..config.vcpus).map(|_| VcpuState::default()).collect(),
            guest,
            pause_window: ns(config.pause_window),
            waits: config.paravirtual,
            wake_ns: config.wake_ns.unwrap_or_else(|| host.wake_ns()),
            hidden_ipis: config.hidden_ipis,
            halt_poll_ns: ns(config.halt_poll),
            last_on: vec![u32::MAX; config.pcpus as usize],
            accesses: 0,
            shared,
            pm_timer,
            cancel: config.cancel,
            next_look: LOOK_EVERY_EVENTS,
            scheduler,
            actions: Vec::new(),
            guest_vcpus: config.vcpus_of_guest(),
            background: host.background.clone(),
            slices: vec![0; config.pcpus as usize],
            phases,
            sample_every: config.sample_every.map_or(0, ns),
            grace_ns: ns(config.grace),
            stop_at,
            notes: Window::of(config).map(|window| Notes::new(window, config.vcpus)),
            books_at_stop: None,
            alive: config.vcpus,
            given_up: false,
        })
    }

    pub(crate) fn guest_of(&self, vcpu: u32) -> std::ops::Range<u32> {
        let first = vcpu / self.guest_vcpus * self.guest_vcpus;
        first..(first + self.guest_vcpus).min(self.vcpus.len() as u32)
    }

    /// How long `vcpu` may pause in one loop until it exits to the host; 0 means for ever.
    pub(crate) fn window(&self, vcpu: u32) -> u64 {
        self.pause_window << self.vcpus[vcpu as usize].window_doubled
    }

    pub(crate) fn cpu(&mut self) -> &mut VcpuState {
        &mut self.vcpus[self.core.current as usize]
    }

    /// Plans for `vcpu` to continue when its clock says so.
    #[inline]
    pub(crate) fn plan(&mut self, vcpu: u32) {
        self.core.plan(vcpu, self.vcpus[vcpu as usize].at);
    }

    /// Ends the run now if it has been cancelled.
    fn look_at_cancel(&mut self) {
        if !self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return;
        }
        if self.books_at_stop.is_none() {
            self.stop_at = self.core.now.max(1);
            self.stop();
        } else if self.core.now >= self.stop_at + CANCELLED_GRACE_NS {
            self.given_up = true;
        }
    }

    /// The vCPUs that have not ended, and what they are doing.
    pub(crate) fn stuck(&self) -> Vec<(u32, &'static str)> {
        let all = (0..).zip(&self.vcpus).filter(|(_, state)| !state.ended);
        all.map(|(vcpu, _)| (vcpu, self.doing(vcpu))).collect()
    }

    /// The counts up to the time at which the programs were told to return.
    pub(crate) fn books(&mut self) -> (Vec<Accounts>, Tally) {
        self.books_at_stop.take().unwrap_or_else(|| self.books_now())
    }

    /// Whether the current vCPU has to wait until its stores can be seen, before a locked
    /// instruction: its clock then says until when.
    #[inline]
    pub(crate) fn drains(&mut self) -> bool {
        let state = self.cpu();
        let waits = state.stores_done > state.at;
        state.at = state.at.max(state.stores_done);
        waits
    }

    /// Asks for the line of an access by the current vCPU.
    #[inline]
    pub(crate) fn reach(&mut self, touch: &Touch) -> (LineId, Reached) {
        let line = self.lines.find(touch.address);
        let Self { core, vcpus, lines, rng, .. } = self;
        let state = &mut vcpus[core.current as usize];
        let pcpu = state.pcpu.unwrap_or(0);
        let reached = lines.reach(line, touch.access, pcpu, state.at, rng);
        if reached != Reached::Here {
            state.spin.fetches();
        }
        (line, reached)
    }

    /// Makes an access by the current vCPU to a line that it has; a store may be seen only `later`.
    /// Returns when others can see it.
    #[inline]
    pub(crate) fn perform(&mut self, touch: &Touch, line: LineId, later: Option<u64>) -> u64 {
        let own = self.lines.own_ns(touch.access);
        let order_ns = self.order_ns(touch.order);
        let version = self.lines.version(line);
        let state = self.cpu();
        let began = state.at;
        let seen = later.unwrap_or(began + own);
        state.at += own + order_ns;
        match touch.access {
            Access::Load => {
                let only = Only { word: touch.address, order_ns, done: state.at };
                state.spin.reads(line, version, began, only);
            }
            Access::Store => {
                state.stores_done = state.stores_done.max(seen);
                state.spin.writes();
            }
            Access::ReadModifyWrite => state.spin.writes(),
        }
        seen
    }

    /// The cost of an access's ordering.
    #[inline]
    pub(crate) fn order_ns(&self, order: Ordering) -> u64 {
        let Ns { acquire, release, full, .. } = self.costs;
        match order {
            Ordering::Acquire => acquire,
            Ordering::Release => release,
            Ordering::AcqRel => acquire + release,
            Ordering::SeqCst => full,
            _ => 0,
        }
    }

    /// Performs a fence of the current vCPU.
    pub(crate) fn fence(&mut self, order: Ordering) {
        let ns = self.order_ns(order);
        self.cpu().at += ns;
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            events: self.core.planned(),
            accesses: self.accesses,
            transfers: self.lines.transfers,
        }
    }

    /// Wakes all vCPUs that sleep until this line changes. Its word at this address has changed,
    /// and they can see that at `seen`.
    pub(crate) fn wake_watchers(&mut self, line: LineId, word: usize, seen: u64) {
        let watchers = self.lines.take_watchers(line);
        for &vcpu in &watchers {
            let Self { vcpus, lines, costs, .. } = self;
            let state = &mut vcpus[vcpu as usize];
            state.at = state.spin.woken((line, word), seen, costs.pause.max(1), vcpu, lines);
            self.plan(vcpu);
        }
        self.lines.give_back(line, watchers);
    }
}

impl engine::Machine for HostMachine<'static> {
    type Event = Event;

    #[inline]
    fn home<R>(visit: impl FnOnce(&Home<Self>) -> R) -> R {
        thread_local! {
            static HOME: Home<HostMachine<'static>> = const { Home::empty() };
        }
        HOME.with(visit)
    }

    #[inline]
    fn core(&mut self) -> &mut Core<Event> {
        &mut self.core
    }

    fn start(&mut self) {
        for vcpu in 0..self.vcpus.len() as u32 {
            // This keeps the vCPUs from all starting in the same nanosecond.
            self.vcpus[vcpu as usize].debt = self.rng.below(1_000);
            self.kick(vcpu);
        }
        self.core.add(self.stop_at, Event::Stop);
        if self.sample_every > 0 {
            self.core.add(self.sample_every, Event::Sample);
        }
        if self.cancel.is_some() {
            self.core.add(LOOK_EVERY_NS, Event::Look);
        }
        for pcpu in 0..self.slices.len() as u32 {
            self.plan_background(pcpu);
            self.plan_balance(pcpu);
        }
    }

    #[inline]
    fn is_over(&mut self) -> bool {
        if self.core.planned() >= self.next_look {
            self.next_look += LOOK_EVERY_EVENTS;
            self.look_at_cancel();
        }
        self.alive == 0 || self.given_up
    }

    #[inline]
    fn is_due(&mut self, vcpu: u32) -> bool {
        !self.repeats(vcpu)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Slice { pcpu } => self.slice(pcpu),
            Event::Evicted { vcpu, pcpu } => self.evicted(vcpu, pcpu),
            Event::Interrupt { vcpu } => self.interrupted(vcpu),
            Event::Deadline { vcpu, halt } => self.deadline(vcpu, halt),
            Event::Background { pcpu } => self.background(pcpu),
            Event::Balance { pcpu } => self.balance(pcpu),
            Event::Sample => self.sample(),
            Event::Look => {
                self.core.add(self.core.now + LOOK_EVERY_NS, Event::Look);
                self.look_at_cancel();
            }
            // This is skipped if the run was cancelled.
            Event::Stop if self.books_at_stop.is_none() => self.stop(),
            Event::Stop => {}
            Event::GiveUp => self.given_up = true,
        }
    }

    fn ended(&mut self) {
        let vcpu = self.core.current;
        self.vcpus[vcpu as usize].ended = true;
        self.alive -= 1;
        self.tell(Told::Stopped { vcpu: Vcpu(vcpu) });
    }

    fn program(_: u32) {
        engine::with(|m: &mut Self| m.guest).run();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pcpu_ends_its_first_slice_in_time_and_the_others_later() {
        let drawn = phases(64, 1_000, &mut Rng::new(1));
        assert!(drawn.contains(&0) && drawn.iter().all(|&phase| phase < 1_000), "{drawn:?}");
        assert!(drawn.iter().max() > Some(&500), "{drawn:?}");
        assert_eq!(phases(3, 0, &mut Rng::new(1)), [0; 3]);
    }
}
