//! The host. It owns the scheduler and tells vCPU threads when to run.
//!
//! Each vCPU has its own thread, which enters the guest only while the vCPU owns a processor. Every
//! way out of the guest ends in [`Host::exit`], which tells the scheduler, carries out its decision
//! and sleeps until the vCPU owns a processor again. No thread does the scheduling: the thread that
//! gives a processor up wakes the next owner itself, a timer of the vCPU's own thread ends a slice,
//! and a halt times out where its thread is parked. The thread that started the run
//! ([`supervise`](Host::supervise)) sleeps until the end of it, or the next sample.
//!
//! ```text
//!  vCPU thread      guest ──exit──► Host::exit ──► scheduler ──► Run me: back into the guest
//!                     ▲                  │              └──────► Run another: unpark its thread,
//!  slice timer ───────┴──── signal       │                        park mine
//!                                        └──► Preempt another ──► signal ─► its thread exits
//! ```
//!
//! Only the scheduler knows which vCPUs run or wait and since when; nothing here remembers it.
//!
//! # Invariants
//! - H1: a vCPU is in the guest only while the scheduler has it running.
//! - H2: `evict` is set before the signal is sent, and the vCPU's own thread clears it when it is
//!   out of the guest, before it asks for its standing. So the thread sees an eviction that comes
//!   too late to bring it out before it enters again; the same holds for the end of its slice,
//!   whose signal comes after that end and can come too late as well.
//! - H3: no thread sleeps or makes a slow system call with the state locked; wakes and signals are
//!   collected and sent afterwards.
//! - H4: while a vCPU is queued, every owner's timer is set to the end of its slice, or a later one
//!   by H5.
//! - H5: a vCPU that is brought out of the guest loses its processor only if it has run there since
//!   it got it. So every turn makes some progress, however slow the way into the guest is.

mod accounts;
mod delay;
mod pm_timer;
pub(crate) mod state;
mod supervise;
mod turn;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::host::sched::Scheduler;
use crate::host::sched::yield_to;
use overlock_bench::RunConfig;
use overlock_bench::clock::Clock;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};

use self::state::{Errands, Exit, Next, Post, State, Step, Vcpus};
use self::turn::Turn;
use crate::lab::error::Error;
use crate::lab::guest::abi::{Call, VcpuRecord};
use crate::lab::maps::Code;
use crate::lab::signal;
use crate::lab::slice_timer::SliceTimer;

pub(crate) struct Host<'run> {
    pub(crate) vcpus: Vcpus<'run>,
    pub(crate) clock: Clock,
    /// The shortest way into the guest and out again, by a call, in nanoseconds.
    pub(crate) shortest_visit_ns: AtomicU64,
    /// The system's CPU for each processor; empty if there are too few.
    cpus: Vec<usize>,
    /// How long a halt lasts at least after the vCPU has got a processor: for slow wake-ups.
    slow_wake_ns: u64,
    pm_timer: Box<dyn Fn() -> u32 + Send + Sync>,
    state: Mutex<State>,
    supervisor: Condvar,
}

impl<'run> Host<'run> {
    /// Makes a host for the vCPUs of `records`.
    pub(crate) fn new(
        config: &RunConfig,
        records: &'run [VcpuRecord],
        code: &'run Code,
    ) -> Result<Self, Error> {
        let policy = yield_to::by_name(config.policy, config.vcpus).ok_or_else(|| {
            let (policy, known) = (config.policy, yield_to::NAMES.join(", "));
            Error::Config(format!("no yield policy is called {policy}; choose from {known}"))
        })?;
        let scheduler = Scheduler::new(crate::lab::config::scheduler(config), policy)
            .map_err(|error| Error::Config(error.to_string()))?;
        Ok(Self {
            vcpus: Vcpus::new(records, code),
            clock: records[0].shared().clock,
            shortest_visit_ns: AtomicU64::new(u64::MAX),
            cpus: cpus(config.pcpus as usize),
            slow_wake_ns: config.slow_wake.as_nanos() as u64,
            pm_timer: pm_timer::reader(config.pm_timer, records[0].shared().clock),
            state: Mutex::new(State::new(config, scheduler)),
            supervisor: Condvar::new(),
        })
    }

    /// Returns whether vCPU `vcpu` must call [`exit`](Self::exit) before it enters the guest.
    pub(crate) fn evicted(&self, vcpu: u32) -> bool {
        let post = &self.vcpus.posts[vcpu as usize];
        let end = post.slice_end.load(Relaxed);
        post.evict.load(Relaxed) || (end != 0 && end <= self.clock.now_ns())
    }

    /// Since when vCPU `vcpu` owns a processor: different in each turn.
    pub(crate) fn granted(&self, vcpu: u32) -> u64 {
        self.vcpus.posts[vcpu as usize].granted.load(Relaxed)
    }

    /// How long a visit to the guest takes in which a vCPU certainly runs, once one has run: four
    /// times the shortest.
    pub(crate) fn long_visit_ns(&self) -> u64 {
        self.shortest_visit_ns.load(Relaxed).saturating_mul(4)
    }

    /// Returns whether the next eviction should report where the vCPU was.
    pub(crate) fn wants_sample(&self, vcpu: u32) -> bool {
        self.vcpus.posts[vcpu as usize].sample.load(Relaxed)
    }

    /// Handles an exit. A vCPU's own thread calls this whenever it is out of the guest; it returns
    /// when the vCPU may enter again.
    pub(crate) fn exit(&self, vcpu: u32, mut exit: Exit) -> Next {
        let post = &self.vcpus.posts[vcpu as usize];
        if matches!(exit, Exit::Ready)
            && let Err(error) = self.begin(post)
        {
            exit = Exit::Ended(Err(error));
        }
        post.evict.store(false, Relaxed);
        let halts = matches!(exit, Exit::Call(Call::Halt, _));
        let mut step = self.turn_of(vcpu, |turn| turn.out(vcpu, exit), || post.delay.out());
        let waits = matches!(step, Step::Wait(_));
        loop {
            match step {
                Step::Go(next) => {
                    if waits {
                        let granted = post.granted.load(Relaxed);
                        post.delay.back(self.clock.now_ns().saturating_sub(granted));
                        let until = granted.saturating_add(self.slow_wake_ns);
                        while halts && self.clock.now_ns() < until {
                            std::hint::spin_loop();
                        }
                    }
                    self.set_timer(post);
                    return next;
                }
                Step::Wait(deadline) => {
                    let now = self.clock.now_ns();
                    // Either can end for no reason: the next turn says whether the wait is over.
                    match deadline.map(|deadline| deadline.saturating_sub(now)) {
                        Some(ns) => thread::park_timeout(Duration::from_nanos(ns)),
                        None => thread::park(),
                    }
                }
            }
            step = self.turn_of(vcpu, |turn| turn.look_at_deadline(vcpu), || ());
        }
    }

    /// Makes the calling thread that of a vCPU.
    fn begin(&self, post: &Post) -> Result<(), Error> {
        // Before the first turn: whoever misses this has changed the state before that turn, which
        // sees the change.
        post.handle.get_or_init(thread::current);
        let thread = gettid().as_raw_pid();
        post.thread.store(thread, Relaxed);
        post.delay.begin(thread);
        let timer = SliceTimer::for_this_thread()?;
        post.timer.get_or_init(|| timer);
        Ok(())
    }

    /// Records that the calling thread, which is that of `vcpu`, is about to end.
    pub(crate) fn finish(&self, vcpu: u32) {
        self.vcpus.posts[vcpu as usize].delay.finish();
    }

    /// A guest's read of the ACPI PM timer.
    pub(crate) fn pm_timer(&self, vcpu: u32) -> u32 {
        self.vcpus.posts[vcpu as usize].pm_reads.fetch_add(1, Relaxed);
        (self.pm_timer)()
    }

    fn set_timer(&self, post: &Post) {
        let end = post.slice_end.load(Relaxed);
        if end != 0
            && end != post.timer_set.swap(end, Relaxed)
            && let Some(timer) = post.timer.get()
        {
            let ns = end.saturating_sub(self.clock.now_ns());
            // A little late, so that it does not come before the end by our clock, whose rate is
            // measured.
            timer.set(ns.saturating_add(1_000 + ns / 1_000));
        }
    }

    /// Makes a thread that is about to wake up run on the CPU of its processor. Without this, the
    /// system often queues it behind the thread that wakes it, and leaves another CPU idle.
    fn bind(&self, post: &Post) {
        let (pcpu, thread) = (post.pcpu.load(Relaxed), post.thread.load(Relaxed));
        let Some(&cpu) = self.cpus.get(pcpu as usize) else { return };
        let Some(thread) = Pid::from_raw(thread) else { return };
        if post.bound.swap(pcpu + 1, Relaxed) == pcpu + 1 {
            return;
        }
        let mut set = CpuSet::new();
        set.set(cpu);
        // Fails if the thread has ended, or has lost the CPU: then the system places it.
        let _ = sched_setaffinity(Some(thread), &set);
    }

    /// Does something to the state, and returns the work that is left now that it is unlocked.
    fn turn<T>(&self, act: impl FnOnce(&mut Turn) -> T) -> (T, Errands) {
        let mut state = self.lock();
        let now = self.clock.now_ns();
        let (vcpus, long_visit_ns) = (&self.vcpus, self.long_visit_ns());
        let errands = Errands::default();
        let mut turn = Turn { vcpus, state: &mut state, now, long_visit_ns, errands };
        let result = act(&mut turn);
        (result, turn.errands)
    }

    /// Takes a turn for the thread of `vcpu`, and returns its next step.
    fn turn_of(&self, vcpu: u32, act: impl FnOnce(&mut Turn), waits: impl FnOnce()) -> Step {
        let (step, mut errands) = self.turn(|turn| {
            act(turn);
            turn.step(vcpu)
        });
        // Before the errands: a thread that they wake can preempt this one at once.
        if matches!(step, Step::Wait(_)) {
            waits();
        }
        // This thread is out of the guest already, and needs no signal to itself.
        for own in [&mut errands.wake, &mut errands.evict, &mut errands.arm] {
            own.remove(vcpu);
        }
        self.run(errands);
        step
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic with the state locked is a bug of the host; the run is still torn down in order.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends wakes and signals; with the state unlocked (H3).
    fn run(&self, errands: Errands) {
        for at in errands.wake.iter() {
            self.bind(&self.vcpus.posts[at]);
            if let Some(thread) = self.vcpus.posts[at].handle.get() {
                thread.unpark();
            }
        }
        for at in errands.evict.iter() {
            let post = &self.vcpus.posts[at];
            post.evict.store(true, Relaxed);
            let thread = post.thread.load(Relaxed);
            if thread != 0 {
                let number = signal::number();
                // SAFETY: sends a signal for which the engine has installed a handler. A thread
                // that has ended is not found, and one that took its number ignores the signal.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, number) };
            }
        }
        for at in errands.arm.iter() {
            self.set_timer(&self.vcpus.posts[at]);
        }
        if errands.alarm {
            self.supervisor.notify_one();
        }
    }
}

/// How many of the system's CPUs this process may use.
pub(crate) fn allowed_cpus() -> u32 {
    (1..).take_while(|&count| !cpus(count).is_empty()).count() as u32
}

/// Returns one of the system's CPUs for each processor; none if this process may not use as many.
fn cpus(pcpus: usize) -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).take(pcpus).collect();
    if cpus.len() == pcpus { cpus } else { Vec::new() }
}
