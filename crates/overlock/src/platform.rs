//! The platform: what a lock needs to know about the world it runs in.
//!
//! A lock is generic over one [`Platform`] and touches the machine nowhere else. A platform defines
//! what an atomic word is, how to pause while spinning, which CPU is running, what time it is, how
//! a CPU halts ([`Platform::wait`]), and how another CPU calls it back ([`Platform::kick`]). A
//! "CPU" is anything that can be taken away: a core, a vCPU, a thread.
//!
//! # The contract
//!
//! Each platform's file answers these clauses one by one, and `tests/threads/contract.rs` is
//! organised by clause.
//!
//! | | clause |
//! |---|---|
//! | P0 | A `Byte`, `Half` or `Word` behaves as the cell of `core::sync::atomic` that has its width ([`Atomic`](crate::atomic::Atomic)), and `fence` as the fence there. An operation of [`CheapRelease`] that returns true has done what its documentation says, and nothing else; one that returns false has changed nothing. |
//! | P1 | `wait(word, expected, ..)` returns at once if `word` does not hold `expected`. |
//! | P2 | `wait` may return spuriously at any time; the caller checks its condition again. |
//! | P3 | A `kick` that follows a change of `word` is never lost: it ends a `wait` on the old value, whether that `wait` has checked, is about to sleep, or sleeps; and what the kicker wrote before is visible to the CPU that the `kick` wakes. |
//! | P4 | Kicking a CPU that is running, waits for something else, or no longer exists is harmless. |
//! | P6 | `relax` never blocks. |
//! | P7 | `cpu` returns the same number throughout one lock operation, no two CPUs have the same number at the same time, and `cpu() < MAX_CPUS`. |
//! | P8 | `slot(cpu)` is the same slot for the same number, and `waiters()` the same table for all CPUs that share a lock. Both were made of cells that held zero. |
//! | P9 | `now_ns` never goes backwards on one CPU; between CPUs it may differ by a few microseconds. Where it stands still, no deadline passes. |
//! | P10 | Where `WAITS` is false, or `waits()` returns false, no lock ever calls `wait`. |
//! | P11 | The releases of [`CheapRelease`] load and store in two steps. Once `membarrier` has returned true to a CPU, no release that missed what that CPU wrote before the call can still store: neither one on another CPU, nor one that the caller itself has interrupted. |
//! | P13 | `generation` is the same for all CPUs that share a lock, and differs in a forked child from what it was in its parent. Where processes share the lock's memory, or none forks, it is always zero. |

pub use crate::slot::{Cpu, LEVELS, MAX_CPUS, Slot};
pub use crate::waiters::bucket::Bucket;

mod contract;
mod costs;
mod native;
mod release;
#[cfg(all(feature = "threads", any(target_os = "linux", target_os = "android")))]
mod shared;
#[cfg(all(feature = "threads", any(target_os = "linux", target_os = "android")))]
mod threads;

pub use contract::Platform;
pub(crate) use contract::later;
pub use costs::Costs;
pub use native::Native;
pub use release::{CheapRelease, ReadModifyWrite};
#[cfg(all(feature = "threads", any(target_os = "linux", target_os = "android")))]
pub use shared::Shared;
#[cfg(all(feature = "threads", any(target_os = "linux", target_os = "android")))]
pub use threads::Threads;
#[cfg(all(feature = "threads", any(target_os = "linux", target_os = "android")))]
#[doc(hidden)]
pub use threads::{clock, errno::keep_errno, maps, report, syscall};
