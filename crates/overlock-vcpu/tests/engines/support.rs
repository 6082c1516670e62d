// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code that the tests of the engines share.

use std::io::{Write, stderr};
use std::time::Duration;

use overlock_vcpu::lab::{Config, Engine, Error, Program, Vcpu, Verbs};

/// Returns whether `E` exists here; if not, reports why, past the test harness's capture.
pub(crate) fn available<E: Engine>(test: &str) -> bool {
    match E::availability() {
        Ok(()) => true,
        Err(reason) => {
            writeln!(stderr(), "SKIPPED {test}: {reason}").expect("stderr");
            false
        }
    }
}

/// Runs each generic test on both engines; on KVM only where it exists.
#[macro_export]
macro_rules! on_both_engines {
    ($($test:ident),* $(,)?) => {
        mod kvm {
            $(#[test]
            fn $test() {
                if $crate::support::available::<overlock_vcpu::lab::KvmEngine>(stringify!($test)) {
                    super::$test::<overlock_vcpu::lab::KvmEngine>();
                }
            })*
        }
        mod threads {
            $(#[test]
            fn $test() {
                super::$test::<overlock_vcpu::lab::ThreadsEngine>();
            })*
        }
    };
}

/// A run that ends as soon as its programs return.
pub(crate) fn config(vcpus: u32, pcpus: u32) -> Config<'static> {
    let mut config = Config::new(vcpus, pcpus);
    config.duration = Duration::from_secs(30);
    config
}

/// A closure as a program.
pub(crate) struct Body<F>(pub(crate) F);

impl<W: Verbs, F: Fn(Vcpu<W>) + Sync> Program<W> for Body<F> {
    fn run(&self, vcpu: Vcpu<W>) {
        (self.0)(vcpu);
    }
}

/// The error of a run that must not succeed.
pub(crate) fn error<E: Engine>(config: &Config, body: impl Fn(Vcpu<E::Verbs>) + Sync) -> Error {
    E::default().run(config, &Body(body)).expect_err("the program is broken")
}
