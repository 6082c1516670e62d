//! `Once`: something that is done once, by whichever thread comes first.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{
    AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Mutex;

/// How far a [`Once`] has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OnceState {
    /// No closure has been run.
    New,
    /// A closure has panicked.
    Poisoned,
    /// A thread runs a closure.
    InProgress,
    /// A closure has been run.
    Done,
}

impl OnceState {
    const fn new(code: u8) -> Self {
        match code {
            0 => Self::New,
            1 => Self::Poisoned,
            2 => Self::InProgress,
            _ => Self::Done,
        }
    }

    /// Whether a closure has panicked.
    #[inline]
    pub fn poisoned(self) -> bool {
        self == Self::Poisoned
    }

    /// Whether a closure has been run.
    #[inline]
    pub fn done(self) -> bool {
        self == Self::Done
    }
}

/// Runs one closure of all that threads call it with.
///
/// ```
/// use overlock_parking_lot::Once;
///
/// static START: Once = Once::new();
/// let mut runs = 0;
/// START.call_once(|| runs += 1);
/// START.call_once(|| runs += 1);
/// assert_eq!(runs, 1);
/// ```
pub struct Once {
    /// A [`OnceState`], which only the holder of `running` changes.
    state: AtomicU8,
    running: Mutex<()>,
}

// A closure that panics poisons it, so that whoever comes later knows.
impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

/// Notes how a closure has ended, whether it returns or panics.
struct Ends<'a> {
    state: &'a AtomicU8,
    with: OnceState,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        // ORDERING: Release, for the look at the state: what the closure did is visible to all that
        // find it done.
        self.state.store(self.with as u8, Release);
    }
}

impl Once {
    /// A `Once` of which no closure has been run.
    #[inline]
    pub const fn new() -> Self {
        Self { state: AtomicU8::new(OnceState::New as u8), running: crate::const_mutex(()) }
    }

    /// How far it has got.
    #[inline]
    pub fn state(&self) -> OnceState {
        // ORDERING: Acquire, for the store in `Ends`.
        OnceState::new(self.state.load(Acquire))
    }

    /// Runs `f`, unless a closure has been run; waits for one that is running. Afterwards one has
    /// been run, and its effects are visible.
    ///
    /// # Panics
    /// If a closure has panicked, or `f` does. A closure that calls its own `Once` waits for ever.
    #[inline]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.state().done() {
            let mut f = Some(f);
            self.call(false, &mut |_| f.take().map_or((), |f| f()));
        }
    }

    /// [`call_once`](Self::call_once), also if an earlier closure has panicked, which it is told.
    ///
    /// # Panics
    /// If `f` does.
    #[inline]
    pub fn call_once_force<F: FnOnce(OnceState)>(&self, f: F) {
        if !self.state().done() {
            let mut f = Some(f);
            self.call(true, &mut |state| f.take().map_or((), |f| f(state)));
        }
    }

    #[cold]
    fn call(&self, is_forced: bool, f: &mut dyn FnMut(OnceState)) {
        let _running = self.running.lock();
        let before = self.state();
        if before.done() {
            return;
        }
        assert!(is_forced || !before.poisoned(), "Once instance has previously been poisoned");
        self.state.store(OnceState::InProgress as u8, Relaxed);
        let mut ends = Ends { state: &self.state, with: OnceState::Poisoned };
        f(before);
        ends.with = OnceState::Done;
    }
}

impl Default for Once {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("state", &self.state()).finish()
    }
}
