// SPDX-License-Identifier: MIT OR Apache-2.0
//! The atomic cells of the model: loom's, which explore every order and every stale value that the memory model allows.
//!
//! A cell does three things more than loom's own:
//!
//! * It reports each access to [`sites`], which may weaken its ordering.
//! * A compare-exchange that fails is only a load, and may see an old value. (loom lets it see the newest one alone: stronger than the
//!   language, and than machines with load-linked. It is what S3 is about.)
//! * A cell of a lock is tied to the [`Life`] of that lock: an access that does not happen before the lock is freed is an error (F4).

use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::Ordering::{self, Relaxed};

use loom::cell::UnsafeCell;
use overlock::atomic::Atomic;

use super::{platform, sites};

/// What watches over a lock's word: called with the CPU, the old value and the new one after each write.
pub type Oracle = Box<dyn FnMut(usize, u32, u32)>;

/// How long a lock lives.
pub struct Life {
    alive: UnsafeCell<()>,
    oracle: Option<RefCell<Oracle>>,
}

// SAFETY: all threads of a model run on one thread of the operating system, in turn.
unsafe impl Sync for Life {}

impl Life {
    pub fn new(oracle: Option<Oracle>) -> Self {
        Self { alive: UnsafeCell::new(()), oracle: oracle.map(RefCell::new) }
    }

    /// Frees the lock: all accesses to it happen before, or loom reports a race.
    #[track_caller]
    pub fn end(&self) {
        self.alive.with_mut(|_| ());
    }

    #[track_caller]
    fn touch(&self) {
        self.alive.with(|_| ());
    }

    fn judge(&self, old: u32, new: u32) {
        if let Some(oracle) = &self.oracle {
            (oracle.borrow_mut())(platform::me(), old, new);
        }
    }
}

macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident: $int:ident in $cell:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name {
            cell: loom::sync::atomic::$cell,
            life: Option<&'static Life>,
        }

        impl $name {
            /// A cell of a slot or a table.
            pub fn new(value: $int) -> Self {
                Self { cell: loom::sync::atomic::$cell::new(value), life: None }
            }

            /// A cell of a lock.
            pub fn of_lock(value: $int, life: &'static Life) -> Self {
                Self { cell: loom::sync::atomic::$cell::new(value), life: Some(life) }
            }

            #[track_caller]
            fn touch(&self) {
                platform::accessed();
                if let Some(life) = self.life {
                    life.touch();
                }
            }

            /// An unconditional read-modify-write: `act` does it, and `new` says what it writes over what it finds.
            #[track_caller]
            fn update(
                &self,
                operation: &'static str,
                order: Ordering,
                act: impl FnOnce(&loom::sync::atomic::$cell, Ordering) -> $int,
                new: impl FnOnce($int) -> $int,
            ) -> $int {
                let (order, _) = sites::ordering(Location::caller(), operation, (order, Relaxed));
                self.touch();
                let old = act(&self.cell, order);
                self.judge(old, new(old));
                old
            }

            fn judge(&self, old: $int, new: $int) {
                if let Some(life) = self.life {
                    life.judge(u32::from(old), u32::from(new));
                }
            }
        }

        impl Atomic<$int> for $name {
            fn load(&self, order: Ordering) -> $int {
                let (order, _) = sites::ordering(Location::caller(), "load", (order, Relaxed));
                self.touch();
                self.cell.load(order)
            }

            fn store(&self, value: $int, order: Ordering) {
                let (order, _) = sites::ordering(Location::caller(), "store", (order, Relaxed));
                self.touch();
                self.cell.store(value, order);
            }

            fn swap(&self, value: $int, order: Ordering) -> $int {
                self.update("swap", order, |cell, order| cell.swap(value, order), |_| value)
            }

            fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                self.update("fetch_add", order, |cell, order| cell.fetch_add(value, order), |old| old.wrapping_add(value))
            }

            fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                self.update("fetch_sub", order, |cell, order| cell.fetch_sub(value, order), |old| old.wrapping_sub(value))
            }

            fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                self.update("fetch_or", order, |cell, order| cell.fetch_or(value, order), |old| old | value)
            }

            fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                self.update("fetch_and", order, |cell, order| cell.fetch_and(value, order), |old| old & value)
            }

            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                let orders = (success, failure);
                let at = Location::caller();
                let (success, failure) = sites::ordering(at, "compare_exchange", orders);
                self.touch();
                if platform::stale_failures() {
                    let seen = self.cell.load(failure);
                    if seen != current {
                        return Err(seen);
                    }
                }
                let result = self.cell.compare_exchange(current, new, success, failure);
                if result.is_ok() {
                    self.judge(current, new);
                }
                result
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}

cells! {
    /// A cell of 8 bits.
    Byte: u8 in AtomicU8;
    /// A cell of 16 bits.
    Half: u16 in AtomicU16;
    /// A cell of 32 bits.
    Word: u32 in AtomicU32;
}

impl Word {
    /// The value, as the platform reads it when a CPU is about to halt.
    pub fn peek(&self) -> u32 {
        self.touch();
        self.cell.load(Relaxed)
    }
}
