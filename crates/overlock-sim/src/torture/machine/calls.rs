//! How code on a CPU of the machine, a coroutine, calls the machine beneath it.
//!
//! Each call borrows the machine for a moment: see [`engine`](crate::engine).

use std::panic::{self, AssertUnwindSafe, Location};

use overlock::counters::Event as Counter;
use overlock::platform::{Bucket, Cpu, Slot};

use super::{AtStep, Status, TorturedMachine};
use crate::engine::{self, Cost, Observer, Touch};
use crate::torture::arena::Arena;
use crate::torture::failure::Property;
use crate::torture::faults::Fault;
pub(crate) use crate::torture::memory::{Injected, Word};
use crate::torture::trace::What;

/// The cost of asking for the time or of yielding to another CPU, in nanoseconds.
const CALL_NS: u64 = 5;

/// Runs a machine until all CPUs have finished or an oracle has failed.
pub(crate) fn enter(mut machine: TorturedMachine) -> TorturedMachine {
    let cpus = machine.cpus.len();
    if let Err(panic) = engine::run(&mut machine, cpus) {
        machine.fail(None, Property::Panic, engine::message(&*panic).unwrap_or_default());
    }
    machine
}

/// Borrows the machine of this thread.
pub(crate) fn with<R>(call: impl FnOnce(&mut TorturedMachine) -> R) -> R {
    engine::with(call)
}

/// Lets other CPUs run until the machine picks this one again.
pub(super) fn suspend() {
    engine::suspend::<TorturedMachine>();
}

/// Whether the run is over, and coroutines that have not ended are being unwound.
pub(super) fn is_stopping() -> bool {
    engine::is_on_host::<TorturedMachine>()
}

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

/// What a wait is left by that is cancelled.
struct Thrown;

/// Ends the wait of the current CPU by a panic, if it is to be cancelled.
pub(crate) fn may_cancel() {
    if with(TorturedMachine::wait_is_cancelled) {
        with(|m| m.note_fault(Fault::Cancelled));
        panic::resume_unwind(Box::new(Thrown));
    }
}

pub(crate) fn cancellable<R>(wait: impl FnOnce() -> R) -> Option<R> {
    match panic::catch_unwind(AssertUnwindSafe(wait)) {
        Ok(result) => Some(result),
        Err(thrown) if thrown.is::<Thrown>() => None,
        Err(other) => panic::resume_unwind(other),
    }
}

/// Runs a handler on top of whatever this CPU is doing.
pub(super) fn interrupt() {
    let (handler, level) = with(|m| {
        m.note_fault(Fault::Interrupt);
        m.add(m.cpu(), What::Interrupt);
        let cpu = m.me();
        cpu.level += 1;
        let level = usize::from(cpu.level);
        (m.program.handler, level)
    });
    handler(level);
    with(|m| {
        let cpu = m.me();
        cpu.level -= 1;
        cpu.cut_off = true;
    });
}

/// Records that the current CPU begins a sequence.
pub(crate) fn begin_sequence() {
    with(|m| m.me().cut_off = false);
}

/// Whether the sequence that the current CPU began last has been cut off.
pub(crate) fn is_cut_off() -> bool {
    is_stopping() || with(|m| m.cpus[m.cpu()].cut_off)
}

/// Cuts off the sequences of all CPUs: a sequence that is under way will not store. This takes
/// anything from a moment to twenty wake-ups.
pub(crate) fn membarrier(site: &'static Location<'static>) {
    step(site);
    spend(with(|m| m.rng.magnitude(100_000)));
    with(|m| m.cpus.iter_mut().for_each(|cpu| cpu.cut_off = true));
}

impl Cost for Injected {
    type Charged = ();

    fn charge(touch: &Touch) {
        step_onto(touch.site, Some(Arena::offset(touch.address)));
    }
}

impl Observer for Injected {
    fn sees(&Touch { address, site, .. }: &Touch, (): (), old: u32, new: Option<u32>) {
        if is_stopping() {
            return;
        }
        let offset = Arena::offset(address);
        let failed = with(|m| {
            m.add(m.cpu(), What::Access { site, offset, old, new });
            m.tally.takeovers += u64::from(m.is_takeover(site, offset, old, new));
            m.watch(offset, old, new);
            m.failure.is_some()
        });
        if failed {
            suspend();
        }
    }

    fn number(address: usize, value: u32) -> u32 {
        if is_stopping() { value } else { with(|m| m.number(Arena::offset(address), value)) }
    }
}

pub(crate) fn relax() {
    spend(with(|m| m.world.relax_ns));
}

pub(crate) fn nap(ns: u64) {
    with(|m| {
        m.add(m.cpu(), What::Naps { ns });
        m.lose(Status::Napping { until: m.core.now + ns });
    });
    suspend();
}

pub(crate) fn number() -> Option<usize> {
    with(|m| number_of(m))
}

fn number_of(m: &TorturedMachine) -> Option<usize> {
    m.cpus[m.cpu()].number
}

/// The clock of the running CPU.
pub(crate) fn now_ns() -> u64 {
    spend(CALL_NS);
    with(|m| m.core.now + m.cpus[m.cpu()].skew)
}

pub(crate) fn count(event: Counter) {
    with(|m| m.tally.events[event as usize] += 1);
}

pub(crate) fn slot(cpu: Cpu) -> &'static Slot<Word<u32>> {
    with(|m| {
        let index = m.cpus.iter().position(|state| state.number == Some(cpu.index()));
        let index = index.unwrap_or_else(|| panic!("there is no CPU number {}", cpu.index()));
        m.memory.slots[index]
    })
}

pub(crate) fn waiters() -> &'static [Bucket<Word<u32>>] {
    with(|m| m.memory.table)
}
