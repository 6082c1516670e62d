//! How the kernel scheduled the threads of a run, by its own accounts.
//!
//! The accounts are read just before and just after the window, so nothing disturbs it. CPU time
//! and switches are those of `getrusage` for the process, without those of the coordinator. Time in
//! the run queue is the threads' [`RunDelay`]; it grows when a thread gets its CPU, so a thread
//! that still waits at the end has waited for longer than the account shows. The kernel samples its
//! own time by its tick (1 to 10 ms): a rough figure in short runs.

use crate::RunDelay;
use overlock_programs::CpuUsage;
use overlock_results::Sched;
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Account {
    at: Instant,
    pub(crate) process: CpuUsage,
    coordinator: CpuUsage,
    /// Seconds in the run queue, all threads together.
    queued: Option<f64>,
}

impl Account {
    /// Reads the accounts of this process, whose workers are `threads`: all of them alive.
    pub(crate) fn now(threads: &[i32]) -> Self {
        let queued = |thread| Some(RunDelay::of(thread).ok()?.ns()? as f64 / 1e9);
        Account {
            at: Instant::now(),
            process: CpuUsage::of(libc::RUSAGE_SELF),
            coordinator: CpuUsage::of(libc::RUSAGE_THREAD),
            queued: threads.iter().map(|&thread| queued(thread)).sum(),
        }
    }

    pub(crate) fn since(&self, earlier: &Account) -> Sched {
        let seconds = (self.at - earlier.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = |figure: &dyn Fn(&CpuUsage) -> f64| {
            let workers =
                |account: &Account| figure(&account.process) - figure(&account.coordinator);
            ((workers(self) - workers(earlier)) / seconds).max(0.0)
        };
        Sched {
            cpu: rate(&|usage| usage.cpu_seconds),
            system: rate(&|usage| usage.system_seconds),
            queued: self.queued.zip(earlier.queued).map(|(now, then)| (now - then) / seconds),
            voluntary_per_s: rate(&|usage| usage.voluntary as f64),
            involuntary_per_s: rate(&|usage| usage.involuntary as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_thread_that_works_uses_a_cpu_and_one_that_sleeps_switches() {
        let (send, receive) = std::sync::mpsc::channel();
        let worker = std::thread::spawn(move || {
            send.send(overlock_programs::thread_id()).unwrap();
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(100) {
                std::hint::spin_loop();
            }
            (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        });
        let threads = [receive.recv().unwrap()];
        let before = Account::now(&threads);
        while before.at.elapsed() < Duration::from_millis(90) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let busy = Account::now(&threads).since(&before);
        worker.join().unwrap();
        let after = Account::now(&[]);
        let slept = after.since(&before);
        assert!(busy.cpu > 0.0 && busy.system <= busy.cpu, "{busy:?}");
        let switches = slept.voluntary_per_s * (after.at - before.at).as_secs_f64();
        // A thread whose processor is taken away as it goes to sleep may not sleep at all.
        assert!(switches >= 10.0, "{slept:?}");
    }
}
