//! `Hybrid`: a queue whose head can be passed for a bounded time (S4).
//!
//! A lock in strict order needs a wake-up for every hand-over: several microseconds in which no CPU
//! does useful work. An unfair lock needs none, but can starve a waiter. `Hybrid` is unfair as long
//! as that pays and becomes orderly before it hurts: running CPUs take the lock past a queue of
//! halted ones until the queue head disables stealing and takes its turn.
//!
//! | mode | when | a newcomer |
//! |---|---|---|
//! | free | there is no queue; waiters spin, or sleep on the word | takes a free lock with one CAS |
//! | stealing enabled | there is a queue | takes a free lock; a *steal*, counted in the word |
//! | stealing disabled | the queue head has set `NO_STEALING`, or was passed so often that the count is full | waits until the head has had the lock, or joins the queue |
//!
//! State, transitions, invariants and orderings are those of [`queue`](super::queue); how long each
//! step lasts is in `spin.rs`, and what each mechanism brings in `docs/hybrid.md`.
//!
//! # The bypass bound
//!
//! From the moment a waiter becomes the queue head until it has the lock, at most [`MAX_BYPASS`]
//! acquisitions pass it while it can run, which is 4,095. While it has disabled stealing, none do.
//! It disables stealing when it has been the head for 10 wake-up latencies, or as soon after that
//! as it has a processor. Waiters behind it are served in order, so the waiter in place k is passed
//! at most k times as often. A newcomer has no claim until it has joined the queue, which it does
//! when it is awake and has waited for a thousand wake-up latencies (5 ms for threads): shorter
//! waits are served in the order in which waiters are awake, because a queue of sleepers makes each
//! hand-over last as long as a wake-up.
//!
//! A fair release ([`RawFairLock`](crate::RawFairLock)) reserves the lock for the queue head; or, if
//! there is no queue, for waiters that have halted outside, if it has woken one.
//!
//! # Departures from S4 and Linux's `pv_hybrid_queued_unfair_trylock`
//!
//! * There the head disables stealing at once and for as long as it spins, so the lock is unfair
//!   only while its head has halted. Here most of the gain comes from the steals between two
//!   hand-overs, so the head lets itself be passed for a tenure.
//! * There newcomers spin without bound while stealing is enabled, and so does a head after a steal
//!   (F18). Here both have budgets in time: a newcomer then sleeps on the word, outside the queue,
//!   and a head halts again however often it was passed.
//! * There every waiter that finds an awake head joins the queue, so the order is kept without
//!   overcommitment. Here it is not: to wait in order costs a wake-up for each hand-over as soon as
//!   the first waiter sleeps, and nothing tells beforehand.
//! * There, nothing limits how often a halted head is passed. Here the count does.
//!
//! # Limits
//!
//! A head that disables stealing and then loses its CPU keeps a free lock to itself for some
//! milliseconds ([`Costs::reserved_ns`](crate::platform::Costs)). So does a waiter that a fair
//! release has woken. It is passed by who waits for that long: not by attempts, however many, nor
//! by waits whose deadlines are shorter. From then on it is passed freely, until it is back: others
//! pay for a waiter that was stopped once, and not once for each acquisition.
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
