// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod account;
mod bursts;
mod calls;
mod chrome;
mod coarse;
mod drain;
mod finding;
mod firefox;
mod folded;
mod futexes;
mod images;
mod kernel;
mod kind;
mod looks;
mod names;
mod owner;
mod platform;
mod points;
mod preload;
mod quota;
mod records;
mod rings;
mod session;
mod slices;
mod spin;
mod symbols;
mod tracepoints;
mod tracer;
mod window;
mod word;

pub use finding::{Finding, Findings, Loop};
pub use folded::lines as folded;
pub use kind::Kind;
pub use preload::LIBRARY;
pub use session::{Closing, Files, Needs, Opened, Seen, Session, Start, Wanted};
pub use window::{Hold, Stint, Window};
