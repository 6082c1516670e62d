//! Is each interrupt delivered once, without a trace in the code that it interrupts?

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::support::config;
use overlock_bench::Engine as _;
use overlock_vcpu::lab::{KvmEngine, Ports, Program, ThisVcpu};

crate::on_kvm!(
    a_spinning_vcpu_gets_each_interrupt_once,
    an_interrupt_ends_a_halt,
    interrupts_and_preemption_mix,
);

/// vCPU 0 sends, the others compute and answer.
#[derive(Default)]
struct Ring {
    answers: [AtomicU64; 4],
    sent: u64,
    numbers: AtomicU32,
    halt: bool,
    sum: [AtomicU64; 4],
}

impl Ring {
    fn new(sent: u64, halt: bool) -> Self {
        Self { sent, halt, ..Self::default() }
    }

    fn answered(&self, vcpus: u32, at_least: u64) -> bool {
        (1..vcpus as usize).all(|vcpu| self.answers[vcpu].load(SeqCst) >= at_least)
    }
}

/// A sum that uses integer, vector and flag registers in every step.
#[inline(never)]
fn compute(steps: u64) -> f64 {
    (0..steps).fold(0.0, |sum, step| {
        let term = black_box(step as f64).sqrt();
        if step % 3 == 0 { sum - term } else { sum + term }
    })
}

const STEPS: u64 = 20_000;

impl Program<Ports> for Ring {
    fn run(&self, vcpu: ThisVcpu<Ports>) {
        let word = AtomicU32::new(0);
        if vcpu.number() != 0 {
            let expected = compute(STEPS);
            while !self.answered(vcpu.count(), self.sent) && !vcpu.stopping() {
                if self.halt {
                    vcpu.halt_unless(&word, 0, Some(vcpu.now_ns() + 10_000_000));
                } else {
                    let wrong = compute(STEPS).to_bits() != expected.to_bits();
                    self.sum[vcpu.number() as usize].fetch_add(u64::from(wrong), Relaxed);
                }
            }
            return;
        }
        for round in 1..=self.sent {
            for target in 1..vcpu.count() {
                vcpu.interrupt(target, (round % 32) as u32);
            }
            while !self.answered(vcpu.count(), round) && !vcpu.stopping() {
                std::hint::spin_loop();
            }
        }
    }

    fn interrupt(&self, vcpu: ThisVcpu<Ports>, number: u32) {
        // Leaves other values in the registers that the interrupted computation uses.
        black_box(compute(10) + f64::from(number));
        self.numbers.fetch_or(1 << number, Relaxed);
        self.answers[vcpu.number() as usize].fetch_add(1, SeqCst);
    }
}

fn check(ring: Ring, vcpus: u32, pcpus: u32) {
    let outcome = KvmEngine.run(&config(vcpus, pcpus), &ring).unwrap();
    for vcpu in 1..vcpus as usize {
        assert_eq!(ring.answers[vcpu].load(Relaxed), ring.sent, "vCPU {vcpu}: {outcome:?}");
        assert_eq!(ring.sum[vcpu].load(Relaxed), 0, "vCPU {vcpu}'s registers changed");
    }
    assert_eq!(ring.numbers.load(Relaxed), u32::MAX);
    assert_eq!(outcome.vcpus[0].interrupts, ring.sent * u64::from(vcpus - 1));
}

fn a_spinning_vcpu_gets_each_interrupt_once() {
    check(Ring::new(300, false), 2, 2);
}

fn an_interrupt_ends_a_halt() {
    check(Ring::new(100, true), 2, 2);
}

fn interrupts_and_preemption_mix() {
    check(Ring::new(60, false), 4, 2);
}
