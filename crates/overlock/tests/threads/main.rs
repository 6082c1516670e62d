//! The locks on threads: one question a module.

#![cfg(all(feature = "threads", feature = "lock_api"))]

mod support {
    pub(crate) mod alone;
    pub(crate) mod child;
    pub(crate) mod family;
    pub(crate) mod likeness;
    pub(crate) mod oracle;
    pub(crate) mod pages;
    pub(crate) mod skip;
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(crate) mod step;
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(crate) mod stepped;
}

/// Makes a test of each of these functions for each lock.
macro_rules! each_lock {
    ($($check:ident)*) => {$(
        mod $check {
            use overlock::platform::Threads;
            use overlock::{Hybrid, Queued, TestAndSet, Ticket};

            #[test]
            fn test_and_set() {
                super::$check::<TestAndSet<Threads>>();
            }

            #[test]
            fn ticket() {
                super::$check::<Ticket<Threads>>();
            }

            #[test]
            fn queued() {
                super::$check::<Queued<Threads>>();
            }

            #[test]
            fn hybrid() {
                super::$check::<Hybrid<Threads>>();
            }
        }
    )*};
}

// Some ask glibc for what other C libraries call otherwise.
#[cfg(target_env = "gnu")]
mod adversity;
mod busted;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod code_budget;
#[cfg(target_env = "gnu")]
mod condvar;
mod conformance;
mod contract;
mod crowd;
mod family;
mod fork;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod fork_steps;
#[cfg(target_env = "gnu")]
mod mixed_releases;
mod read_write;
mod refresh;
#[cfg(target_env = "gnu")]
mod signals;
