//! What a run does to its process. A single test, so that it can count threads and CPU time.

#[path = "engines/support.rs"]
mod support;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use overlock_bench::Engine as _;
use overlock_vcpu::lab::{Error, KvmEngine, Ports, ThisVcpu};
use support::{Body, available, config, error};

fn vcpu_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("vcpu")).count()
}

fn a_broken_run_leaves_no_thread() {
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
        let _ = error(&config, |vcpu| {
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

fn cpu_time_is_that_of_the_pcpus() {
    let mut config = config(4, 1);
    config.duration = Duration::from_millis(300);
    let span = AtomicU64::new(0);
    let program = Body(|vcpu: ThisVcpu<Ports>| {
        while !vcpu.stopping() {}
        span.store(vcpu.now_ns(), Relaxed);
    });
    let before = cpu_time();
    KvmEngine.run(&config, &program).unwrap();
    let used = cpu_time() - before;
    let span = Duration::from_nanos(span.into_inner());
    // Four vCPUs that always want to run, on one pCPU: if they did not take turns, two cores would
    // be busy.
    assert!(used < span.mul_f64(1.5), "{used:?} of CPU time in {span:?} on one pCPU");
}

/// Runs `act` while this process can open only `more` files besides those it has.
fn with_few_files<T>(more: usize, act: impl FnOnce() -> T) -> T {
    // The limit applies to the number that a file gets, and there may be free numbers between those
    // in use.
    let in_use = |number: &u64| fs::exists(format!("/proc/self/fd/{number}")).unwrap();
    let limit = (0..).filter(|number| !in_use(number)).nth(more).unwrap();
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the structure.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) }, 0);
    let few = libc::rlimit { rlim_cur: limit, ..before };
    // SAFETY: a soft limit below the hard one, restored below.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const few) }, 0);
    let result = act();
    // SAFETY: the previous limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const before) }, 0);
    result
}

fn a_vcpu_that_kvm_refuses_ends_the_run() {
    // Each vCPU is a file. This limit suffices for the machine and some of its vCPUs, but not for
    // all.
    let error = with_few_files(8, || error(&config(32, 2), |_| ()));
    let text = error.to_string();
    assert!(matches!(error, Error::Refused { vcpu: 1..32, .. }), "{text}");
    assert!(text.contains("refused to create it") && text.contains("open files"), "{text}");
    assert_eq!(vcpu_threads(), 0);
    // Nothing was left open either, so the next run works.
    let program = Body(|_: ThisVcpu<Ports>| {});
    with_few_files(8, || KvmEngine.run(&config(2, 2), &program)).unwrap();
}

#[test]
fn threads_and_cpu_time_are_accounted_for() {
    if available("threads_and_cpu_time_are_accounted_for") {
        a_broken_run_leaves_no_thread();
        cpu_time_is_that_of_the_pcpus();
        a_vcpu_that_kvm_refuses_ends_the_run();
    }
}
