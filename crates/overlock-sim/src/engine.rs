//! The engine of both machines: time, the heap of events, the coroutines of CPUs, and their cells.
//!
//! It knows neither faults nor costs. [`crate::machine`] adds faults and oracles;
//! [`crate::hosts`] adds the costs of cache lines and the scheduler of `overlock_vcpu::host`.
//!
//! # State
//! A CPU is a coroutine with a clock of its own, which the machine keeps. The engine keeps the
//! machine's time, `now`, and a heap of what is to happen: CPUs that continue, and whatever else
//! the machine plans. Before something that others can see, a CPU asks whether it is its turn
//! ([`Core::has_turn`]). If nothing else is due before the CPU's own clock, that needs no change of
//! coroutine; otherwise the CPU plans to continue then, and lets others run ([`suspend`]).
//!
//! # Invariants
//! - V1: time never goes back. Events at equal times happen in the order in which they were
//!   planned: the seed alone determines a run.
//! - V2: a CPU has at most one valid plan. A new plan, or its withdrawal, makes the old one void.
//! - V3: the machine is borrowed for a moment at a time, never across a change of coroutine.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

mod core;
mod fiber;
mod heap;
mod machine;
mod region;
mod word;

pub(crate) use self::core::Core;
pub(crate) use fiber::suspend;
pub(crate) use machine::{Home, Machine, is_on_host, with};
pub(crate) use region::Region;
pub(crate) use word::{Access, Cost, Observer, Touch, Word};

/// Runs a machine until it is over, or nothing is planned. CPUs that have not ended by then are
/// unwound; whatever they do meanwhile takes no time. The error is the panic of a CPU, or of the
/// machine.
pub(crate) fn run<M: Machine>(machine: &mut M, cpus: usize) -> Result<(), Box<dyn Any + Send>> {
    fiber::during(machine, cpus, |fibers| {
        catch_unwind(AssertUnwindSafe(|| {
            with(M::start);
            while let Some(cpu) = with(next::<M>) {
                if fibers.resume(cpu) {
                    with(M::ended);
                }
            }
        }))
    })
}

pub(crate) fn message(panic: &(dyn Any + Send)) -> Option<String> {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
}

/// The CPU whose coroutine continues next.
#[inline]
fn next<M: Machine>(machine: &mut M) -> Option<u32> {
    while !machine.is_over() {
        match machine.core().next()? {
            core::Due::Cpu(cpu) => {
                if machine.is_due(cpu) {
                    machine.core().current = cpu;
                    return Some(cpu);
                }
            }
            core::Due::Event(event) => machine.happens(event),
            core::Due::Void => {}
        }
    }
    None
}
