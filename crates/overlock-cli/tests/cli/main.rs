//! The command as its users see it, all through the real binary: one file for each verb, and for
//! each kind of world.

mod bench;
#[path = "../../../overlock-preload/tests/preload/built.rs"]
mod built;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod children;
mod compare;
mod family;
mod help;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod preload;
mod real;
mod reference;
mod report;
mod run;
mod said;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod simulated;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod suite;
mod support;
/// The layout of the shared counters, for a library that stands in for the real one.
#[path = "../../../overlock-preload/src/tally.rs"]
#[allow(dead_code)]
mod tally;
mod torture;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod trace;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod truth;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod vcpus;
mod wrong;
