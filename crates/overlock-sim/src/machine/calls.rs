// SPDX-License-Identifier: MIT OR Apache-2.0
//! How code on a CPU of the machine, a coroutine, calls the machine beneath it.
//!
//! A machine belongs to the OS thread that runs it. Each call borrows it for a moment and never
//! across a change of coroutine.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use overlock::counters::Event as Counter;
use overlock::{Bucket, Cpu, Slot};

use super::{AtStep, Machine, Status};
use crate::failure::Oracle;
use crate::faults::Fault;
use crate::platform::{Inject, Waiting};
use crate::run;
use crate::trace::What;
use crate::world::CPUS;

/// Room for five nested contexts, unoptimised.
const STACK: usize = 256 << 10;
/// The cost of asking for the time or of yielding to another CPU, in nanoseconds.
const CALL_NS: u64 = 5;

type Fiber = Coroutine<(), (), (), DefaultStack>;

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
    /// Whether the run is over, and coroutines that have not ended are being unwound.
    static STOPPING: Cell<bool> = const { Cell::new(false) };
    static YIELDERS: [Cell<*const Yielder<(), ()>>; CPUS] =
        const { [const { Cell::new(ptr::null()) }; CPUS] };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Runs a machine until all CPUs have finished or an oracle has failed.
pub(crate) fn enter(machine: Machine) -> Machine {
    let cpus = machine.cpus.len();
    MACHINE.set(Some(machine));
    let mut fibers: Vec<Fiber> = (0..cpus).map(start).collect();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        while let Some(cpu) = with(Machine::pick) {
            if let CoroutineResult::Return(()) = fibers[cpu].resume(()) {
                with(|m| m.lose(Status::Done));
            }
        }
    }));
    if let Err(panic) = ran {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        with(|m| m.fail(None, Oracle::Panic, text.unwrap_or_default()));
    }
    STOPPING.set(true);
    for fiber in fibers {
        if fiber.done() {
            STACKS.with_borrow_mut(|stacks| stacks.push(fiber.into_stack()));
        }
    }
    STOPPING.set(false);
    MACHINE.take().expect("nobody else takes the machine")
}

fn start(cpu: usize) -> Fiber {
    let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
        DefaultStack::new(STACK).expect("there is address space for the stack of a coroutine")
    });
    Fiber::with_stack(stack, move |yielder, ()| {
        YIELDERS.with(|yielders| yielders[cpu].set(ptr::from_ref(yielder)));
        run::task(cpu);
    })
}

/// Borrows the machine of this thread.
pub(crate) fn with<R>(call: impl FnOnce(&mut Machine) -> R) -> R {
    MACHINE.with_borrow_mut(|machine| {
        call(machine.as_mut().expect("locks of this platform are used inside a run only"))
    })
}

/// Lets other CPUs run until the machine picks this one again.
pub(super) fn suspend() {
    let cpu = with(|m| m.current);
    let yielder = YIELDERS.with(|yielders| yielders[cpu].get());
    // SAFETY: this is CPU `cpu`'s coroutine, whose yielder lives on its own stack for as long as it
    // runs.
    let yielder = unsafe { &*yielder };
    yielder.suspend(());
}

pub(super) fn is_stopping() -> bool {
    STOPPING.get()
}

/// Spends time.
pub(crate) fn spend(ns: u64) {
    if !is_stopping() && with(|m| m.pass(ns)) {
        suspend();
    }
}

/// Spends time on something other than locks; faults may hit this CPU before and after.
pub(crate) fn compute(ns: u64) {
    step(Location::caller());
    spend(ns);
    step(Location::caller());
}

/// A step: time passes, other CPUs may come first, and a fault may hit this CPU.
pub(crate) fn step(site: &'static Location<'static>) {
    step_onto(site, None);
}

/// A step before an access at the given offset.
pub(crate) fn step_onto(site: &'static Location<'static>, offset: Option<u32>) {
    if is_stopping() {
        return;
    }
    let others_first = with(|m| {
        let ns = m.world.step.draw(&mut m.rng);
        m.pass(ns)
    });
    if others_first {
        suspend();
    }
    match with(|m| m.hit(site, offset)) {
        AtStep::Nothing => {}
        AtStep::Suspend => suspend(),
        AtStep::Interrupt => interrupt(),
    }
}

/// Runs a handler on top of whatever this CPU is doing.
pub(super) fn interrupt() {
    let level = with(|m| {
        m.note_fault(Fault::Interrupt);
        m.add(m.current, What::Interrupt);
        let cpu = &mut m.cpus[m.current];
        cpu.level += 1;
        usize::from(cpu.level)
    });
    run::handler(level);
    with(|m| {
        let cpu = &mut m.cpus[m.current];
        cpu.level -= 1;
        cpu.cut_off = true;
    });
}

/// Records that the current CPU begins a sequence.
pub(crate) fn begin_sequence() {
    with(|m| m.cpus[m.current].cut_off = false);
}

/// Whether the sequence that the current CPU began last has been cut off.
pub(crate) fn is_cut_off() -> bool {
    is_stopping() || with(|m| m.cpus[m.current].cut_off)
}

/// Cuts off the sequences of all CPUs: a sequence that is under way will not store. This takes
/// anything from a moment to twenty wake-ups.
pub(crate) fn membarrier(site: &'static Location<'static>) {
    step(site);
    spend(with(|m| m.rng.magnitude(100_000)));
    with(|m| m.cpus.iter_mut().for_each(|cpu| cpu.cut_off = true));
}

/// Reports an access that has just been made to the machine.
pub(crate) fn accessed(site: &'static Location<'static>, offset: u32, old: u32, new: Option<u32>) {
    if is_stopping() {
        return;
    }
    let failed = with(|m| {
        m.add(m.current, What::Access { site, offset, old, new });
        m.tally.takeovers += u64::from(m.is_takeover(site, offset, old, new));
        m.watch(offset, old, new);
        m.failure.is_some()
    });
    if failed {
        suspend();
    }
}

pub(crate) fn relax() {
    spend(with(|m| m.world.relax_ns));
}

pub(crate) fn nap(ns: u64) {
    with(|m| {
        m.add(m.current, What::Naps { ns });
        m.lose(Status::Napping { until: m.now + ns });
    });
    suspend();
}

/// Gives this CPU's processor to CPU number `number`, or to the CPU that has waited longest for
/// one.
pub(crate) fn yield_to(number: Option<usize>) {
    spend(CALL_NS);
    let given = with(|m| {
        let place = match number {
            Some(number) => m.ready.iter().position(|&cpu| m.cpus[cpu].number == Some(number)),
            None => (!m.ready.is_empty()).then_some(0),
        };
        let Some(next) = place.and_then(|place| m.ready.remove(place)) else { return false };
        m.ready.push_front(next);
        m.add(m.current, What::Ready);
        m.lose(Status::Ready);
        true
    });
    if given {
        suspend();
    }
}

/// The number of the running CPU.
pub(crate) fn number() -> Option<usize> {
    with(|m| m.cpus[m.current].number)
}

/// The clock of the running CPU.
pub(crate) fn now_ns() -> u64 {
    spend(CALL_NS);
    with(|m| m.now + m.cpus[m.current].skew)
}

/// Counts an event that a lock reports.
pub(crate) fn count(event: Counter) {
    with(|m| m.tally.events[event as usize] += 1);
}

/// The slot of a CPU.
pub(crate) fn slot<W: Waiting>(cpu: Cpu) -> &'static Slot<Inject<W>> {
    let slot = with(|m| {
        let index = m.cpus.iter().position(|state| state.number == Some(cpu.index()));
        let index = index.unwrap_or_else(|| panic!("there is no CPU number {}", cpu.index()));
        m.memory.slots[index]
    });
    // SAFETY: `Subject::lay_out` has put a slot of this platform there for this run, and a subject
    // has only one platform.
    unsafe { &*slot.cast::<Slot<Inject<W>>>() }
}

/// The table of waiters.
pub(crate) fn waiters<W: Waiting>() -> &'static [Bucket<Inject<W>>] {
    let (table, buckets) = with(|m| (m.memory.table, m.memory.buckets));
    // SAFETY: `Subject::lay_out` has put this many buckets of this platform there for this run.
    unsafe { std::slice::from_raw_parts(table.cast::<Bucket<Inject<W>>>(), buckets) }
}
