// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Hybrid`: a queue whose head may be passed for a while, but not for ever (S4).
//!
//! A lock in strict order needs a wake-up for every change of hands: several microseconds in which
//! nobody works. An unfair lock needs none, but may starve a waiter. `Hybrid` is unfair while that
//! pays and orderly before it hurts: CPUs that run take the lock past a queue of CPUs that halted,
//! until the queue head disables stealing and has its turn.
//!
//! | mode | when | a newcomer |
//! |---|---|---|
//! | free | nobody waits | takes the lock with one CAS |
//! | stealing enabled | there is a queue | takes a free lock; a *steal*, counted in the word |
//! | stealing disabled | the queue head has set `NO_STEALING`, or was passed [`MAX_BYPASS`] times | joins the queue |
//!
//! State, transitions, invariants and orderings are those of [`queue`](super::queue); the policy is
//! in `queue/policy.rs`.
//!
//! # The bypass bound
//!
//! From the moment a waiter is the queue head until it has the lock, at most [`MAX_BYPASS`] = 4,095
//! acquisitions pass it, whether it runs or not; while it has disabled stealing, none. It disables
//! stealing when it has been the head for 10 wake-up latencies, or as soon after that as it has a
//! processor. Waiters behind it are served in order, so the waiter in place k is passed at most
//! k x 4,095 times; and a newcomer has no claim until it has joined the queue, which it does after
//! 8 wake-up latencies of spinning.
//!
//! A head that has spun in vain halts, and enables stealing meanwhile unless it has been the head
//! for 40 wake-up latencies. The count goes on.
//!
//! # Departures from S4 and Linux's `pv_hybrid_queued_unfair_trylock`
//!
//! * There the head disables stealing at once and for as long as it spins, so the lock is unfair
//!   only while its head has halted. Here most of the gain is in the steals between two changes of
//!   hands, so the head lets itself be passed for a tenure.
//! * Newcomers spin without bound there while stealing is enabled, and so does a head after a steal
//!   (F18). Here both have budgets in time, and a head halts again however often it was passed.
//! * Newcomers and the head yield between two rounds of spinning, where a platform can.
//! * One newcomer at a time sets `SPINNER`; releases then need not kick. Go's `spinbit` mutex does
//!   likewise (golang/go#68578).
//!
//! # Limits
//!
//! A newcomer that loses its CPU while it has `SPINNER` set leaves a halted head to others: they
//! still take the lock, but if no newcomer comes, the lock stays free until that one has a CPU
//! again. The same holds for a head that disables stealing and then loses its CPU.
//!
//! A waiter that yields gives up its claim to the processor: under Linux 6.18 a thread that yields
//! to one that works may be back milliseconds later, so the longest stalls with many runnable
//! threads are those of the kernel's slices.
//!
//! [`MAX_BYPASS`]: super::queue::QueueLock::MAX_BYPASS
//!
//! # Sources
//!
//! W. Long, "locking/pvqspinlock: Hybrid PV queued/unfair locks" (2017; Linux 4.15); for the split
//! into CPUs that compete and CPUs that wait aside, D. Dice, "Malthusian Locks", EuroSys 2017.

use super::queue::{QueueLock, order::Unfair};
use crate::counters::Uncounted;

/// The hybrid queued and unfair lock. See the [module documentation](self).
pub type Hybrid<P, C = Uncounted> = QueueLock<P, Unfair, C>;
