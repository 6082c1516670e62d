//! How long a thread was ready to run without having one of the system's CPUs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The run delay of one thread of this process, as the system counts it: the second figure of
/// `/proc/PID/task/TID/schedstat` (Linux, Documentation/scheduler/sched-stats.rst).
///
/// The file is opened once, so a reading is one system call (about 0.5 µs) and allocates nothing.
#[derive(Debug)]
pub struct RunDelay(File);

impl RunDelay {
    /// The run delay of `thread`, by the system's number.
    ///
    /// # Errors
    /// If there is no such thread, the system does not count run delays (a kernel without
    /// `SCHED_INFO`), or no file descriptor is left.
    pub fn of(thread: i32) -> io::Result<Self> {
        File::open(format!("/proc/self/task/{thread}/schedstat")).map(Self)
    }

    /// Nanoseconds so far; `None` once the thread has ended.
    pub fn ns(&self) -> Option<u64> {
        // Three numbers of at most 20 digits.
        let mut text = [0; 64];
        let read = self.0.read_at(&mut text, 0).ok()?;
        let text = str::from_utf8(&text[..read]).ok()?;
        text.split_whitespace().nth(1)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_one_until_it_ends() {
        let (say, hear) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let link = std::fs::read_link("/proc/thread-self").unwrap();
            say.send(link.file_name().unwrap().to_str().unwrap().parse::<i32>().unwrap()).unwrap();
            let _ = ended.recv();
        });
        let delay = RunDelay::of(hear.recv().unwrap()).unwrap();
        let first = delay.ns().unwrap();
        assert!(delay.ns().unwrap() >= first);
        drop(end);
        thread.join().unwrap();
        // The system may remove the thread from its list a moment after the join.
        while delay.ns().is_some() {
            std::thread::yield_now();
        }
        assert!(RunDelay::of(i32::MAX).is_err());
    }
}
