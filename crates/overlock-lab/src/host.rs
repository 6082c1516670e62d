// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host: what both engines share. It owns the scheduler and tells vCPU threads when to run.
//!
//! A vCPU is a thread of its own, which only enters the guest while its vCPU owns a processor.
//! Whatever brings it out ends in [`Host::exit`], which tells the scheduler, carries out what that
//! decides and sleeps until the vCPU owns a processor again. There is no thread that schedules:
//! whoever gives a processor up wakes the next owner itself. Slices end by a timer of the vCPU's
//! own thread; for all else that time brings about there is the thread that started the run
//! ([`supervise`](Host::supervise)).
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
//! - H2: `evict` is set before the signal is sent, and cleared by the vCPU's own thread when it is
//!   out of the guest, before it asks for its standing. So an eviction that comes too late to bring
//!   the thread out is seen before it goes in again.
//! - H3: no thread sleeps or makes a slow system call with the state locked; wakes and signals are
//!   collected and sent afterwards.
//! - H4: `exit` does not allocate: the threads engine calls it from a signal handler.

mod accounts;
mod pm_timer;
mod supervise;
mod turn;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use overlock_host::sched::Scheduler;
use overlock_host::sched::yield_to::{self, Policy, Tally};

pub use self::accounts::Accounts;
pub use self::pm_timer::PmTimerRule;
use self::pm_timer::Timer;
use self::turn::Turn;
use crate::clock::Clock;
use crate::engine::Config;
use crate::error::{Error, Stuck};
use crate::gate::Gate;
use crate::guest::abi::{Call, MAX_VCPUS, VcpuRecord};
use crate::maps::Code;
use crate::slice_timer::SliceTimer;

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
#[repr(align(128))]
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
    /// Ends its slices; made by its thread.
    timer: OnceLock<SliceTimer>,
    /// When its slice ends if others wait for the processor, else 0; written with the state locked.
    slice_end: AtomicU64,
    /// What the timer was last set to.
    timer_set: AtomicU64,
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
    /// What had been counted when it was set: what comes after is not part of the run.
    books_at_stop: Option<(Vec<Accounts>, Tally)>,
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
        (0..).step_by(64).zip(self.0).flat_map(|(first, mut bits)| {
            std::iter::from_fn(move || {
                let next = (bits != 0).then(|| first + bits.trailing_zeros() as usize);
                bits &= bits.wrapping_sub(1);
                next
            })
        })
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
    /// A host for the vCPUs of `records`, whose threads come out of the guest when they get
    /// `signal`.
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
            timer: OnceLock::new(),
            slice_end: AtomicU64::new(0),
            timer_set: AtomicU64::new(0),
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
                books_at_stop: None,
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

    /// Called by a vCPU's own thread whenever it is out of the guest; returns when it may go in
    /// again.
    pub(crate) fn exit(&self, vcpu: u32, exit: Exit) -> Next {
        let post = &self.posts[vcpu as usize];
        if matches!(exit, Exit::Ready) {
            // SAFETY: takes no arguments and cannot fail.
            post.thread.store(unsafe { libc::gettid() }, Relaxed);
            // Without one the supervisor ends its slices, a little late.
            if let Ok(timer) = SliceTimer::for_this_thread(self.signal) {
                post.timer.get_or_init(|| timer);
            }
        }
        post.evict.store(false, Relaxed);
        let mut errands = self.turn(|turn| turn.out(vcpu, exit));
        // This thread is out of the guest already, and about to see for itself.
        errands.wake.remove(vcpu);
        errands.evict.remove(vcpu);
        self.run(errands);
        loop {
            // ORDERING: Acquire → the Release in `Host::stand`; steal time and the like are seen.
            match post.stand.load(Acquire) {
                stand if stand == Stand::Running as u32 => {
                    self.set_timer(post);
                    return Next::Enter;
                }
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

    /// Sets the timer of a thread that is about to enter the guest to the end of its slice.
    fn set_timer(&self, post: &Post) {
        let end = post.slice_end.load(Relaxed);
        if end != 0
            && end != post.timer_set.swap(end, Relaxed)
            && let Some(timer) = post.timer.get()
        {
            timer.set(end.saturating_sub(self.clock.now_ns()));
        }
    }

    /// Does something to the state, and says what is left to do now that it is unlocked.
    fn turn(&self, act: impl FnOnce(&mut Turn)) -> Errands {
        let mut state = self.lock();
        let now = self.clock.now_ns();
        let mut turn = Turn { host: self, state: &mut state, now, errands: Errands::default() };
        act(&mut turn);
        turn.errands
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
                // SAFETY: sends a signal that every engine has installed a handler for. A thread
                // that has ended is not found, and one that took its number ignores it.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, self.signal) };
            }
        }
        if errands.alarm {
            self.supervisor.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_yields_what_was_put_in_and_not_taken_out() {
        let mut set = CpuSet::default();
        for vcpu in [0, 1, 63, 64, 200, 255] {
            set.insert(vcpu);
        }
        set.remove(64);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 63, 200, 255]);
        assert_eq!(CpuSet::default().iter().count(), 0);
    }
}
