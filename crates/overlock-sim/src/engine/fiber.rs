//! The coroutines of CPUs, and the way from them back to the machine.

use std::cell::{Cell, RefCell};
use std::ptr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use super::machine::{Handle, Machine, with};

/// Room for a workload, or five nested contexts of a lock under test, unoptimised.
const STACK: usize = 256 << 10;

type Fiber = Coroutine<(), (), (), DefaultStack>;

thread_local! {
    /// Stacks of coroutines that have ended, for the next run.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// The coroutines of a run.
pub(super) struct Fibers<M> {
    fibers: Vec<Fiber>,
    machine: std::marker::PhantomData<M>,
}

impl<M: Machine> Fibers<M> {
    /// Lets a CPU continue. Returns whether its program has returned.
    #[inline]
    pub(super) fn resume(&mut self, cpu: u32) -> bool {
        M::home(|home| home.on_host.set(false));
        let result = self.fibers[cpu as usize].resume(());
        M::home(|home| home.on_host.set(true));
        matches!(result, CoroutineResult::Return(()))
    }
}

impl<M> Drop for Fibers<M> {
    fn drop(&mut self) {
        for fiber in self.fibers.drain(..) {
            // The others are unwound.
            if fiber.done() {
                STACKS.with_borrow_mut(|stacks| stacks.push(fiber.into_stack()));
            }
        }
    }
}

/// Makes `machine` this thread's, with coroutines for its CPUs, during `run`.
pub(super) fn during<M: Machine, R>(
    machine: &mut M,
    cpus: usize,
    run: impl FnOnce(&mut Fibers<M>) -> R,
) -> R {
    let handles: Vec<Handle> = (0..cpus).map(|_| Cell::new(ptr::null())).collect();
    M::home(|home| {
        assert!(home.machine.get().is_null(), "a machine runs within another");
        home.machine.set(ptr::from_mut(machine));
        home.handles.set(handles.as_ptr());
    });
    let fibers = (0..cpus as u32).map(start::<M>).collect();
    let mut fibers = Fibers { fibers, machine: std::marker::PhantomData };
    let result = run(&mut fibers);
    M::home(|home| home.on_host.set(true));
    drop(fibers);
    M::home(|home| {
        home.machine.set(ptr::null_mut());
        home.handles.set(ptr::null());
    });
    result
}

fn start<M: Machine>(cpu: u32) -> Fiber {
    let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
        DefaultStack::new(STACK).expect("there is address space for the stack of a coroutine")
    });
    Fiber::with_stack(stack, move |yielder, ()| {
        handle::<M>(cpu).set(ptr::from_ref(yielder));
        M::program(cpu);
    })
}

/// The cell that holds the yielder of a CPU.
fn handle<M: Machine>(cpu: u32) -> &'static Handle {
    let handles = M::home(|home| home.handles.get());
    // SAFETY: `during` keeps one cell for each CPU while there are coroutines, and only they ask.
    unsafe { &*handles.add(cpu as usize) }
}

/// Lets others run until the machine continues the current CPU, which calls this.
#[inline]
pub(crate) fn suspend<M: Machine>() {
    let yielder = handle::<M>(with(|m: &mut M| m.core().current)).get();
    // SAFETY: this is that CPU's coroutine, whose yielder lives on its own stack for as long as it
    // runs.
    unsafe { &*yielder }.suspend(());
}
