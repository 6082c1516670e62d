// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the two engines have in common: the configuration of a run, and how it is conducted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{ptr, thread};

use overlock_host::sched::yield_to::Tally;
use overlock_host::{Nanos, sched};

use crate::Error;
use crate::clock::Clock;
use crate::guest::abi::{MAX_VCPUS, Shared, VcpuRecord};
use crate::guest::platform::Tables;
use crate::guest::world::{Program, World, deliver, hint, progress, truth, was_away};
use crate::host::{Accounts, Exit, Host, PmTimerRule};
use crate::maps::{Code, Region, process_regions};
use crate::place::Place;

/// A way to run programs on vCPUs that can be taken away.
pub trait Engine {
    /// The world its programs live in.
    type World: World;

    /// The name of the engine: `kvm` or `threads`.
    const NAME: &'static str;

    /// Whether the engine exists on this machine.
    ///
    /// # Errors
    /// [`Error::Unavailable`] says why not, and what would help.
    fn availability() -> Result<(), Error>;

    /// Runs `program` on every vCPU for the time that `config` says.
    ///
    /// One run at a time, on either engine: another in this process waits for it.
    ///
    /// # Errors
    /// When the engine is unavailable, the configuration makes no sense, or the run ended with a
    /// fault, a panic, or vCPUs that did not stop. No thread of the run is left in any case.
    fn run<P: Program<Self::World>>(config: &Config, program: &P) -> Result<Outcome, Error>;
}

/// The shortest slice, and the shortest time between two samples: about three times what it takes
/// to get a vCPU out of the guest and back (16 to 18 µs where KVM itself is nested).
const SHORTEST: Duration = Duration::from_micros(50);

/// A halt, a kick and a wake-up where nobody has measured them, in nanoseconds.
const WAKE_NS: u64 = 20_000;

/// How a run is to be. A span of [`Duration::MAX`] is for ever.
#[derive(Clone, Copy, Debug)]
pub struct Config<'run> {
    /// Virtual CPUs, 1 to 1,024; an engine, or the system, may have room for fewer.
    pub vcpus: u32,
    /// How many of them may run at a time.
    pub pcpus: u32,
    /// When the stop flag is set, counted from the moment all vCPUs are ready.
    pub duration: Duration,
    /// How long after that vCPUs may take to return before they are ended by force.
    pub grace: Duration,
    /// How long a vCPU keeps its processor while others wait.
    pub slice: Duration,
    /// How much longer it may, once a slice, if it says that it is in a critical section; zero is
    /// never.
    pub critical: Duration,
    /// What becomes of the processor of a vCPU that spins: one of [`POLICIES`](crate::POLICIES).
    pub policy: &'run str,
    /// Whether locks that can wait do, or only ever spin: "compiled in but off".
    pub paravirtual: bool,
    /// How long a vCPU may spin in one loop of pauses until it tells the host; zero is never.
    ///
    /// This is pause-loop exiting without the hardware, for all locks of `overlock`, those included
    /// that know nothing of being virtual. It costs a look at the time stamp counter for each
    /// pause.
    pub pause_window: Duration,
    /// How the vCPUs share the PM timer.
    pub pm_timer: PmTimerRule,
    /// How often all running vCPUs are stopped to see whether they spin; `None` is never.
    pub sample_every: Option<Duration>,
    /// About how long a halt, a kick and a wake-up take, in nanoseconds: what locks take their
    /// budgets from. [`workload::run`](crate::workload::run) measures it where it is `None`; a bare
    /// [`Engine::run`] then takes 20 µs.
    pub wake_ns: Option<u64>,
    /// Ends the run early when it becomes true.
    pub cancel: Option<&'run AtomicBool>,
}

impl Config<'_> {
    /// A run of one second with slices of one millisecond.
    #[must_use]
    pub fn new(vcpus: u32, pcpus: u32) -> Self {
        Self {
            vcpus,
            pcpus,
            duration: Duration::from_secs(1),
            grace: Duration::from_secs(10),
            slice: Duration::from_millis(1),
            critical: Duration::ZERO,
            policy: "none",
            paravirtual: true,
            pause_window: Duration::ZERO,
            pm_timer: PmTimerRule::LockFree,
            sample_every: None,
            wake_ns: None,
            cancel: None,
        }
    }

    /// The same for the scheduler.
    pub(crate) fn scheduler(&self) -> sched::Config {
        sched::Config {
            slice: nanos(self.slice),
            grace: nanos(self.critical),
            ..sched::Config::new(self.vcpus, self.pcpus)
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.vcpus == 0 || self.vcpus as usize > MAX_VCPUS {
            let vcpus = self.vcpus;
            return Err(Error::Config(format!("{vcpus} vCPUs asked for; choose 1 to {MAX_VCPUS}")));
        }
        if self.pcpus == 0 {
            return Err(Error::Config("no vCPU can run on 0 pCPUs; choose at least 1".into()));
        }
        if self.slice < SHORTEST {
            let slice = self.slice;
            return Err(Error::Config(format!("a slice of {slice:?} is shorter than its switch")));
        }
        if let Some(every) = self.sample_every.filter(|&every| every < SHORTEST) {
            return Err(Error::Config(format!("samples every {every:?} leave no time to run")));
        }
        Ok(())
    }
}

/// The span as the host counts, or as long as it can: so `Duration::MAX` is for ever.
pub(crate) fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// Waits until no other run of this process goes on, and keeps others from beginning until dropped:
/// a guest on KVM has all that is mapped when it begins, which must not be unmapped under it; and
/// all runs want the same CPUs.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    // A run that panicked has left nothing behind.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the host saw of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the start of the vCPUs to the setting of the stop flag.
    pub ran: Duration,
    /// When the stop flag was set, on the clock that vCPUs read.
    pub ended_ns: u64,
    /// The life of each vCPU.
    pub vcpus: Vec<Accounts>,
    /// What the yield policy did, and why.
    pub yields: Tally,
}

/// A vCPU that is ready to be moved to its thread, and what that thread does.
pub(crate) trait Runner: Send {
    /// Runs vCPU `number` until the host says [`Next::Leave`](crate::host::Next::Leave).
    fn run(self, host: &Host, number: u32);
}

/// Conducts a run: makes the shared records, has `make` make the vCPUs, starts and supervises them.
///
/// `make` gets the records and everything the process has mapped. The caller has checked `config`,
/// and is [`alone`].
pub(crate) fn conduct<W: World, P: Program<W>, R: Runner>(
    config: &Config,
    program: &P,
    signal: i32,
    make: impl FnOnce(&[VcpuRecord], &[Region]) -> Result<Vec<R>, Error>,
) -> Result<Outcome, Error> {
    let tables = Tables::<W>::new(config.vcpus);
    let clock = Clock::start();
    let shared = Shared {
        stop: AtomicBool::new(false),
        clock,
        vcpus: config.vcpus,
        waits: config.paravirtual,
        pause_window_ticks: clock.ticks_in(config.pause_window),
        wake_ns: config.wake_ns.unwrap_or(WAKE_NS),
        tables: ptr::from_ref(&tables).cast(),
    };
    let records = records::<W, P>(&shared, program);
    let regions = process_regions()?;
    let code = Code::of(&regions);
    let runners = make(&records, &regions)?;
    let host = Host::new(config, &records, &code, signal)?;
    thread::scope(|scope| {
        let host = &host;
        let mut threads = Vec::new();
        for (number, runner) in (0..).zip(runners) {
            let thread = thread::Builder::new().name(format!("vcpu{number}"));
            let started = thread.spawn_scoped(scope, move || drive(host, number, runner));
            match started {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    let (by, attempt) = ("the system", "start its thread");
                    let error = Error::Refused { vcpu: number, by, attempt, source };
                    let _ = host.exit(number, Exit::Ended(Err(error)));
                }
            }
        }
        host.supervise(config);
        for thread in threads {
            // The end of the scope waits for the closures only, not for the threads to be gone.
            // None of them panics: `drive` sees to that.
            let _ = thread.join();
        }
    });
    let report = host.report(config.grace);
    match report.failure {
        Some(error) => Err(error),
        None => Ok(Outcome {
            ran: Duration::from_nanos(report.ran_ns),
            ended_ns: report.stopped_ns,
            vcpus: report.accounts,
            yields: report.yields,
        }),
    }
}

/// The body of a vCPU's thread. Whatever happens, the host learns that the vCPU has ended.
fn drive<R: Runner>(host: &Host, number: u32, runner: R) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| runner.run(host, number))) {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        let place = Place::unknown();
        let error = Error::Panicked { vcpu: number, message, place };
        let _ = host.exit(number, Exit::Ended(Err(error)));
    }
    host.finish(number);
}

/// A record for every vCPU, each knowing all others.
fn records<W: World, P: Program<W>>(shared: &Shared, program: &P) -> Vec<VcpuRecord> {
    let mut records = Vec::with_capacity(shared.vcpus as usize);
    let all: *const VcpuRecord = records.as_ptr();
    for number in 0..shared.vcpus {
        records.push(VcpuRecord {
            own: all.wrapping_add(number as usize) as u64,
            all,
            shared,
            number,
            first_pause: AtomicU64::new(0),
            last_pause: AtomicU64::new(0),
            tsc_offset: AtomicU64::new(0),
            preempted: AtomicBool::new(false),
            steal_ns: AtomicU64::new(0),
            halted_ns: AtomicU64::new(0),
            critical: AtomicBool::new(false),
            yield_wanted: AtomicBool::new(false),
            pending: AtomicU32::new(0),
            interrupts_off: AtomicBool::new(false),
            deliver: deliver::<W, P>,
            hint: hint::<W, P>,
            truth: truth::<W, P>,
            progress: progress::<W, P>,
            was_away: was_away::<W, P>,
            program: ptr::from_ref(program).cast(),
        });
    }
    records
}
