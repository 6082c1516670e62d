//! The laboratory as a world.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use overlock_bench::vcpus::{MoreLocks, NoMore};
use overlock_bench::{Engine as _, Failed, Job, World, workload};
use overlock_results::Run;
use overlock_results::locks::Lock;

use crate::lab::host::allowed_cpus;
use crate::lab::{Error, KvmEngine, POLICIES};

/// How many processors vCPUs share by default: two are enough for every effect.
const PCPUS: u32 = 2;

/// The laboratory, with the locks `M` that another program brings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Laboratory<M = NoMore>(PhantomData<M>);

impl<M: MoreLocks> Laboratory<M> {
    pub fn open() -> Result<Self, Error> {
        KvmEngine::availability()?;
        Ok(Self(PhantomData))
    }
}

impl<M: MoreLocks> World for Laboratory<M> {
    fn name(&self) -> &'static str {
        KvmEngine::NAME
    }

    fn about(&self) -> String {
        "vCPUs of /dev/kvm, under our scheduler".into()
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
        match workload::run_with::<_, M>(&KvmEngine, &config, &job.profile, lock.built) {
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
    job.check_virtual(&POLICIES)
}
