//! `Once`: a value that the first CPU to come computes.

use core::cell::UnsafeCell;
use core::convert::Infallible;
use core::fmt;
use core::mem::MaybeUninit;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::sync::atomic::{
    AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Mutex;

/// No closure has been run.
const NEW: u8 = 0;
/// The value is there.
const DONE: u8 = 1;
/// A closure has panicked.
const PANICKED: u8 = 2;

/// A value that is computed once, by whichever CPU comes first, while the others wait.
///
/// ```
/// # #[cfg(feature = "threads")] {
/// static START: overlock_spin::Once<u32> = overlock_spin::Once::new();
/// assert_eq!(START.get(), None);
/// assert_eq!(START.call_once(|| 5), &5);
/// assert_eq!(START.call_once(|| 6), &5);
/// # }
/// ```
pub struct Once<T = ()> {
    /// What only the holder of `running` changes.
    state: AtomicU8,
    running: Mutex<()>,
    /// The value, once the state is `DONE`.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written by one CPU and shared by all.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

// A closure that panics leaves no value, and whoever comes later panics.
impl<T: UnwindSafe> UnwindSafe for Once<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for Once<T> {}

/// Notes that a closure has panicked, unless it is forgotten.
struct Panicked<'a>(&'a AtomicU8);

impl Drop for Panicked<'_> {
    fn drop(&mut self) {
        // Relaxed: whoever reads it before it acts on it holds the mutex.
        self.0.store(PANICKED, Relaxed);
    }
}

impl<T> Once<T> {
    /// The value of [`new`](Self::new), for an array.
    #[allow(clippy::declare_interior_mutable_const, reason = "it is a value to begin with")]
    pub const INIT: Self = Self::new();

    /// A `Once` without a value.
    pub const fn new() -> Self {
        Self {
            state: AtomicU8::new(NEW),
            running: Mutex::new(()),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// A `Once` that has its value.
    pub const fn initialized(value: T) -> Self {
        Self {
            state: AtomicU8::new(DONE),
            running: Mutex::new(()),
            value: UnsafeCell::new(MaybeUninit::new(value)),
        }
    }

    /// Returns the value, which `f` computes if no other closure has; waits for one that does.
    ///
    /// # Panics
    /// If a closure has panicked, or `f` does. A closure that calls its own `Once` waits for ever.
    #[inline]
    pub fn call_once<F: FnOnce() -> T>(&self, f: F) -> &T {
        match self.try_call_once(|| Ok::<_, Infallible>(f())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// The same with a closure that can fail: the next one then tries again.
    ///
    /// # Errors
    /// Those of `f`.
    ///
    /// # Panics
    /// As for [`call_once`](Self::call_once).
    #[inline]
    pub fn try_call_once<F: FnOnce() -> Result<T, E>, E>(&self, f: F) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.run(f),
        }
    }

    #[cold]
    fn run<F: FnOnce() -> Result<T, E>, E>(&self, f: F) -> Result<&T, E> {
        let running = self.running.lock();
        if let Some(value) = self.get() {
            return Ok(value);
        }
        assert!(self.state.load(Relaxed) != PANICKED, "a closure of this Once has panicked");
        let panicked = Panicked(&self.state);
        let value = f();
        core::mem::forget(panicked);
        let value = value?;
        // SAFETY: only the holder of `running` writes it, and only before the state is `DONE`.
        let value = unsafe { &*(*self.value.get()).write(value) };
        // ORDERING: Release → the Acquire in `is_completed`: the value is there.
        self.state.store(DONE, Release);
        drop(running);
        Ok(value)
    }

    /// Returns whether the value is there.
    #[inline]
    pub fn is_completed(&self) -> bool {
        // ORDERING: Acquire ← the Release in `run`.
        self.state.load(Acquire) == DONE
    }

    /// Returns the value if it is there.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: it is there, and never changes.
        self.is_completed().then(|| unsafe { self.get_unchecked() })
    }

    /// Returns the value without a look at the state.
    ///
    /// # Safety
    /// It is there.
    pub unsafe fn get_unchecked(&self) -> &T {
        // SAFETY: the caller's.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    /// Returns the value for changing, if it is there.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        let is_there = *self.state.get_mut() == DONE;
        // SAFETY: it is there, and the caller has it alone.
        is_there.then(|| unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Returns the value by itself, if it is there.
    pub fn try_into_inner(mut self) -> Option<T> {
        let is_there = core::mem::replace(self.state.get_mut(), NEW) == DONE;
        // SAFETY: it is there, and the state says otherwise from now on.
        is_there.then(|| unsafe { self.value.get_mut().assume_init_read() })
    }

    /// A pointer to the value, which may not be there.
    pub fn as_mut_ptr(&self) -> *mut T {
        self.value.get().cast()
    }

    /// Waits for the end of a closure that is running, and returns the value if it is there.
    ///
    /// # Panics
    /// If a closure has panicked.
    pub fn poll(&self) -> Option<&T> {
        if self.get().is_none() {
            let _running = self.running.lock();
            assert!(self.state.load(Relaxed) != PANICKED, "a closure of this Once has panicked");
        }
        self.get()
    }

    /// Waits until some CPU has computed the value; spins while none has begun to.
    ///
    /// # Panics
    /// If a closure has panicked.
    pub fn wait(&self) -> &T {
        loop {
            match self.poll() {
                Some(value) => return value,
                None => core::hint::spin_loop(),
            }
        }
    }
}

impl<T> Drop for Once<T> {
    fn drop(&mut self) {
        if *self.state.get_mut() == DONE {
            // SAFETY: it is there, and is not used any more.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for Once<T> {
    fn from(value: T) -> Self {
        Self::initialized(value)
    }
}

impl<T: fmt::Debug> fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Once").field(&self.get()).finish()
    }
}
