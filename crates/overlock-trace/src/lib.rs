#![doc = include_str!("../README.md")]

pub mod analysis;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod exports;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod names;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod sources;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod verdicts;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use {
    exports::folded,
    names::{Class, Kind},
    sources::{Files, LIBRARY, Needs, Opened, Seen, Session, Start, Wanted, quota_of},
    verdicts::{Cure, Facts, Finding, Findings, Loop, NOTICEABLE, Stack, Step, Verdict, share},
};
