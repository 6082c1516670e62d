// SPDX-License-Identifier: MIT OR Apache-2.0
//! The laboratory as two worlds: vCPUs of `/dev/kvm`, and threads that a signal parks.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use overlock_bench::vcpus::{MoreLocks, NoMore};
use overlock_bench::{Failed, Job, World, workload};
use overlock_results::Run;
use overlock_results::locks::Lock;

use crate::lab::engine::Engine;
use crate::lab::host::allowed_cpus;
use crate::lab::{Error, KvmEngine, POLICIES, ThreadsEngine};

/// How many processors vCPUs share by default: two are enough for every effect.
const PCPUS: u32 = 2;

/// An engine as a world, with the locks `M` that another program brings.
#[derive(Clone, Copy, Debug)]
pub struct Laboratory<E, M = NoMore> {
    engine: E,
    about: &'static str,
    more: PhantomData<M>,
}

impl<M> Laboratory<KvmEngine, M> {
    #[must_use]
    pub const fn kvm() -> Self {
        let about = "vCPUs of /dev/kvm, under our scheduler";
        Self { engine: KvmEngine, about, more: PhantomData }
    }
}

impl<M> Laboratory<ThreadsEngine, M> {
    /// Threads in the place of vCPUs.
    #[must_use]
    pub const fn parked() -> Self {
        let about = "threads as vCPUs, under our scheduler";
        Self { engine: ThreadsEngine, about, more: PhantomData }
    }
}

impl<E: Engine, M: MoreLocks> World for Laboratory<E, M> {
    fn name(&self) -> &'static str {
        E::NAME
    }

    fn about(&self) -> String {
        self.about.into()
    }

    fn is_real(&self) -> bool {
        true
    }

    fn pcpus(&self) -> u32 {
        allowed_cpus().min(PCPUS)
    }

    fn locks(&self) -> Vec<Lock> {
        Lock::all().collect()
    }

    fn check(&self, job: &Job) -> Result<(), overlock_results::Error> {
        check(job)
    }

    /// A guest's own fault is a failure of the point; any other error ends the command.
    fn run(&self, job: &Job, cancel: &AtomicBool) -> Result<Run, Failed> {
        let lock = job.resolved()?;
        let config = job.config(&lock, cancel);
        match workload::run_with::<E, M>(&self.engine, &config, &job.profile, lock.built) {
            Ok(_) if cancel.load(Relaxed) => Err(Failed::Cancelled),
            Ok(run) => Ok(run),
            Err(error @ (Error::Fault { .. } | Error::Panicked { .. } | Error::Runaway { .. })) => {
                Err(Failed::Subject(error.to_string()))
            }
            Err(error) => Err(Failed::World(error.to_string())),
        }
    }
}

fn check(job: &Job) -> Result<(), overlock_results::Error> {
    let (pcpus, allowed) = (job.host.pcpus, allowed_cpus());
    if pcpus > allowed {
        return Err(overlock_results::Error(format!(
            "{pcpus} pCPUs need as many CPUs, and this process may use {allowed}: use --pcpus \
             {allowed}, or simulate such a host by --in sim:HOST"
        )));
    }
    if job.host.guest_vcpus != 0 {
        let what = "real vCPUs are one guest; only a simulation has several: --in sim";
        return Err(overlock_results::Error(what.into()));
    }
    if job.seq_cst {
        let what = "only a simulated host can charge for sequential consistency: --in sim";
        return Err(overlock_results::Error(what.into()));
    }
    job.check_virtual(&POLICIES, false)
}
