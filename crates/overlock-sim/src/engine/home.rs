//! Where an OS thread keeps what it runs.

use std::cell::Cell;
use std::ptr;

use corosensei::Yielder;

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

    #[inline]
    pub(super) fn machine(&self) -> *mut M {
        self.machine.get()
    }

    #[inline]
    pub(super) fn is_on_host(&self) -> bool {
        self.on_host.get()
    }

    /// Lets the machine ask its program something.
    pub(crate) fn ask<R>(&self, question: impl FnOnce() -> R) -> R {
        let before = self.on_host.replace(true);
        let answer = question();
        self.on_host.set(before);
        answer
    }
}
