// SPDX-License-Identifier: MIT OR Apache-2.0
//! A gate that one thread waits at and any thread opens: how a vCPU without a processor sleeps.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | shut |
//! | 1 | open; the next [`Gate::pass`] shuts it and goes through |
//!
//! It is a futex and nothing else, so that a signal handler may wait here: no allocation, no lock.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};

/// A gate for one waiting thread.
#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicU32);

impl Gate {
    /// Opens the gate. Opening it twice lets the thread through once.
    pub(crate) fn open(&self) {
        // ORDERING: Release → the Acquire in `pass`; what the opener did is seen behind the gate.
        self.0.store(1, Release);
        self.futex(libc::FUTEX_WAKE, 1);
    }

    /// Waits until the gate is open, shuts it and goes through.
    pub(crate) fn pass(&self) {
        // ORDERING: Acquire → the Release in `open`.
        while self.0.swap(0, Acquire) == 0 {
            self.futex(libc::FUTEX_WAIT, 0);
        }
    }

    /// A wait while the word is `value`, or a wake of `value` threads. An interrupted or refused
    /// wait is a spurious one, which the loop in `pass` expects; a wake cannot fail.
    fn futex(&self, operation: i32, value: u32) {
        // SAFETY: the word lives as long as `self`, and no time-out is passed.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                value,
                ptr::null::<libc::timespec>(),
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn every_opening_lets_the_thread_through_once() {
        let (there, back, passed) = (Gate::default(), Gate::default(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..1000 {
                    there.pass();
                    passed.fetch_add(1, Relaxed);
                    back.open();
                }
            });
            for turn in 1..=1000 {
                there.open();
                back.pass();
                assert_eq!(passed.load(Relaxed), turn);
            }
        });
    }
}
