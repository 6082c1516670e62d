//! A gate that one thread waits at and any thread opens: how a vCPU without a processor sleeps.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | shut |
//! | 1 | open; the next [`Gate::pass`] shuts it and goes through |
//!
//! It is a futex: that of the platform of threads.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};

use overlock::platform::{Platform, Threads};

/// A gate for one waiting thread.
#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicU32);

impl Gate {
    /// Opens the gate. Opening it twice lets the thread through once.
    pub(crate) fn open(&self) {
        // ORDERING: Release → the Acquire in `pass`; the passing thread sees what the opener did.
        self.0.store(1, Release);
        Threads::kick_any(&raw const self.0);
    }

    /// Waits until the gate is open, or for about `ns` nanoseconds, then shuts it and goes through.
    /// The wait can also end for no reason.
    pub(crate) fn pass(&self, ns: Option<u64>) {
        // ORDERING: Acquire → the Release in `open`.
        if self.0.swap(0, Acquire) == 0 {
            Threads::wait(&self.0, 0, ns.map(|ns| Threads::now_ns().saturating_add(ns)));
            // ORDERING: as above.
            self.0.swap(0, Acquire);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn every_opening_lets_the_thread_through_once() {
        let (there, back, passed) = (Gate::default(), Gate::default(), AtomicU32::new(0));
        let turn = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for own in 1..=1000 {
                    while turn.load(Acquire) < own {
                        there.pass(None);
                    }
                    passed.fetch_add(1, Relaxed);
                    back.open();
                }
            });
            for own in 1..=1000 {
                turn.store(own, Release);
                there.open();
                while passed.load(Relaxed) < own {
                    back.pass(None);
                }
                assert_eq!(passed.load(Relaxed), own);
            }
        });
    }

    /// The wait may end early, so that it ends is all that can be checked.
    #[test]
    fn a_wait_at_a_closed_gate_ends_by_itself() {
        let (send, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            Gate::default().pass(Some(5_000_000));
            send.send(())
        });
        let limit = std::time::Duration::from_secs(60);
        ended.recv_timeout(limit).expect("a wait that has no end");
    }
}
