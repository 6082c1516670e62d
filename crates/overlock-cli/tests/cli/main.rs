// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command as its users see it: one file for each sub-command, all through the real binary.

mod bench;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod boot;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod children;
mod compare;
mod help;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod lab;
mod real;
mod reference;
mod report;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod reproduce;
mod run;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod sim;
mod support;
/// The layout of the shared counters, for a library that stands in for the real one.
#[path = "../../preload/src/tally.rs"]
#[allow(dead_code)]
mod tally;
mod torture;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod trace;
