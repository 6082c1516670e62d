// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Queued`: one queue, served in order (S3).
//!
//! Waiters stand in an MCS queue, each watching a word of its own; a lock is 4 bytes however many
//! wait. Where CPUs get taken away, a waiter behind others halts at once, the queue head spins for
//! a moment and halts, and the release kicks the head.
//!
//! State, transitions, invariants and orderings are those of [`queue`](super::queue). What is its
//! own:
//!
//! * Waiters in the queue are served in the order of their tail CAS.
//! * Stealing is disabled from the moment that a queue has a head, and enabled only while the head
//!   is halted for the first time. So a queue head is passed during one halt at most. Linux's head
//!   can be passed at each of its halts.
//! * A newcomer passes the queue only with the one CAS on entry.
//! * A waiter may give up, so this lock has a timed acquisition.
//!
//! S3's point, that on machines with separate acquire and release accesses the stealing CAS and the
//! one that takes the lock out of the queue need no full barrier, is O1 of the queue.
//!
//! # Sources
//!
//! W. Long, P. Zijlstra: Linux kernel/locking/qspinlock.c, qspinlock_paravirt.h; S3 (2017).

use super::queue::{QueueLock, order::Strict};
use crate::counters::Uncounted;

/// The paravirtual queued lock. See the [module documentation](self).
pub type Queued<P, C = Uncounted> = QueueLock<P, Strict, C>;
