//! The atomic cell of both machines.
//!
//! All CPUs of a run share one OS thread and see each other's accesses one after the other. So an
//! access needs no atomic instruction, and memory is sequentially consistent whatever ordering is
//! asked for; weaker memory is the model checker's task. Each access is a possible change of
//! coroutine: before it, its [`Cost`] lets time pass; after it, an [`Observer`] sees it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::Ordering;

use overlock::atomic::{Atomic, ConstAtomic};

/// What an operation does to its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    Store,
    /// It reads and writes in one step.
    ReadModifyWrite,
}

#[derive(Clone, Copy, Debug)]
pub struct Touch {
    pub(crate) address: usize,
    pub(crate) access: Access,
    pub(crate) order: Ordering,
    /// The line of source that makes it.
    pub(crate) site: &'static Location<'static>,
}

pub trait Cost: 'static {
    /// What the observer has to know about the charge.
    type Charged: Copy;

    /// Lets the time of the access pass, and returns when it is the CPU's turn to make it.
    fn charge(touch: &Touch) -> Self::Charged;
}

/// What happens because of accesses.
pub trait Observer: Cost {
    /// The access has been made: it found `old`, and wrote `new`.
    fn sees(touch: &Touch, charged: Self::Charged, old: u32, new: Option<u32>);

    /// What is written, or compared with, in place of `value`: another value where a subject is
    /// wrong on purpose.
    #[inline]
    fn number(_address: usize, value: u32) -> u32 {
        value
    }
}

/// An atomic cell holding a `T`, whose accesses cost what `W` says and are seen by it.
#[repr(transparent)]
pub struct Word<T, W>(Cell<T>, PhantomData<fn() -> W>);

impl<T, W> std::fmt::Debug for Word<T, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Word").finish_non_exhaustive()
    }
}

// SAFETY: the CPUs of a run are coroutines of one OS thread, which also creates and drops what they
// share. A cell in use lies in memory whose users run one after the other, each on one OS thread;
// other code sees it before or after the run.
unsafe impl<T: Send, W> Sync for Word<T, W> {}

impl<T: Default, W> Default for Word<T, W> {
    fn default() -> Self {
        Self(Cell::new(T::default()), PhantomData)
    }
}

impl<T: Copy, W> Word<T, W> {
    /// A cell with the value that it has before a run.
    pub(crate) const fn holding(value: T) -> Self {
        Self(Cell::new(value), PhantomData)
    }

    /// Reads without an access, on behalf of the machine itself or an oracle.
    pub(crate) fn peek(&self) -> T {
        self.0.get()
    }

    pub(crate) fn poke(&self, value: T) {
        self.0.set(value);
    }

    pub(crate) fn address(&self) -> usize {
        (&raw const self.0).addr()
    }
}

impl<T: Copy + Into<u32>, W: Observer> Word<T, W> {
    #[inline]
    pub(crate) fn number(&self, value: T) -> u32 {
        W::number(self.address(), value.into())
    }

    /// Makes one access, which writes if `change` returns a new value. Every operation comes down
    /// to this.
    #[inline]
    #[track_caller]
    pub(crate) fn act(
        &self,
        access: Access,
        order: Ordering,
        change: impl FnOnce(T) -> Option<T>,
    ) -> T {
        let touch = Touch { address: self.address(), access, order, site: Location::caller() };
        let charged = W::charge(&touch);
        let old = self.0.get();
        let new = change(old);
        if let Some(new) = new {
            self.0.set(new);
        }
        W::sees(&touch, charged, old.into(), new.map(Into::into));
        old
    }
}

macro_rules! atomic_words {
    ($($int:ty),*) => {$(
        // SAFETY: `act` loads and stores without a break, and one coroutine runs at a time; so each
        // method does what its name says, in a sequentially consistent order.
        unsafe impl<W: Observer> Atomic<$int> for Word<$int, W> {
            fn load(&self, order: Ordering) -> $int {
                self.act(Access::Load, order, |_| None)
            }
            fn store(&self, value: $int, order: Ordering) {
                let value = self.number(value) as $int;
                self.act(Access::Store, order, |_| Some(value));
            }
            fn swap(&self, value: $int, order: Ordering) -> $int {
                let value = self.number(value) as $int;
                self.act(Access::ReadModifyWrite, order, |_| Some(value))
            }
            fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                self.act(Access::ReadModifyWrite, order, |old| Some(old.wrapping_add(value)))
            }
            fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                self.act(Access::ReadModifyWrite, order, |old| Some(old.wrapping_sub(value)))
            }
            fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                self.act(Access::ReadModifyWrite, order, |old| Some(old | value))
            }
            fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                self.act(Access::ReadModifyWrite, order, |old| Some(old & value))
            }
            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                _failure: Ordering,
            ) -> Result<$int, $int> {
                let [current, new] = [current, new].map(|value| self.number(value) as $int);
                let take = |old| (old == current).then_some(new);
                let old = self.act(Access::ReadModifyWrite, success, take);
                if old == current { Ok(old) } else { Err(old) }
            }
        }

        // SAFETY: it holds zero.
        unsafe impl<W: Observer> ConstAtomic<$int> for Word<$int, W> {
            const ZERO: Self = Self::holding(0);
        }
    )*};
}
atomic_words!(u8, u16, u32);
