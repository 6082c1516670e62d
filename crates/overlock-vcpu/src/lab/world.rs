// SPDX-License-Identifier: MIT OR Apache-2.0
//! The laboratory as two worlds: vCPUs of `/dev/kvm`, and threads that a signal parks.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use overlock_bench::{Engine as _, Failed, Job, World, workload};
use overlock_results::Run;
use overlock_results::locks::Lock;

use crate::lab::engine::Engine;
use crate::lab::host::allowed_cpus;
use crate::lab::{Error, KvmEngine, POLICIES, ThreadsEngine};

/// How many processors vCPUs share by default: two are enough for every effect.
const PCPUS: u32 = 2;

macro_rules! world {
    ($engine:ident, $about:literal) => {
        impl World for $engine {
            fn name(&self) -> &'static str {
                Self::NAME
            }

            fn about(&self) -> String {
                $about.into()
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

            fn run(&self, job: &Job, cancel: &AtomicBool) -> Result<Run, Failed> {
                run(self, job, cancel)
            }
        }
    };
}

world!(KvmEngine, "vCPUs of /dev/kvm, under our scheduler");
world!(ThreadsEngine, "threads as vCPUs, under our scheduler");

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

/// A guest's own fault is a failure of the point; any other error ends the command.
fn run<E: Engine>(engine: &E, job: &Job, cancel: &AtomicBool) -> Result<Run, Failed> {
    let lock = job.resolved()?;
    match workload::run(engine, &job.config(&lock, cancel), &job.profile, lock.built) {
        Ok(_) if cancel.load(Relaxed) => Err(Failed::Cancelled),
        Ok(run) => Ok(run),
        Err(error @ (Error::Fault { .. } | Error::Panicked { .. } | Error::Runaway { .. })) => {
            Err(Failed::Subject(error.to_string()))
        }
        Err(error) => Err(Failed::World(error.to_string())),
    }
}
