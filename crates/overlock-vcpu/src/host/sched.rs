//! A scheduler for the vCPUs of one guest: events with times in, decisions out.
//!
//! A guest has more vCPUs than the host gives it pCPUs, so something decides which of them run. If
//! that is the host's kernel, it knows nothing of the guest's locks, and its policy cannot be
//! changed. This scheduler belongs to the VMM: it can be queried, replaced, tested and run in
//! virtual time.
//!
//! # State
//! Each vCPU is halted, queued, running or stopped ([`Standing`]). Each pCPU has an owner or none,
//! the end of its owner's slice, and a queue of vCPUs that wait for it:
//!
//! | field of a pCPU | meaning |
//! |---|---|
//! | `owner` | the vCPU that is in the guest, about to enter it, or has just left it |
//! | `entered` | since when it owns the pCPU |
//! | `until` | when its slice, or its grace, is over |
//! | `ended` | when the slice ended for which the owner is preempted |
//! | `preempting` | an [`Action::Preempt`] is unanswered |
//! | `graced` | the grace of this slice is used up |
//! | `next` | the boosted vCPU that gets the pCPU after the owner |
//!
//! # Which vCPU runs
//! Each vCPU carries a virtual time: CPU time divided by weight. A pCPU goes to the vCPU that lags
//! most in its own queue, or to one from another queue that lags more by at least
//! [`Config::migrate_lag`] (so load is balanced as far as it is worth a cold cache). A vCPU that
//! wakes lags the waiting ones by no more than one slice, however long it slept, and preempts an
//! owner that is ahead of it by [`Config::wake_lag`]. A boosted vCPU jumps the queue, unless it is
//! already ahead of the one that lags most, waiting or running, by [`Config::yield_lead`].
//!
//! # Slices
//! A slice that follows one that has ended begins when that one *should* have ended, not when its
//! owner was out: a change of owners is part of the slice that needs it. So the rate of preemptions
//! is that of the slices, as with the tick of a kernel, and does not depend on how long an exit
//! takes. An exit that takes more than a quarter of a slice is not charged to the next one.
//!
//! # Lookups
//! An event examines each pCPU at most a few times, its owner and the head of its queue. A policy
//! may examine every vCPU, but only those that it asks for are judged.
//!
//! # Invariants
//! - S1: a vCPU owns at most one pCPU; a queued vCPU is in exactly one queue.
//! - S2: no pCPU is idle while a vCPU is queued.
//! - S3: a kick of a vCPU that has not halted yet makes its next halt return at once.
//! - S4: when a vCPU queues, its virtual time is within its cap (twice `yield_lead` and two slices
//!   with their grace) of the time of the vCPU that lags most. So no vCPU waits for ever: while it
//!   waits, each of the others runs only until it is ahead by that much.
//! - S5: a vCPU in a critical section outstays its slice, or a woken vCPU that would preempt it, by
//!   at most [`Config::grace`], once per slice, and pays for it in virtual time.
//!
//! # Sources
//! Virtual time is that of weighted fair queueing and Linux's CFS, the bound on boosts that of its
//! `wakeup_preempt_entity` test for buddies; the grace is Linux's rseq slice extension (T.
//! Gleixner, 2025) given to a vCPU. All of it is written afresh.

mod check;
mod choose;
mod config;
mod error;
mod event;
mod handle;
mod judge;
mod place;
mod queue;
mod scheduler;
mod share;
mod spin;
mod vcpu;
pub mod yield_to;

pub use config::{CPUS_MAX, Config, ConfigError};
pub use error::SchedError;
pub use event::{Action, Event};
pub use scheduler::Scheduler;
pub use spin::{HINT_WAITERS, Spin, SpinHint, SpinSource};
pub use vcpu::{Guest, Standing, Usage, WEIGHT_DEFAULT};
