//! Does each turn of a vCPU make some progress, however long the way into the guest takes? A file
//! of its own, because the way is longer for the whole process.

#[path = "engines/support.rs"]
mod support;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use overlock_bench::Engine as _;
use overlock_vcpu::lab::{Error, KvmEngine, Ports, RunConfig, SLOW_ENTRY_NS, ThisVcpu};
use support::{Body, available, config, error};

#[test]
fn slices_shorter_than_the_way_into_the_guest() {
    if !available("slices_shorter_than_the_way_into_the_guest") {
        return;
    }
    let slice = Duration::from_micros(50);
    for slow_us in [0, 200, 2_000] {
        SLOW_ENTRY_NS.store(slow_us * 1_000, Relaxed);
        let config = RunConfig { slice, grace: Duration::from_secs(60), ..config(3, 1) };
        let reached = AtomicU32::new(0);
        let program = Body(|vcpu: ThisVcpu<Ports>| {
            (0..10).for_each(|_| vcpu.work_ns(10_000));
            reached.fetch_add(1, Relaxed);
        });
        let ended = KvmEngine.run(&config, &program);
        assert!(ended.is_ok(), "{slow_us} us: {}", ended.unwrap_err());
        assert_eq!(reached.into_inner(), 3);
    }
    // Two thousand slices are not enough.
    SLOW_ENTRY_NS.store(150_000_000, Relaxed);
    let config = RunConfig { slice, ..config(2, 1) };
    let error = error(&config, |vcpu| vcpu.work_ns(1));
    assert!(matches!(error, Error::SliceTooShort { .. }), "{error}");
    assert!(error.to_string().contains("a slice of 50µs is too short"), "{error}");
}
