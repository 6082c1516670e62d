// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part that both engines share: how a run is conducted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{ptr, thread};

use overlock_bench::clock::Clock;
use overlock_bench::{Config, Outcome, Verbs};

use crate::lab::guest::abi::{Hooks, Shared, VcpuRecord};
use crate::lab::guest::platform::Tables;
use crate::lab::host::Host;
use crate::lab::host::state::Exit;
use crate::lab::maps::{Code, Region, process_regions};
use crate::lab::place::Place;
use crate::lab::{Error, Yields};

/// An engine of this crate. See [`overlock_bench::Engine`] for what it does.
///
/// Either engine does one run at a time: another run in this process waits for it. When a run has
/// ended, however it did, none of its threads is left.
pub trait Engine:
    overlock_bench::Engine<Error = Error, Yields = Yields, Verbs: Verbs<Word = AtomicU32>> + Default
{
}

impl<E> Engine for E where
    E: overlock_bench::Engine<Error = Error, Yields = Yields, Verbs: Verbs<Word = AtomicU32>>
        + Default
{
}

/// The assumed time of a halt, a kick and a wake-up before it is measured, in nanoseconds.
const WAKE_NS: u64 = 20_000;

/// Waits until no other run of this process goes on, and keeps others from starting until the guard
/// is dropped: a guest on KVM has all memory that is mapped when it starts, which must not be
/// unmapped under it; and all runs need the same CPUs.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    // A run that panicked has left nothing behind.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A vCPU that is ready to move to its thread, and the work of that thread.
pub(crate) trait Runner: Send {
    /// Runs vCPU `number` until the host returns [`Next::Leave`](crate::lab::host::state::Next::Leave).
    fn run(self, host: &Host, number: u32);
}

/// Conducts a run of the program at an address, whatever its type is: makes the shared records,
/// calls `make` to make the vCPUs, starts and supervises them.
///
/// `make` gets the records and everything that the process has mapped. The caller has checked
/// `config`, and is [`alone`].
pub(crate) fn conduct<R: Runner>(
    config: &Config,
    (program, hooks): (*const (), Hooks),
    signal: i32,
    make: impl FnOnce(&[VcpuRecord], &[Region]) -> Result<Vec<R>, Error>,
) -> Result<Outcome<Yields>, Error> {
    let tables = Tables::new(config.vcpus);
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
    let records = records(&shared, program, hooks);
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
            // The end of the scope waits only for the closures, not for the threads to be gone.
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
            yields: Yields(report.yields),
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

/// Makes a record for every vCPU, each of which can find all others.
fn records(shared: &Shared, program: *const (), hooks: Hooks) -> Vec<VcpuRecord> {
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
            hooks,
            program,
        });
    }
    records
}
