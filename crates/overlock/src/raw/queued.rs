//! `Queued`: one queue, served in order (S3).
//!
//! Waiters form an MCS queue, and each watches a word of its own; the lock is 4 bytes however many
//! CPUs wait. Where CPUs get taken away, a waiter behind others halts at once, the queue head spins
//! for a moment and then halts, and the release kicks the head.
//!
//! State, transitions, invariants and orderings are those of [`queue`](super::queue). Specific to
//! this lock:
//!
//! * Waiters in the queue are served in the order of their tail CAS.
//! * Stealing is disabled from the moment that a queue has a head, and enabled only while the head
//!   is halted for the first time. So a queue head is passed during at most one halt, whereas
//!   Linux's head can be passed at each of its halts. On a platform with cheap releases, one CPU
//!   may also pass a waiter that joined an empty queue just as the lock was released
//!   (`raw/word/queue.rs`).
//! * A newcomer passes the queue only by its one CAS on entry; and a waiter passes a head that does
//!   not come although the lock has been free for some milliseconds (`queue/wait.rs`).
//! * A waiter can give up, so this lock has a timed acquisition.
//!
//! S3's point is O1 of the queue: on machines with separate acquire and release accesses, neither
//! the stealing CAS nor the one that takes the lock out of the queue needs a full barrier.
//!
//! # Sources
//!
//! W. Long, P. Zijlstra: Linux kernel/locking/qspinlock.c, qspinlock_paravirt.h; S3 (2017).

use super::queue::{QueueLock, order::Strict};
use crate::counters::Uncounted;

/// The paravirtual queued lock. See the [module documentation](self).
pub type Queued<P, C = Uncounted> = QueueLock<P, Strict, C>;
