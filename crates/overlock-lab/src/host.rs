// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host that both engines share. It owns the scheduler and tells vCPU threads when to run.
//!
//! Each vCPU has its own thread, which enters the guest only while the vCPU owns a processor. Every
//! way out of the guest ends in [`Host::exit`], which tells the scheduler, carries out its decision
//! and sleeps until the vCPU owns a processor again. No thread does the scheduling: the thread that
//! gives a processor up wakes the next owner itself, a timer of the vCPU's own thread ends a slice,
//! and a halt times out at the gate at which its thread sleeps. The thread that started the run
//! ([`supervise`](Host::supervise)) sleeps until the end of it, or the next sample.
//!
//! ```text
//!  vCPU thread      guest ──exit──► Host::exit ──► scheduler ──► Run me: back into the guest
//!                     ▲                  │              └──────► Run another: open its gate,
//!  slice timer ───────┴──── signal       │                        wait at mine
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
//! - H4: `exit` does not allocate: the threads engine calls it from a signal handler.
//! - H5: while a vCPU is queued, every owner's timer is set to the end of its slice.

mod accounts;
mod delay;
mod pm_timer;
mod supervise;
mod turn;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use overlock_host::sched::Scheduler;
use overlock_host::sched::yield_to::{self, Policy, Tally};
use overlock_world::clock::Clock;
use overlock_world::timeline::{Notes, Window};
use overlock_world::{Accounts, Config};

use self::delay::Delay;
use self::pm_timer::Timer;
use self::turn::Turn;
use crate::engine;
use crate::error::{Error, Stuck};
use crate::gate::Gate;
use crate::guest::abi::{Call, MAX_VCPUS, VcpuRecord};
use crate::maps::Code;
use crate::slice_timer::SliceTimer;

/// The reason why a vCPU is out of the guest.
#[derive(Debug)]
pub(crate) enum Exit {
    /// Its thread is ready and has never been in the guest.
    Ready,
    /// It made a hypercall.
    Call(Call, [u64; 2]),
    /// A signal brought it out; with the instruction's address if that was requested.
    Evicted(Option<u64>),
    /// Its program has returned, or has ended with an error.
    Ended(Result<(), Error>),
}

/// The next step of a vCPU's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    /// Enter the guest.
    Enter,
    /// Never enter the guest again: the vCPU has ended, or is ended by force.
    Leave,
}

/// One vCPU, as other threads see it.
#[derive(Debug)]
#[repr(align(128))]
struct Post {
    gate: Gate,
    /// The vCPU has to leave the guest.
    evict: AtomicBool,
    /// Its instruction pointer is wanted.
    sample: AtomicBool,
    /// The system's number of its thread; 0 until it is ready.
    thread: AtomicI32,
    /// The processor that it has to run on, and the one whose CPU its thread is bound to, plus one.
    pcpu: AtomicU32,
    bound: AtomicU32,
    /// The timer that ends its slices; its thread makes it.
    timer: OnceLock<SliceTimer>,
    /// When its slice ends if others wait for a processor, else 0; written with the state locked.
    slice_end: AtomicU64,
    /// The time to which the timer was last set.
    timer_set: AtomicU64,
    /// How often it read the PM timer, for which no scheduler is needed.
    pm_reads: AtomicU64,
    /// The time since which it owns a processor, if it does.
    granted: AtomicU64,
    delay: Delay,
}

/// The host's record of a vCPU, beyond what its scheduler knows.
#[derive(Debug, Default)]
struct Guest {
    /// Its thread has started.
    ready: bool,
    /// When it wants to wake up, if it is halted.
    deadline: Option<u64>,
    /// The spin loop in which the last sample found it, and the progress of its program.
    last_loop: Option<(u64, u64)>,
    /// It has been interrupted since it last had nothing to answer.
    owes: bool,
    /// The beginning and the end of the slice because of whose end it has to leave the guest.
    slice_over: Option<(u64, u64)>,
    /// What it was doing when it ended.
    last: &'static str,
    accounts: Accounts,
}

#[derive(Debug)]
struct State {
    scheduler: Scheduler<Box<dyn Policy + Send>>,
    guests: Vec<Guest>,
    /// vCPUs whose threads have not started yet.
    missing: u32,
    failure: Option<Error>,
    /// When the first vCPU entered the guest.
    started: Option<u64>,
    /// When the stop flag was set, and when it has to be.
    stopped: Option<u64>,
    end_at: Option<u64>,
    /// The counts at that moment: what comes after is not part of the run.
    books_at_stop: Option<(Vec<Accounts>, Tally)>,
    next_sample: Option<u64>,
    /// The notes for a timeline, if one is recorded.
    notes: Option<Notes>,
    /// vCPUs that were ended by force, and where.
    stuck: Vec<Stuck>,
    /// vCPUs that have not ended.
    alive: u32,
    /// All are being ended by force.
    forced: bool,
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
        (0..).step_by(64).zip(self.0).flat_map(|(first, mut bits)| {
            std::iter::from_fn(move || {
                let next = (bits != 0).then(|| first + bits.trailing_zeros() as usize);
                bits &= bits.wrapping_sub(1);
                next
            })
        })
    }
}

/// The work that is left once the state is unlocked.
#[derive(Clone, Copy, Debug, Default)]
struct Errands {
    wake: CpuSet,
    evict: CpuSet,
    /// vCPUs whose timers have to be set to the ends of their slices.
    arm: CpuSet,
    /// The supervisor has to check the state.
    alarm: bool,
}

/// The next step of a vCPU's thread after a turn.
#[derive(Clone, Copy, Debug)]
enum Step {
    Go(Next),
    /// Wait at the gate, until this time at the latest.
    Wait(Option<u64>),
}

/// The host of one run.
#[derive(Debug)]
pub(crate) struct Host<'run> {
    pub(crate) records: &'run [VcpuRecord],
    pub(crate) code: &'run Code,
    pub(crate) clock: Clock,
    signal: i32,
    /// The system's CPU for each processor; empty if there are too few.
    cpus: Vec<usize>,
    pm_timer: Timer,
    posts: Vec<Post>,
    state: Mutex<State>,
    supervisor: Condvar,
}

impl<'run> Host<'run> {
    /// Makes a host for the vCPUs of `records`, whose threads leave the guest when they get
    /// `signal`.
    pub(crate) fn new(
        config: &Config,
        records: &'run [VcpuRecord],
        code: &'run Code,
        signal: i32,
    ) -> Result<Self, Error> {
        let policy = yield_to::by_name(config.policy, config.vcpus).ok_or_else(|| {
            let (policy, known) = (config.policy, yield_to::NAMES.join(", "));
            Error::Config(format!("no yield policy is called {policy}; choose from {known}"))
        })?;
        let scheduler = Scheduler::new(engine::scheduler(config), policy)
            .map_err(|error| Error::Config(error.to_string()))?;
        let post = || Post {
            gate: Gate::default(),
            evict: AtomicBool::new(false),
            sample: AtomicBool::new(false),
            thread: AtomicI32::new(0),
            pcpu: AtomicU32::new(0),
            bound: AtomicU32::new(0),
            timer: OnceLock::new(),
            slice_end: AtomicU64::new(0),
            timer_set: AtomicU64::new(0),
            pm_reads: AtomicU64::new(0),
            granted: AtomicU64::new(0),
            delay: Delay::default(),
        };
        Ok(Self {
            records,
            code,
            clock: records[0].shared().clock,
            signal,
            cpus: cpus(config.pcpus as usize),
            pm_timer: Timer::new(config.pm_timer, records[0].shared().clock),
            posts: records.iter().map(|_| post()).collect(),
            state: Mutex::new(State {
                scheduler,
                guests: records.iter().map(|_| Guest::default()).collect(),
                missing: config.vcpus,
                failure: None,
                started: None,
                stopped: None,
                end_at: None,
                books_at_stop: None,
                next_sample: None,
                notes: Window::of(config).map(|window| Notes::new(window, config.vcpus)),
                stuck: Vec::new(),
                alive: config.vcpus,
                forced: false,
            }),
            supervisor: Condvar::new(),
        })
    }

    /// Returns whether vCPU `vcpu` must call [`exit`](Self::exit) before it enters the guest.
    pub(crate) fn evicted(&self, vcpu: u32) -> bool {
        let post = &self.posts[vcpu as usize];
        let end = post.slice_end.load(Relaxed);
        post.evict.load(Relaxed) || (end != 0 && end <= self.clock.now_ns())
    }

    /// Returns whether the next eviction should report where the vCPU was.
    pub(crate) fn wants_sample(&self, vcpu: u32) -> bool {
        self.posts[vcpu as usize].sample.load(Relaxed)
    }

    /// Handles an exit. A vCPU's own thread calls this whenever it is out of the guest; it returns
    /// when the vCPU may enter again.
    pub(crate) fn exit(&self, vcpu: u32, mut exit: Exit) -> Next {
        let post = &self.posts[vcpu as usize];
        if matches!(exit, Exit::Ready)
            && let Err(error) = self.begin(post)
        {
            exit = Exit::Ended(Err(error));
        }
        post.evict.store(false, Relaxed);
        let mut step = self.turn_of(vcpu, |turn| turn.out(vcpu, exit), || post.delay.out());
        let waits = matches!(step, Step::Wait(_));
        loop {
            match step {
                Step::Go(next) => {
                    if waits {
                        let granted = post.granted.load(Relaxed);
                        post.delay.back(self.clock.now_ns().saturating_sub(granted));
                    }
                    self.set_timer(post);
                    return next;
                }
                Step::Wait(deadline) => {
                    let now = self.clock.now_ns();
                    post.gate.pass(deadline.map(|deadline| deadline.saturating_sub(now)));
                }
            }
            step = self.turn_of(vcpu, |turn| turn.look_at_deadline(vcpu), || ());
        }
    }

    /// Makes the calling thread that of a vCPU.
    fn begin(&self, post: &Post) -> Result<(), Error> {
        // SAFETY: takes no arguments and cannot fail.
        let thread = unsafe { libc::gettid() };
        post.thread.store(thread, Relaxed);
        post.delay.begin(thread);
        let timer = SliceTimer::for_this_thread(self.signal)?;
        post.timer.get_or_init(|| timer);
        Ok(())
    }

    /// Records that the calling thread, which is that of `vcpu`, is about to end.
    pub(crate) fn finish(&self, vcpu: u32) {
        self.posts[vcpu as usize].delay.finish();
    }

    /// A guest's read of the ACPI PM timer.
    pub(crate) fn pm_timer(&self, vcpu: u32) -> u32 {
        self.posts[vcpu as usize].pm_reads.fetch_add(1, Relaxed);
        self.pm_timer.count()
    }

    /// Sets the timer of a vCPU to the end of its slice.
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
        if thread == 0 || post.bound.swap(pcpu + 1, Relaxed) == pcpu + 1 {
            return;
        }
        // SAFETY: all-zero is the empty set, and `cpu` is one that the system has listed. If the
        // thread has ended, the call does nothing.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }

    /// Does something to the state, and returns the work that is left now that it is unlocked.
    fn turn<T>(&self, act: impl FnOnce(&mut Turn) -> T) -> (T, Errands) {
        let mut state = self.lock();
        let now = self.clock.now_ns();
        let mut turn = Turn { host: self, state: &mut state, now, errands: Errands::default() };
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
            self.bind(&self.posts[at]);
            self.posts[at].gate.open();
        }
        for at in errands.evict.iter() {
            let post = &self.posts[at];
            post.evict.store(true, Relaxed);
            let thread = post.thread.load(Relaxed);
            if thread != 0 {
                // SAFETY: sends a signal for which every engine has installed a handler. A thread
                // that has ended is not found, and a thread that took its number ignores the
                // signal.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, self.signal) };
            }
        }
        for at in errands.arm.iter() {
            self.set_timer(&self.posts[at]);
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
    // SAFETY: all-zero is the empty set, which the call fills.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    };
    // SAFETY: below the size of a set.
    let allowed = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &set) };
    let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize).filter(allowed).take(pcpus).collect();
    if cpus.len() == pcpus { cpus } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_yields_what_was_put_in_and_not_taken_out() {
        let mut set = CpuSet::default();
        for vcpu in [0, 1, 63, 64, 200, 1023] {
            set.insert(vcpu);
        }
        set.remove(64);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 63, 200, 1023]);
        assert_eq!(CpuSet::default().iter().count(), 0);
    }
}
