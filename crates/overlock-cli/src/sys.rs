//! The system calls that std does not offer, behind safe functions.

use std::mem::MaybeUninit;

/// CPU time and memory of this process, or of one that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// User and system time, in seconds.
    pub(crate) cpu_seconds: f64,
    /// The most memory ever resident, in KiB.
    pub(crate) max_rss_kib: i64,
}

impl From<libc::rusage> for Usage {
    #[expect(clippy::cast_precision_loss, reason = "seconds and microseconds are small")]
    fn from(usage: libc::rusage) -> Self {
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Usage {
            cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            max_rss_kib: usage.ru_maxrss,
        }
    }
}

/// What this process has used so far, all threads together.
pub(crate) fn own_usage() -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is writable and of the right type.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    // SAFETY: all-zero bytes are a valid rusage, so it is initialised even if the call failed.
    unsafe { usage.assume_init() }.into()
}

/// How many CPUs this process may run on: its affinity mask, not what is plugged in.
pub(crate) fn allowed_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Ends the process at once, whatever its other threads are doing.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions; nothing buffered is left to write at the call sites.
    unsafe { libc::_exit(code) }
}
