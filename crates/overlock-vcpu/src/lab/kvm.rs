//! The KVM engine: functions of this process on real vCPUs, at CPL 3.
//!
//! A run makes a virtual machine whose memory is this process ([`memory`]), gives each vCPU a stack
//! and the register state of a user program ([`vcpu`]), and lets the host decide which vCPU runs.
//! There is no interrupt controller, no kernel in the guest, no descriptor table: a fault shuts the
//! vCPU down with its registers intact, which is all that [`fault`] needs to explain it.
//!
//! User privilege makes it fast everywhere: a KVM that itself runs in a virtual machine without
//! hardware support executes user code natively and emulates the rest.

mod fault;
mod interrupt;
mod memory;
mod paging;
mod stacks;
mod vcpu;

use std::fs::OpenOptions;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, ptr, thread};

use kvm_ioctls::{Cap, Kvm, VmFd};
use overlock_bench::clock::Clock;
use overlock_bench::{Engine, Observed, Program, RunConfig, Yields};

use self::memory::GuestMemory;
use self::stacks::Stacks;
use self::vcpu::KvmVcpu;
pub use self::vcpu::SLOW_ENTRY_NS;
use crate::lab::config::check;
use crate::lab::guest::abi::{Hooks, Shared, VcpuRecord};
use crate::lab::guest::platform::Tables;
use crate::lab::guest::ports::Ports;
use crate::lab::host::Host;
use crate::lab::host::state::Exit;
use crate::lab::maps::{Code, process_regions};
use crate::lab::place::Place;
use crate::lab::{Error, signal};

/// The engine. It does one run at a time: another run in this process waits for it. When a run has
/// ended, however it did, none of its threads is left.
#[derive(Clone, Copy, Debug, Default)]
pub struct KvmEngine;

impl Engine for KvmEngine {
    type Verbs = Ports;
    type Error = Error;

    const NAME: &'static str = "kvm";

    fn availability() -> Result<(), Error> {
        open().map(drop)
    }

    fn run<P: Program<Ports>>(&self, config: &RunConfig, program: &P) -> Result<Observed, Error> {
        let hooks = Hooks::of::<P>();
        let start = vcpu::start::<P> as *const ();
        run(config, (ptr::from_ref(program).cast(), hooks), start)
    }
}

/// The assumed time of a halt, a kick and a wake-up before it is measured, in nanoseconds.
const WAKE_NS: u64 = 20_000;

/// Waits until no other run of this process goes on, and keeps others from starting until the guard
/// is dropped: a guest on KVM has all memory that is mapped when it starts, which must not be
/// unmapped under it; and all runs need the same CPUs.
fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    // A run that panicked has left nothing behind.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the program at an address, whatever its type is, on vCPUs that begin at `start`: makes the
/// records that they share with their host, makes the vCPUs, starts and supervises them.
fn run(
    config: &RunConfig,
    (program, hooks): (*const (), Hooks),
    start: *const (),
) -> Result<Observed, Error> {
    check(config)?;
    let _alone = alone();
    let kvm = open()?;
    signal::install(vcpu::on_signal)?;
    // Made before the process's mappings are listed, so that the guest has them.
    let stacks = Stacks::new(config.vcpus)?;
    let vm = create_vm(&kvm)?;
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
    let _memory = GuestMemory::install(&vm, &regions)?;
    let vcpu =
        |record: &VcpuRecord| KvmVcpu::new(&kvm, &vm, record, start, stacks.stack(record.number));
    let vcpus = records.iter().map(vcpu).collect::<Result<Vec<_>, _>>()?;
    let host = Host::new(config, &records, &code)?;
    thread::scope(|scope| {
        let host = &host;
        let mut threads = Vec::new();
        for (number, vcpu) in (0..).zip(vcpus) {
            let thread = thread::Builder::new().name(format!("vcpu{number}"));
            match thread.spawn_scoped(scope, move || drive(host, number, vcpu)) {
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
        None => Ok(Observed {
            ran: Duration::from_nanos(report.ran_ns),
            ended_ns: report.stopped_ns,
            vcpus: report.accounts,
            yields: Yields::of(report.yields.reasons(), report.yields.hits),
        }),
    }
}

/// The body of a vCPU's thread. Whatever happens, the host learns that the vCPU has ended.
fn drive(host: &Host, number: u32, vcpu: KvmVcpu) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| vcpu.run(host, number))) {
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

/// Makes a virtual machine, however many signals come meanwhile: the system call waits for every
/// processor once, and gives up when it is interrupted.
fn create_vm(kvm: &Kvm) -> Result<VmFd, Error> {
    loop {
        match kvm.create_vm() {
            Err(e) if e.errno() == libc::EINTR => {}
            made => return made.map_err(Error::io("create a virtual machine (KVM_CREATE_VM)")),
        }
    }
}

/// Opens `/dev/kvm` if it can do what the engine needs.
fn open() -> Result<Kvm, Error> {
    let unavailable = |reason: String| Error::Unavailable { engine: KvmEngine::NAME, reason };
    // kvm-ioctls reports only that it failed; the system reports why.
    OpenOptions::new().read(true).write(true).open("/dev/kvm").map_err(|e| {
        unavailable(match e.kind() {
            io::ErrorKind::NotFound => "there is no /dev/kvm; load the kvm module, or enable \
                                        nested virtualization in a virtual machine"
                .into(),
            io::ErrorKind::PermissionDenied => {
                "no permission to open /dev/kvm; add yourself to the group kvm".into()
            }
            _ => format!("cannot open /dev/kvm: {e}"),
        })
    })?;
    let kvm = Kvm::new().map_err(|e| unavailable(format!("cannot open /dev/kvm: {e}")))?;
    if kvm.get_api_version() != 12 {
        return Err(unavailable(format!("its API version is {}, not 12", kvm.get_api_version())));
    }
    if !kvm.check_extension(Cap::ImmediateExit) {
        return Err(unavailable(
            "it cannot leave the guest at once; Linux 4.12 or later can".into(),
        ));
    }
    if !std::arch::is_x86_feature_detected!("xsave") {
        return Err(unavailable("the processor has no XSAVE".into()));
    }
    Ok(kvm)
}
