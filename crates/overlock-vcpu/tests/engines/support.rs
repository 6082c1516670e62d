//! Code that the tests of the laboratory share.

use std::io::{Write, stderr};
use std::time::Duration;

use overlock_bench::Engine as _;
use overlock_vcpu::lab::{Error, KvmEngine, Ports, Program, RunConfig, ThisVcpu};

/// Returns whether there is KVM here; if not, reports why, past the test harness's capture.
pub(crate) fn available(test: &str) -> bool {
    match KvmEngine::availability() {
        Ok(()) => true,
        Err(reason) => {
            writeln!(stderr(), "SKIPPED {test}: {reason}").expect("stderr");
            false
        }
    }
}

/// Makes a test of each function, which runs where there is KVM.
#[macro_export]
macro_rules! on_kvm {
    ($($test:ident),* $(,)?) => {
        mod kvm {
            $(#[test]
            fn $test() {
                if $crate::support::available(stringify!($test)) {
                    super::$test();
                }
            })*
        }
    };
}

/// A run that ends as soon as its programs return.
pub(crate) fn config(vcpus: u32, pcpus: u32) -> RunConfig<'static> {
    let mut config = RunConfig::new(vcpus, pcpus);
    config.duration = Duration::from_secs(30);
    config
}

pub(crate) struct Body<F>(pub(crate) F);

impl<F: Fn(ThisVcpu<Ports>) + Sync> Program<Ports> for Body<F> {
    fn run(&self, vcpu: ThisVcpu<Ports>) {
        (self.0)(vcpu);
    }
}

/// The error of a run that must not succeed.
pub(crate) fn error(config: &RunConfig, body: impl Fn(ThisVcpu<Ports>) + Sync) -> Error {
    KvmEngine.run(config, &Body(body)).expect_err("the program is broken")
}
