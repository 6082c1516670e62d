//! Does every way to fail end in one clear error?

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Duration;

use crate::support::{Body, config, error};
use crate::until;
use overlock_bench::Engine as _;
use overlock_vcpu::lab::{Error, KvmEngine, Ports, RunConfig, ThisVcpu};

crate::on_kvm!(
    a_null_pointer_names_vcpu_and_function,
    a_panic_names_vcpu_and_function,
    an_abort_names_the_function,
    a_stack_overflow_is_a_fault,
    a_runaway_is_ended_and_named,
    a_halt_without_a_kick_is_named,
    a_fault_ends_the_vcpus_that_wait_for_the_faulty_one,
    a_fault_leaves_the_next_run_alone,
    a_fault_amid_evictions_is_a_fault,
    nonsense_is_refused,
    a_system_call_is_named,
    a_thread_local_is_named,
);

#[inline(never)]
fn follows_a_null_pointer(pointer: *const u64) -> u64 {
    // SAFETY: none; that is the test.
    unsafe { pointer.read_volatile() }
}

fn a_null_pointer_names_vcpu_and_function() {
    let error = error(&config(2, 2), |vcpu| {
        if vcpu.number() == 1 {
            black_box(follows_a_null_pointer(black_box(std::ptr::null::<u64>().wrapping_add(1))));
        }
    });
    let text = error.to_string();
    assert!(matches!(error, Error::Fault { vcpu: 1, .. }), "{text}");
    assert!(text.contains("null pointer (address 0x8)"), "{text}");
    assert!(text.contains("follows_a_null_pointer"), "{text}");
}

#[inline(never)]
fn looks_behind_the_end(values: &[u32], at: usize) -> u32 {
    values[at]
}

fn a_panic_names_vcpu_and_function() {
    let error = error(&config(2, 2), |vcpu| {
        if vcpu.number() == 1 {
            black_box(looks_behind_the_end(&[1, 2, 3], black_box(3)));
        }
    });
    let text = error.to_string();
    assert!(matches!(error, Error::Panicked { vcpu: 1, .. }), "{text}");
    assert!(text.lines().nth(1).unwrap().contains("looks_behind_the_end"), "{text}");
}

#[inline(never)]
fn gives_up() {
    // SAFETY: ends the program; that is the test.
    unsafe { std::arch::asm!("ud2") };
}

fn an_abort_names_the_function() {
    let error = error(&config(1, 1), |_| gives_up());
    let text = error.to_string();
    assert!(text.contains("ud2") && text.contains("gives_up"), "{text}");
}

#[inline(never)]
fn recurses(depth: u64) -> u64 {
    let frame = [depth; 512];
    if black_box(&frame)[7] == u64::MAX { 0 } else { recurses(depth + 1) + frame[1] }
}

fn a_stack_overflow_is_a_fault() {
    let error = error(&config(1, 1), |_| {
        black_box(recurses(black_box(0)));
    });
    let text = error.to_string();
    assert!(matches!(error, Error::Fault { vcpu: 0, .. }), "{text}");
    assert!(text.contains("recurses"), "{text}");
}

#[inline(never)]
fn never_stops() {
    while black_box(true) {}
}

fn a_runaway_is_ended_and_named() {
    let mut config = config(3, 2);
    config.duration = Duration::from_millis(20);
    let stuck = |error: &Error| {
        let Error::Runaway { stuck, .. } = error else { panic!("{error}") };
        stuck.iter().map(|stuck| stuck.vcpu).collect::<Vec<_>>()
    };
    // The others stop as soon as they have a processor.
    let run = |factor| {
        config.grace = Duration::from_millis(50) * factor;
        error(&config, |vcpu| {
            if vcpu.number() == 1 {
                never_stops();
            }
            while !vcpu.stopping() {}
        })
    };
    // On a busy machine the time may be over before a vCPU begins.
    let begun = |error: &Error| error.to_string().contains("never_stops");
    let error = until(run, |error| stuck(error).len() == 1 && begun(error));
    let text = error.to_string();
    assert_eq!(stuck(&error), [1], "{text}");
    assert!(text.contains("was running") && text.contains("never_stops"), "{text}");
}

#[inline(never)]
fn waits_for_ever(vcpu: ThisVcpu<Ports>) {
    let word = AtomicU32::new(0);
    while word.load(Relaxed) == 0 {
        vcpu.halt_unless(&word, 0, None);
    }
}

fn a_halt_without_a_kick_is_named() {
    let mut config = config(2, 2);
    config.duration = Duration::from_millis(20);
    config.grace = Duration::from_millis(50);
    let text = error(&config, |vcpu| {
        if vcpu.number() == 1 {
            waits_for_ever(vcpu);
        }
    })
    .to_string();
    assert!(text.contains("vCPU 1 was halted") && text.contains("waits_for_ever"), "{text}");
}

fn a_fault_ends_the_vcpus_that_wait_for_the_faulty_one() {
    // One spins, one waits for a processor, one is halted; none of them would ever stop.
    let error = error(&config(4, 2), |vcpu| match vcpu.number() {
        0 => {
            vcpu.work_ns(5_000_000);
            black_box(follows_a_null_pointer(black_box(std::ptr::null::<u64>().wrapping_add(1))));
        }
        1 => waits_for_ever(vcpu),
        _ => never_stops(),
    });
    assert!(matches!(error, Error::Fault { vcpu: 0, .. }), "{error}");
}

fn a_fault_leaves_the_next_run_alone() {
    for _ in 0..3 {
        let _ = error(&config(2, 1), |_| gives_up());
        let reached = AtomicU32::new(0);
        let program = Body(|_: ThisVcpu<Ports>| {
            reached.fetch_add(1, Relaxed);
        });
        KvmEngine.run(&config(2, 1), &program).unwrap();
        assert_eq!(reached.into_inner(), 2);
    }
}

/// The signal that takes a vCPU's processor may come at any instruction.
fn a_fault_amid_evictions_is_a_fault() {
    for round in 0..50 {
        let slice = Duration::from_micros(50);
        let config = RunConfig { slice, ..config(3, 1) };
        let error = error(&config, |vcpu| {
            vcpu.work_ns(1000 * (u64::from(vcpu.number()) + round));
            black_box(recurses(black_box(0)));
        });
        let text = error.to_string();
        assert!(matches!(error, Error::Fault { .. }), "{text}");
        assert!(text.contains("recurses"), "{text}");
    }
}

fn nonsense_is_refused() {
    for (vcpus, pcpus) in [(0, 1), (1, 0), (10_000, 1)] {
        let error = error(&config(vcpus, pcpus), |_| ());
        assert!(matches!(error, Error::Config(_)), "{error}");
    }
    for nonsense in [
        RunConfig { slice: Duration::ZERO, ..RunConfig::new(1, 1) },
        RunConfig { sample_every: Some(Duration::ZERO), ..RunConfig::new(1, 1) },
    ] {
        assert!(matches!(error(&nonsense, |_| ()), Error::Config(_)));
    }
}

fn a_system_call_is_named() {
    let text = error(&config(1, 1), |_| {
        // SAFETY: takes no arguments.
        black_box(unsafe { libc::getppid() });
    })
    .to_string();
    assert!(text.contains(&format!("system call {}", libc::SYS_getppid)), "{text}");
    assert!(text.contains("getppid"), "{text}");
}

thread_local! {
    static LOCAL: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[inline(never)]
fn uses_a_thread_local() {
    LOCAL.set(LOCAL.get() + 1);
}

fn a_thread_local_is_named() {
    let text = error(&config(1, 1), |_| uses_a_thread_local()).to_string();
    assert!(text.contains("thread-local") && text.contains("uses_a_thread_local"), "{text}");
}
