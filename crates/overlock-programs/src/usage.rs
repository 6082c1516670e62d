//! What the kernel says that a process or a thread has used.

use std::mem::MaybeUninit;

/// CPU time and memory of this process, or of one that has ended.
#[derive(Clone, Copy, Debug)]
pub struct CpuUsage {
    /// User and system time, in seconds.
    pub cpu_seconds: f64,
    /// The kernel's part of it, in seconds, from its sampling of ticks.
    pub system_seconds: f64,
    /// Context switches of threads that had to wait.
    pub voluntary: i64,
    /// Context switches of threads that could have continued.
    pub involuntary: i64,
    /// The most memory ever resident, in KiB.
    pub max_rss_kib: i64,
}

impl From<libc::rusage> for CpuUsage {
    fn from(usage: libc::rusage) -> Self {
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        CpuUsage {
            cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            system_seconds: seconds(usage.ru_stime),
            voluntary: usage.ru_nvcsw,
            involuntary: usage.ru_nivcsw,
            max_rss_kib: usage.ru_maxrss,
        }
    }
}

impl CpuUsage {
    /// What `getrusage` says of `whom`: `RUSAGE_SELF`, or `RUSAGE_THREAD`.
    pub fn of(whom: i32) -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` is writable and of the right type.
        unsafe { libc::getrusage(whom, usage.as_mut_ptr()) };
        // SAFETY: all-zero bytes are a valid rusage, so it is initialised even if the call failed.
        unsafe { usage.assume_init() }.into()
    }
}

pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}
