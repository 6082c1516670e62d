// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run does to its process. One test alone, so that threads and CPU time can be counted.

#[path = "engines/support.rs"]
mod support;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use overlock_lab::{Engine, KvmEngine, ThreadsEngine, Vcpu};
use support::{Body, available, config, error};

fn vcpu_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("vcpu")).count()
}

fn a_broken_run_leaves_no_thread<E: Engine>() {
    let mut config = config(4, 2);
    config.duration = Duration::from_millis(10);
    config.grace = Duration::from_millis(10);
    let (during, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                during.fetch_max(vcpu_threads(), Relaxed);
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let _ = error::<E>(&config, |vcpu| {
            if vcpu.number() != 2 {
                while std::hint::black_box(true) {}
            }
        });
        over.store(true, Relaxed);
    });
    assert!(during.into_inner() > 0, "the count cannot see them");
    assert_eq!(vcpu_threads(), 0);
}

/// User and system time of this process.
fn cpu_time() -> Duration {
    // SAFETY: all-zero is a valid `rusage`, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|t| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000))
        .sum()
}

fn cpu_time_is_that_of_the_pcpus<E: Engine>() {
    let mut config = config(4, 1);
    config.duration = Duration::from_millis(300);
    let span = AtomicU64::new(0);
    let program = Body(|vcpu: Vcpu<E::World>| {
        while !vcpu.stopping() {}
        span.store(vcpu.now_ns(), Relaxed);
    });
    let before = cpu_time();
    E::run(&config, &program).unwrap();
    let used = cpu_time() - before;
    let span = Duration::from_nanos(span.into_inner());
    // Four vCPUs that always want to run, on one pCPU: were they not parked, two cores were busy.
    assert!(used < span.mul_f64(1.5), "{used:?} of CPU time in {span:?} on one pCPU");
}

#[test]
fn threads_and_cpu_time_are_accounted_for_on_both_engines() {
    a_broken_run_leaves_no_thread::<ThreadsEngine>();
    cpu_time_is_that_of_the_pcpus::<ThreadsEngine>();
    if available::<KvmEngine>("threads_and_cpu_time_are_accounted_for") {
        a_broken_run_leaves_no_thread::<KvmEngine>();
        cpu_time_is_that_of_the_pcpus::<KvmEngine>();
    }
}
