// SPDX-License-Identifier: MIT OR Apache-2.0
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
mod ports;
mod stacks;
mod vcpu;

use std::fs::OpenOptions;
use std::{io, ptr};

use kvm_ioctls::{Cap, Kvm, VmFd};
use overlock_bench::{Config, Engine, Outcome, Program};

use self::memory::GuestMemory;
pub use self::ports::Ports;
use self::stacks::Stacks;
use self::vcpu::KvmVcpu;
pub use self::vcpu::SLOW_ENTRY_NS;
use crate::lab::config::check;
use crate::lab::engine::{alone, conduct};
use crate::lab::guest::abi::Hooks;
use crate::lab::{Error, Yields, signal};

#[derive(Clone, Copy, Debug, Default)]
pub struct KvmEngine;

impl Engine for KvmEngine {
    type Verbs = Ports;
    type Error = Error;
    type Yields = Yields;

    const NAME: &'static str = "kvm";

    fn availability() -> Result<(), Error> {
        open().map(drop)
    }

    fn run<P: Program<Ports>>(
        &self,
        config: &Config,
        program: &P,
    ) -> Result<Outcome<Yields>, Error> {
        let hooks = Hooks::of::<Ports, P>();
        let start = vcpu::start::<P> as *const ();
        run(config, (ptr::from_ref(program).cast(), hooks), start)
    }
}

/// Runs a program on vCPUs that begin at the address `start`.
fn run(
    config: &Config,
    program: (*const (), Hooks),
    start: *const (),
) -> Result<Outcome<Yields>, Error> {
    check(config)?;
    let _alone = alone();
    let kvm = open()?;
    vcpu::install_handler()?;
    // Made before the process's mappings are listed, so that the guest has them.
    let stacks = Stacks::new(config.vcpus)?;
    let vm = create_vm(&kvm)?;
    let mut memory = None;
    conduct(config, program, signal::kvm(), |records, regions| {
        memory = Some(GuestMemory::install(&vm, regions)?);
        records
            .iter()
            .map(|record| KvmVcpu::new(&kvm, &vm, record, start, stacks.stack(record.number)))
            .collect()
    })
}

/// Makes a virtual machine, however many signals come meanwhile: the system call waits for every
/// processor once, and gives up when it is interrupted.
fn create_vm(kvm: &Kvm) -> Result<VmFd, Error> {
    loop {
        match kvm.create_vm() {
            Err(e) if e.errno() == libc::EINTR => {}
            made => {
                return made.map_err(|e| Error::Io {
                    attempt: "create a virtual machine (KVM_CREATE_VM)",
                    source: e.into(),
                });
            }
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
