// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why threads wait for locks: who held the lock meanwhile, and what that thread did.
//!
//! A source (tracepoints, samples, a preloaded library) reports what threads did, in the order of
//! time: they got and lost processors, slept in a futex, woke other threads. [`Analysis`] keeps a
//! timeline of each thread and finds the holder of each lock: a thread that wakes a waiter had the
//! lock last. So each wait can be split by what the holder did at that time: it ran, it had no
//! processor, its group's quota was spent, it slept itself, or the lock was free already and the
//! next waiter on its way. What was not observed is a share of its own and never spread over the
//! others.
//!
//! There is no I/O, no clock and no symbol here: threads, sites and reasons are numbers that the
//! source has chosen. Memory is bounded by [`Limits`], and what did not fit is counted.
#![forbid(unsafe_code)]

mod analysis;
mod event;
mod lengths;
mod lock;
mod present;
mod report;
mod snapshot;
mod spin;
mod timeline;
mod verdict;
mod wait;

pub use analysis::{Analysis, Limits};
pub use event::{Event, Off, Reason, SHARED, Site, What};
pub use lengths::Lengths;
pub use report::{BlockedIn, End, HolderNs, Key, Report, SiteReport, ThreadTime};
pub use snapshot::{Doing, Holder, Seen, Snapshot};
pub use spin::SpinReport;
pub use verdict::{Class, Cure, NOTICEABLE, Verdict, share};
