//! What the engine asks of a machine, and the way from a CPU to its machine.

use std::cell::Cell;
use std::ptr;

use corosensei::Yielder;

use super::core::Core;

pub(crate) trait Machine: Sized {
    /// What happens to the machine without a CPU's doing.
    type Event: Copy;

    /// Passes on the home of this OS thread's machine.
    fn home<R>(visit: impl FnOnce(&Home<Self>) -> R) -> R;

    /// The engine's part of the machine.
    fn core(&mut self) -> &mut Core<Self::Event>;

    /// Plans the first events.
    fn start(&mut self);

    /// Whether the run is over, though more may be planned.
    fn is_over(&mut self) -> bool;

    /// The time of a CPU's plan has come. Returns whether the CPU's coroutine continues.
    fn is_due(&mut self, cpu: u32) -> bool;

    fn happens(&mut self, event: Self::Event);

    /// The program of the current CPU has returned.
    fn ended(&mut self);

    /// The program of a CPU, on its coroutine.
    fn program(cpu: u32);
}

/// Borrows the machine of this OS thread.
///
/// # Panics
/// If there is none.
#[inline]
pub(crate) fn with<M: Machine, R>(call: impl FnOnce(&mut M) -> R) -> R {
    let machine = M::home(|home| home.machine.get());
    assert!(!machine.is_null(), "only the CPUs of a run may do this");
    // SAFETY: `run` has set the pointer to the machine that it borrows until it returns, and
    // accesses the machine only through here. There is one thread, and no call is made within
    // another (V3): while a machine lets its program answer, the program may use only cells, which
    // then leave the machine alone (`is_on_host`).
    call(unsafe { &mut *machine })
}

/// Whether no CPU runs: the machine itself does, or nothing. Accesses then take no time.
#[inline]
pub(crate) fn is_on_host<M: Machine>() -> bool {
    M::home(|home| home.on_host.get())
}

/// The yielder of a CPU's coroutine.
pub(super) type Handle = Cell<*const Yielder<(), ()>>;

/// Where an OS thread keeps the machine that it runs.
#[derive(Debug)]
pub(crate) struct Home<M> {
    pub(super) machine: Cell<*mut M>,
    pub(super) on_host: Cell<bool>,
    pub(super) handles: Cell<*const Handle>,
}

impl<M> Home<M> {
    pub(crate) const fn empty() -> Self {
        let (machine, handles) = (Cell::new(ptr::null_mut()), Cell::new(ptr::null()));
        Self { machine, on_host: Cell::new(true), handles }
    }

    /// Lets the machine ask its program something.
    pub(crate) fn ask<R>(&self, question: impl FnOnce() -> R) -> R {
        let before = self.on_host.replace(true);
        let answer = question();
        self.on_host.set(before);
        answer
    }
}
