//! The host: what both engines share. It owns the scheduler and tells vCPU threads when to run.
//!
//! A vCPU is a thread of its own, which only enters the guest while its vCPU owns a processor. Whatever
//! brings it out ends in [`Host::exit`], which tells the scheduler, carries out what that decides and
//! sleeps until the vCPU owns a processor again. There is no thread that schedules: whoever gives a
//! processor up wakes the next owner itself. Only time needs one ([`supervise`](Host::supervise)).
//!
//! ```text
//!  vCPU thread      guest ──exit──► Host::exit ──► scheduler ──► Run me: back into the guest
//!                                        │              └──────► Run another: open its gate,
//!                                        │                        wait at mine
//!  supervisor    slice over ─► scheduler ─► Preempt ─► signal ─► vCPU thread exits
//! ```
//!
//! # Invariants
//! - H1: a vCPU is in the guest only while [`Stand::Running`].
//! - H2: `evict` is set before the signal is sent, and cleared by the vCPU's own thread when it is out
//!   of the guest, before it asks for its standing. So an eviction that comes too late to
//!   bring the thread out is seen before it goes in again.
//! - H3: no thread sleeps or makes a slow system call with the state locked; wakes and signals are
//!   collected and sent afterwards.
//! - H4: `exit` does not allocate: the threads engine calls it from a signal handler.

mod accounts;
mod pm_timer;
mod supervise;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub use self::accounts::Accounts;
pub use self::pm_timer::PmTimerRule;
use self::pm_timer::Timer;
use crate::clock::Clock;
use crate::engine::Config;
use crate::error::{Error, Stuck};
use crate::gate::Gate;
use crate::guest::abi::{Call, MAX_VCPUS, VcpuRecord};
use crate::maps::Code;
use crate::spin_loops;
use overlock_host::sched::yield_to::{self, Policy};
use overlock_host::sched::{Action, Event, Scheduler, Spin, SpinHint, SpinSource};
use overlock_host::{Nanos, Pcpu, Vcpu};

/// Why a vCPU is out of the guest.
#[derive(Debug)]
pub(crate) enum Exit {
    /// Its thread is ready and has never been in.
    Ready,
    /// It called.
    Call(Call, [u64; 2]),
    /// A signal brought it out, at this instruction if it was asked for.
    Evicted(Option<u64>),
    /// Its program has returned, or has ended with an error.
    Ended(Result<(), Error>),
}

/// What a vCPU's thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    /// Enter the guest.
    Enter,
    /// Never enter the guest again: the vCPU has ended, or is ended by force.
    Leave,
}

/// Where a vCPU is, as its own thread reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Stand {
    Waiting,
    Running,
    Ended,
}

/// One vCPU, as other threads see it.
#[derive(Debug)]
struct Post {
    gate: Gate,
    /// A [`Stand`]; written with the state locked.
    stand: AtomicU32,
    /// It should come out of the guest.
    evict: AtomicBool,
    /// Its instruction pointer is wanted.
    sample: AtomicBool,
    /// Its thread, as the system numbers it; 0 until it is ready.
    thread: AtomicI32,
    /// How often it read the PM timer, which needs no scheduler.
    pm_reads: AtomicU64,
}

/// What a vCPU is doing, as the host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    NotReady,
    Queued { since: u64 },
    Running { since: u64 },
    Halted { since: u64, deadline: Option<u64> },
    Ended,
}

#[derive(Debug)]
struct Guest {
    doing: Doing,
    /// The scheduler wants its processor back.
    preempt_asked: bool,
    /// The spin loop that the last sample found it in.
    last_loop: Option<u64>,
    /// What it was doing when it ended.
    last: &'static str,
    accounts: Accounts,
}

#[derive(Debug)]
struct State {
    scheduler: Scheduler<Box<dyn Policy + Send>>,
    guests: Vec<Guest>,
    /// When each processor's slice is over.
    timers: Vec<Option<u64>>,
    /// Who is on each processor.
    owners: Vec<Option<u32>>,
    failure: Option<Error>,
    /// When the first vCPU entered the guest.
    started: Option<u64>,
    /// When the stop flag was set, and when it is to be.
    stopped: Option<u64>,
    end_at: Option<u64>,
    next_sample: Option<u64>,
    /// vCPUs that were ended by force, and where.
    stuck: Vec<Stuck>,
    /// vCPUs that have not ended.
    alive: u32,
    /// All are being ended by force.
    forced: bool,
    /// When the supervisor looks next.
    alarm: u64,
}

/// A set of vCPUs, without allocation.
#[derive(Clone, Copy, Debug, Default)]
struct CpuSet([u64; MAX_VCPUS / 64]);

impl CpuSet {
    fn insert(&mut self, vcpu: u32) {
        self.0[vcpu as usize / 64] |= 1 << (vcpu % 64);
    }

    fn remove(&mut self, vcpu: u32) {
        self.0[vcpu as usize / 64] &= !(1 << (vcpu % 64));
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_VCPUS).filter(move |at| self.0[at / 64] & (1 << (at % 64)) != 0)
    }
}

/// What is left to do once the state is unlocked.
#[derive(Clone, Copy, Debug, Default)]
struct Errands {
    wake: CpuSet,
    evict: CpuSet,
    alarm: bool,
}

/// The host of one run.
#[derive(Debug)]
pub(crate) struct Host<'run> {
    pub(crate) records: &'run [VcpuRecord],
    pub(crate) code: &'run Code,
    pub(crate) clock: Clock,
    signal: i32,
    pm_timer: Timer,
    posts: Vec<Post>,
    state: Mutex<State>,
    supervisor: Condvar,
}

impl<'run> Host<'run> {
    /// A host for the vCPUs of `records`, whose threads come out of the guest when they get `signal`.
    pub(crate) fn new(
        config: &Config,
        records: &'run [VcpuRecord],
        code: &'run Code,
        signal: i32,
    ) -> Result<Self, Error> {
        let policy = yield_to::by_name(config.policy, config.vcpus).ok_or_else(|| {
            let (policy, known) = (config.policy, yield_to::NAMES.join(", "));
            Error::Config(format!("no yield policy is called {policy}; there are {known}"))
        })?;
        let scheduler = Scheduler::new(config.scheduler(), policy)
            .map_err(|error| Error::Config(error.to_string()))?;
        let guest = || Guest {
            doing: Doing::NotReady,
            preempt_asked: false,
            last_loop: None,
            last: "",
            accounts: Accounts::default(),
        };
        let post = || Post {
            gate: Gate::default(),
            stand: AtomicU32::new(Stand::Waiting as u32),
            evict: AtomicBool::new(false),
            sample: AtomicBool::new(false),
            thread: AtomicI32::new(0),
            pm_reads: AtomicU64::new(0),
        };
        Ok(Self {
            records,
            code,
            clock: records[0].shared().clock,
            signal,
            pm_timer: Timer::new(config.pm_timer, records[0].shared().clock),
            posts: records.iter().map(|_| post()).collect(),
            state: Mutex::new(State {
                scheduler,
                guests: records.iter().map(|_| guest()).collect(),
                timers: vec![None; config.pcpus as usize],
                owners: vec![None; config.pcpus as usize],
                failure: None,
                started: None,
                stopped: None,
                end_at: None,
                next_sample: None,
                stuck: Vec::new(),
                alive: config.vcpus,
                forced: false,
                alarm: 0,
            }),
            supervisor: Condvar::new(),
        })
    }

    /// Whether vCPU `vcpu` should not enter the guest before it has called [`exit`](Self::exit).
    pub(crate) fn evicted(&self, vcpu: u32) -> bool {
        self.posts[vcpu as usize].evict.load(Relaxed)
    }

    /// Whether the next eviction should say where the vCPU was.
    pub(crate) fn wants_sample(&self, vcpu: u32) -> bool {
        self.posts[vcpu as usize].sample.load(Relaxed)
    }

    /// Called by a vCPU's own thread whenever it is out of the guest; returns when it may go in again.
    pub(crate) fn exit(&self, vcpu: u32, exit: Exit) -> Next {
        let post = &self.posts[vcpu as usize];
        if matches!(exit, Exit::Ready) {
            // SAFETY: takes no arguments and cannot fail.
            post.thread.store(unsafe { libc::gettid() }, Relaxed);
        }
        post.evict.store(false, Relaxed);
        let mut errands = Errands::default();
        let mut state = self.lock();
        state.out(self, vcpu, exit, &mut errands);
        drop(state);
        errands.wake.remove(vcpu);
        self.run(errands);
        loop {
            // ORDERING: Acquire → the Release in `Host::stand`; steal time and the like are seen.
            match post.stand.load(Acquire) {
                stand if stand == Stand::Running as u32 => return Next::Enter,
                stand if stand == Stand::Ended as u32 => return Next::Leave,
                _ => post.gate.pass(),
            }
        }
    }

    /// A guest's read of the ACPI PM timer.
    pub(crate) fn pm_timer(&self, vcpu: u32) -> u32 {
        self.posts[vcpu as usize].pm_reads.fetch_add(1, Relaxed);
        self.pm_timer.count()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic with the state locked is a bug of the host; the run is still torn down in order.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says where `vcpu` is; with the state locked.
    fn stand(&self, vcpu: u32, stand: Stand) {
        // ORDERING: Release → the Acquire in `Host::exit`.
        self.posts[vcpu as usize].stand.store(stand as u32, Release);
    }

    /// Wakes and signals; with the state unlocked (H3).
    fn run(&self, errands: Errands) {
        for at in errands.wake.iter() {
            self.posts[at].gate.open();
        }
        for at in errands.evict.iter() {
            let post = &self.posts[at];
            post.evict.store(true, Relaxed);
            let thread = post.thread.load(Relaxed);
            if thread != 0 {
                // SAFETY: sends a signal that every engine has installed a handler for. A thread that has
                // ended is not found, and one that took its number ignores it.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, self.signal) };
            }
        }
        if errands.alarm {
            self.supervisor.notify_one();
        }
    }
}

impl State {
    /// Deals with `vcpu` having left the guest.
    fn out(&mut self, host: &Host, vcpu: u32, exit: Exit, errands: &mut Errands) {
        let now = host.clock.now_ns();
        let at = vcpu as usize;
        self.guests[at].accounts.count(&exit);
        if self.forced && !matches!(exit, Exit::Ended(_)) {
            return self.end(host, now, vcpu, errands);
        }
        match exit {
            Exit::Ready => self.ready(host, now, vcpu, errands),
            Exit::Call(call, arguments) => self.call(host, now, vcpu, call, arguments, errands),
            Exit::Evicted(rip) => self.evicted(host, now, vcpu, rip, errands),
            Exit::Ended(result) => {
                if let Err(error) = result {
                    self.failure.get_or_insert(error);
                    self.force(host, now, errands);
                }
                self.end(host, now, vcpu, errands);
            }
        }
        // A preemption may have been asked for while the vCPU was out for another reason.
        if self.guests[at].preempt_asked && matches!(self.guests[at].doing, Doing::Running { .. }) {
            self.guests[at].accounts.preemptions += 1;
            self.give_up(host, now, vcpu, Event::Preempted(Vcpu(vcpu)), errands);
        }
    }

    /// `vcpu` has a thread. Once all have, all start.
    fn ready(&mut self, host: &Host, now: u64, vcpu: u32, errands: &mut Errands) {
        self.guests[vcpu as usize].doing = Doing::Halted { since: now, deadline: None };
        if self.guests.iter().any(|guest| guest.doing == Doing::NotReady) {
            return;
        }
        self.started = Some(now);
        errands.alarm = true;
        for vcpu in 0..self.guests.len() as u32 {
            self.guests[vcpu as usize].doing = Doing::Halted { since: now, deadline: None };
            self.wake(host, now, vcpu, None, errands);
        }
    }

    fn call(
        &mut self,
        host: &Host,
        now: u64,
        vcpu: u32,
        call: Call,
        [first, second]: [u64; 2],
        errands: &mut Errands,
    ) {
        let me = Vcpu(vcpu);
        let target = u32::try_from(first).ok().filter(|&t| (t as usize) < self.guests.len());
        match call {
            Call::Started | Call::Finished => {}
            Call::Halt => {
                let deadline = (first != 0).then_some(first);
                let due = deadline.is_some_and(|deadline| deadline <= now);
                if !due && !host.records[vcpu as usize].deliverable() {
                    self.halt(host, now, vcpu, deadline, errands);
                }
            }
            Call::Kick => {
                if let Some(target) = target {
                    self.wake(host, now, target, Some(me), errands);
                }
            }
            Call::LongSpin => self.long_spin(host, now, vcpu, SpinSource::Reported, errands),
            // A request and not a guess, so no policy is asked. The scheduler knows no directed yield
            // without one; whoever lags most gets the processor.
            Call::YieldTo => self.give_up(host, now, vcpu, Event::Yielded(me), errands),
            Call::Ipi => {
                if let Some(target) = target {
                    host.records[target as usize].pending.fetch_or(1 << (second & 31), Relaxed);
                    if target != vcpu
                        && matches!(self.guests[target as usize].doing, Doing::Running { .. })
                    {
                        errands.evict.insert(target);
                    }
                    self.ready_to_run(host, now, target);
                    self.tell(host, now, Event::Ipi { from: me, to: Vcpu(target) }, errands);
                }
            }
            Call::EndGrace => {
                // Whether its slice is over is the scheduler's to say, by a preemption.
                host.records[vcpu as usize].yield_wanted.store(false, Relaxed);
                let over = Event::CriticalSection { vcpu: me, inside: false };
                self.tell(host, now, over, errands);
            }
        }
    }

    /// A signal brought `vcpu` out: for its processor, for a sample, or for an interrupt.
    fn evicted(
        &mut self,
        host: &Host,
        now: u64,
        vcpu: u32,
        rip: Option<u64>,
        errands: &mut Errands,
    ) {
        let guest = &mut self.guests[vcpu as usize];
        let Some(rip) = rip else { return };
        host.posts[vcpu as usize].sample.store(false, Relaxed);
        let found = spin_loops::loop_at(host.code, rip);
        let spins = found.is_some() && found == guest.last_loop;
        guest.last_loop = found;
        if spins && !guest.preempt_asked {
            guest.accounts.sampled_spins += 1;
            self.long_spin(host, now, vcpu, SpinSource::Sampled, errands);
        }
    }

    /// `vcpu` spins; the policy says what becomes of its processor.
    fn long_spin(
        &mut self,
        host: &Host,
        now: u64,
        vcpu: u32,
        source: SpinSource,
        errands: &mut Errands,
    ) {
        let record = &host.records[vcpu as usize];
        let hint = (record.hint)(record);
        let known = |name: Option<u32>| name.filter(|&name| name != vcpu).map(Vcpu);
        let hint = SpinHint { holder: known(hint.holder), waiters: hint.waiters.map(known) };
        let truth = hint.holder.or_else(|| hint.waiters.into_iter().flatten().next());
        let spin = Spin { vcpu: Vcpu(vcpu), source, hint, truth };
        self.give_up(host, now, vcpu, Event::LongSpin(spin), errands);
    }

    /// The running `vcpu` halts.
    fn halt(
        &mut self,
        host: &Host,
        now: u64,
        vcpu: u32,
        deadline: Option<u64>,
        errands: &mut Errands,
    ) {
        self.stop_running(host, now, vcpu, Doing::Halted { since: now, deadline });
        if deadline.is_some_and(|deadline| deadline < self.alarm) {
            errands.alarm = true;
        }
        self.tell(host, now, Event::Halted(Vcpu(vcpu)), errands);
    }

    /// The running `vcpu` offers its processor with an event that is answered by a `Run` or an `Idle`.
    fn give_up(&mut self, host: &Host, now: u64, vcpu: u32, event: Event, errands: &mut Errands) {
        self.stop_running(host, now, vcpu, Doing::Queued { since: now });
        self.tell(host, now, event, errands);
    }

    fn stop_running(&mut self, host: &Host, now: u64, vcpu: u32, doing: Doing) {
        let guest = &mut self.guests[vcpu as usize];
        if let Doing::Running { since } = guest.doing {
            guest.accounts.ran_ns += now - since;
        }
        guest.preempt_asked = false;
        guest.doing = doing;
        host.records[vcpu as usize].yield_wanted.store(false, Relaxed);
        host.records[vcpu as usize].preempted.store(matches!(doing, Doing::Queued { .. }), Relaxed);
        host.stand(vcpu, Stand::Waiting);
    }

    /// Kicks `vcpu`, or wakes it because its time has come.
    fn wake(&mut self, host: &Host, now: u64, vcpu: u32, by: Option<Vcpu>, errands: &mut Errands) {
        self.ready_to_run(host, now, vcpu);
        self.tell(host, now, Event::Kicked { target: Vcpu(vcpu), by }, errands);
    }

    /// If `vcpu` is halted, it is no longer: the scheduler is about to be told.
    fn ready_to_run(&mut self, host: &Host, now: u64, vcpu: u32) {
        let record = &host.records[vcpu as usize];
        let guest = &mut self.guests[vcpu as usize];
        if let Doing::Halted { since, .. } = guest.doing {
            guest.accounts.halted_ns += now - since;
            record.halted_ns.store(guest.accounts.halted_ns, Relaxed);
            guest.doing = Doing::Queued { since: now };
            record.preempted.store(true, Relaxed);
        }
    }

    /// `vcpu` will never run again.
    fn end(&mut self, host: &Host, now: u64, vcpu: u32, errands: &mut Errands) {
        let guest = &mut self.guests[vcpu as usize];
        let ran = matches!(guest.doing, Doing::Running { .. });
        guest.last = match guest.doing {
            Doing::NotReady => "had not begun",
            Doing::Queued { .. } => "was waiting for a processor",
            Doing::Running { .. } => "was running",
            Doing::Halted { .. } => "was halted, and nobody kicked it",
            Doing::Ended => return,
        };
        self.stop_running(host, now, vcpu, Doing::Ended);
        host.stand(vcpu, Stand::Ended);
        self.alive -= 1;
        errands.alarm |= self.alive == 0;
        if ran {
            self.tell(host, now, Event::Stopped(Vcpu(vcpu)), errands);
        }
    }

    /// Ends every vCPU by force: those in the guest are evicted, all others end where they wait.
    fn force(&mut self, host: &Host, now: u64, errands: &mut Errands) {
        self.forced = true;
        for vcpu in 0..self.guests.len() as u32 {
            match self.guests[vcpu as usize].doing {
                Doing::Running { .. } => errands.evict.insert(vcpu),
                Doing::Queued { .. } | Doing::Halted { .. } => {
                    self.end(host, now, vcpu, errands);
                    errands.wake.insert(vcpu);
                }
                // One that is not ready yet ends when it is.
                Doing::NotReady | Doing::Ended => {}
            }
        }
    }

    /// Tells the scheduler, and does what it says.
    fn tell(&mut self, host: &Host, now: u64, event: Event, errands: &mut Errands) {
        if let Some(action) = self.scheduler.on(Nanos(now), event) {
            self.act(host, now, action, errands);
        }
    }

    fn act(&mut self, host: &Host, now: u64, action: Action, errands: &mut Errands) {
        match action {
            Action::Run { vcpu: Vcpu(vcpu), pcpu: Pcpu(pcpu), until: Nanos(until) } => {
                self.timers[pcpu as usize] = Some(until);
                self.owners[pcpu as usize] = Some(vcpu);
                errands.alarm |= until < self.alarm;
                self.start_running(host, now, vcpu, errands);
            }
            Action::Idle { pcpu: Pcpu(pcpu) } => {
                self.timers[pcpu as usize] = None;
                self.owners[pcpu as usize] = None;
            }
            Action::Preempt { vcpu: Vcpu(vcpu), .. } => {
                self.guests[vcpu as usize].preempt_asked = true;
                errands.evict.insert(vcpu);
            }
            Action::SetTimer { pcpu: Pcpu(pcpu), at: Nanos(at) } => {
                self.timers[pcpu as usize] = Some(at);
                errands.alarm |= at < self.alarm;
            }
        }
    }

    fn start_running(&mut self, host: &Host, now: u64, vcpu: u32, errands: &mut Errands) {
        let record = &host.records[vcpu as usize];
        let guest = &mut self.guests[vcpu as usize];
        match guest.doing {
            Doing::Queued { since } => {
                guest.accounts.steal_ns += now - since;
                record.steal_ns.store(guest.accounts.steal_ns, Relaxed);
            }
            // A kick came before the halt, and the scheduler sends it straight back.
            Doing::Halted { .. } | Doing::Running { .. } => {}
            Doing::NotReady | Doing::Ended => return,
        }
        guest.doing = Doing::Running { since: now };
        record.preempted.store(false, Relaxed);
        host.stand(vcpu, Stand::Running);
        errands.wake.insert(vcpu);
    }
}
