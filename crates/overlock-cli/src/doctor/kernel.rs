//! The kernel: its clocks, and the system calls that locks need.

use crate::machine::first_line;
use overlock::platform::Threads;
use overlock_bench::clock::{self, Stamps};
use overlock_results::row::Symptom;
use std::io;

pub(super) fn kernel() -> Symptom {
    let read = |name| first_line(&format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    Symptom::new("kernel", format!("{} {}", read("osrelease"), read("version")))
}

pub(super) fn tick() -> Symptom {
    let Some(nanos) = tick_ns() else { return Symptom::new("scheduler tick", "unknown") };
    let millis = nanos as f64 / 1e6;
    Symptom::new("scheduler tick", format!("{millis} ms")).advise(
        millis > 3.0,
        "a preempted lock holder is away for at least a tick; CONFIG_HZ=1000 makes that 1 ms",
    )
}

pub(super) fn tsc() -> Symptom {
    let clock = Stamps::calibrate();
    let found = clock.tsc_khz().map_or_else(
        || "not trusted: clock_gettime is used".into(),
        |khz| format!("trusted, {:.1} MHz", khz as f64 / 1e3),
    );
    Symptom::new("time stamp counter", found).advise(
        cfg!(target_arch = "x86_64") && !clock::tsc_is_trusted(),
        "time stamps cost more without it; see /sys/devices/system/clocksource and the boot log",
    )
}

pub(super) fn futex() -> Symptom {
    match futex_works() {
        Ok(()) => Symptom::new("futex", "works"),
        Err(error) => Symptom::new("futex", error.to_string()).advise(
            true,
            "locks that halt need futex(2); a sandbox seems to forbid it, so waiters can only spin",
        ),
    }
}

pub(super) fn restartable_sequences() -> Symptom {
    let armed = Threads::has_restartable_sequences();
    let found = if armed { "armed" } else { "not available" };
    Symptom::new("restartable sequences", found).advise(
        !armed,
        "with rseq(2), membarrier(2) (Linux 5.10) and the GNU C library 2.35 on x86-64, \
         an uncontended lock is released without an atomic read-modify-write",
    )
}

pub(super) fn slice_extension() -> Symptom {
    let found = if has_slice_extension() { "available" } else { "not in this kernel" };
    Symptom::new("rseq slice extension", found).advise(
        !has_slice_extension(),
        "Linux 7.0 with CONFIG_RSEQ_SLICE_EXTENSION lets a lock holder ask for a few microseconds \
         more before it is preempted",
    )
}

/// Returns the period of the scheduler's tick: coarse clocks advance once per tick.
fn tick_ns() -> Option<u64> {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `tick` is a valid timespec to write to.
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) } != 0;
    (!failed).then(|| tick.tv_nsec.unsigned_abs())
}

fn futex_works() -> io::Result<()> {
    let word = 0_u32;
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: `word` is a readable, aligned 32-bit word; waking reads nothing else.
    let woken = unsafe { libc::syscall(libc::SYS_futex, &raw const word, wake, 1) };
    if woken < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns whether a thread can ask for a few more microseconds before it is preempted.
///
/// Asks for the current setting; an older kernel answers with EINVAL. The numbers are those of
/// `PR_RSEQ_SLICE_EXTENSION` and `PR_RSEQ_SLICE_EXTENSION_GET` in Linux 7.0's `prctl.h`.
fn has_slice_extension() -> bool {
    const SLICE_EXTENSION: i32 = 79;
    const GET: libc::c_ulong = 1;
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: reads a setting; takes integers and touches no memory.
    unsafe { libc::prctl(SLICE_EXTENSION, GET, UNUSED, UNUSED, UNUSED) >= 0 }
}
