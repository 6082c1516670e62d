//! The shape of `std::sync` around these locks, poison included: std's own tests run on it.

use parking_lot as raw;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::panicking;
use std::time::Duration;

pub mod sync {
    pub use super::{Condvar, Mutex, RwLock};
    pub use std::sync::{Arc, TryLockError, atomic, mpsc};
}
pub use std::{thread, time};

use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

#[derive(Debug, Default)]
struct Poison(AtomicBool);

impl Poison {
    fn result<T>(&self, value: T) -> LockResult<T> {
        if self.0.load(Relaxed) { Err(PoisonError::new(value)) } else { Ok(value) }
    }

    fn tried<T>(&self, value: Option<T>) -> TryLockResult<T> {
        Ok(self.result(value.ok_or(TryLockError::WouldBlock)?)?)
    }
}

/// Poisons when a panic began while it existed.
#[derive(Debug)]
pub struct Guard<'a, G> {
    /// Not there while a condition is waited for.
    guard: Option<G>,
    poison: Option<&'a Poison>,
    panicked: bool,
}

impl<'a, G> Guard<'a, G> {
    fn new(guard: G, poison: Option<&'a Poison>) -> Self {
        Self { guard: Some(guard), poison, panicked: panicking() }
    }
}

impl<G> Drop for Guard<'_, G> {
    fn drop(&mut self) {
        if let Some(poison) = self.poison.filter(|_| panicking() && !self.panicked) {
            poison.0.store(true, Relaxed);
        }
    }
}

impl<G: std::ops::Deref> std::ops::Deref for Guard<'_, G> {
    type Target = G::Target;
    fn deref(&self) -> &G::Target {
        self.guard.as_ref().unwrap()
    }
}

impl<G: std::ops::DerefMut> std::ops::DerefMut for Guard<'_, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        self.guard.as_mut().unwrap()
    }
}

macro_rules! lock {
    ($name:ident: $($take:ident $try:ident $guard:ident $poisons:literal,)*) => {
        #[derive(Debug, Default)]
        pub struct $name<T: ?Sized> {
            poison: Poison,
            lock: raw::$name<T>,
        }

        impl<T> $name<T> {
            pub fn new(value: T) -> Self {
                Self { poison: Poison::default(), lock: raw::$name::new(value) }
            }
            pub fn into_inner(self) -> LockResult<T> {
                let Self { poison, lock } = self;
                poison.result(lock.into_inner())
            }
        }

        impl<T: ?Sized> $name<T> {
            $(
                pub fn $take(&self) -> LockResult<Guard<'_, raw::$guard<'_, T>>> {
                    let taken = self.lock.$take();
                    self.poison.result(Guard::new(taken, $poisons.then_some(&self.poison)))
                }
                pub fn $try(&self) -> TryLockResult<Guard<'_, raw::$guard<'_, T>>> {
                    let taken = self.lock.$try();
                    let guard = |taken| Guard::new(taken, $poisons.then_some(&self.poison));
                    self.poison.tried(taken.map(guard))
                }
            )*
            pub fn get_mut(&mut self) -> LockResult<&mut T> {
                self.poison.result(self.lock.get_mut())
            }
            pub fn is_poisoned(&self) -> bool {
                self.poison.0.load(Relaxed)
            }
        }
    };
}

lock!(Mutex: lock try_lock MutexGuard true,);
lock!(RwLock: read try_read RwLockReadGuard false, write try_write RwLockWriteGuard true,);

#[derive(Debug, Default)]
pub struct Condvar(raw::Condvar);

type Held<'a, T> = Guard<'a, raw::MutexGuard<'a, T>>;

#[derive(Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
    pub fn wait<'a, T>(&self, mut held: Held<'a, T>) -> LockResult<Held<'a, T>> {
        self.0.wait(held.guard.as_mut().unwrap());
        held.poison.unwrap().result(held)
    }
    pub fn wait_while<'a, T>(
        &self,
        mut held: Held<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<Held<'a, T>> {
        self.0.wait_while(held.guard.as_mut().unwrap(), condition);
        held.poison.unwrap().result(held)
    }
    pub fn wait_timeout<'a, T>(
        &self,
        mut held: Held<'a, T>,
        span: Duration,
    ) -> LockResult<(Held<'a, T>, WaitTimeoutResult)> {
        let timed_out = self.0.wait_for(held.guard.as_mut().unwrap(), span).timed_out();
        held.poison.unwrap().result((held, WaitTimeoutResult(timed_out)))
    }
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut held: Held<'a, T>,
        span: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(Held<'a, T>, WaitTimeoutResult)> {
        let guard = held.guard.as_mut().unwrap();
        let timed_out = self.0.wait_while_for(guard, condition, span).timed_out();
        held.poison.unwrap().result((held, WaitTimeoutResult(timed_out)))
    }
}
