//! The atomic cells of the model. They are loom's, which explore every order and every stale value
//! that loom models.
//!
//! A cell does more than loom's own:
//!
//! * It reports each access to [`sites`], which may weaken its ordering.
//! * A compare-exchange that fails is only a load, and may see an old value. (loom lets it see only
//!   the newest one. That is stronger than the language, and than machines with load-linked, and it
//!   is what S3 is about.)
//! * A cell of a lock is tied to the [`Life`] of that lock: an access that does not happen before
//!   the lock is freed is an error (F4).
//! * A cell of a queue node has a [`Trail`]: loom never lets a read-modify-write come before a
//!   store that it has already executed, although a machine may, without a happens-before between
//!   the two.
//! * The states of a queue node can be numbered wrongly on purpose: see [`states`].
//! * A cell of the table of waiters counts whether it is in use: once all CPUs have left, none may
//!   be.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use loom::cell::UnsafeCell;
use overlock::atomic::Atomic;

use super::platform::{self, CPUS};
use super::sites::{self, Kind, Role};
use super::states::{self, Numbers};

/// Observes the changes of a lock's word.
pub(crate) struct Watch {
    /// Called with the CPU, the old value and the new one after each read-modify-write.
    pub(crate) judge: Box<dyn FnMut(usize, u32, u32)>,
    /// The bits that must be clear once all CPUs have left.
    pub(crate) rest: u32,
}

/// How long a lock lives.
pub(crate) struct Life {
    alive: UnsafeCell<()>,
    watch: Option<RefCell<Watch>>,
    value: Cell<u32>,
}

impl Life {
    pub(crate) fn new(watch: Option<Watch>) -> Self {
        let value = Cell::new(0);
        Self { alive: UnsafeCell::new(()), watch: watch.map(RefCell::new), value }
    }

    /// Frees the lock. All accesses to it must happen before this, or loom reports a race.
    pub(crate) fn end(&self) {
        self.alive.with_mut(|_| ());
    }

    /// Checks that no CPU has left bits behind in the lock's word.
    pub(crate) fn rest(&self) {
        if let Some(watch) = &self.watch {
            let left = self.value.get() & watch.borrow().rest;
            assert_eq!(left, 0, "all CPUs have left, but the lock's word says otherwise");
        }
    }

    fn changed(&self, old: u32, new: u32) {
        self.value.set(new);
        if let Some(watch) = &self.watch {
            (watch.borrow_mut().judge)(platform::me(), old, new);
        }
    }
}

/// Which CPUs have written a cell of a node, and which know of the last write.
///
/// Two rules ensure that a store and a read-modify-write of two CPUs can't miss each other on any
/// machine:
///
/// * A CPU that makes a node new, or frees it, knows the last write: that write happens before, or
///   the CPU has seen its value.
/// * A CPU that uses another CPU's node knows that it has been made new: that happens before.
#[derive(Default)]
pub(crate) struct Trail {
    writes: Cell<u32>,
    value: Cell<u32>,
    known: [Cell<u32>; CPUS],
    /// Created by the last writer at its write, or by the CPU that last saw that write, so that
    /// loom can tell whether it happens before.
    last: RefCell<Option<UnsafeCell<()>>>,
    /// The same for the CPU that made the node new.
    renewed: RefCell<Option<UnsafeCell<()>>>,
    /// Whether a kick may replace what the CPU has stored in its own node.
    kickable: Cell<bool>,
}

impl Trail {
    fn loaded(&self, value: u32, role: Role) {
        if value != self.value.get() {
            return;
        }
        self.knows();
        if role == Role::Uses {
            // A CPU that comes after this one also comes after the write that this one has seen.
            self.last.replace(Some(UnsafeCell::new(())));
        }
    }

    fn knows(&self) {
        self.known[platform::me()].set(self.writes.get());
    }

    fn stores(&self, value: u32, role: Role) {
        let knows = self.known[platform::me()].get() == self.writes.get();
        if matches!(role, Role::Renews | Role::Frees) && !knows {
            happens_before(&self.last);
        }
        if role == Role::Renews {
            self.renewed.replace(Some(UnsafeCell::new(())));
        }
        self.wrote(value);
    }

    fn modifies(&self, role: Role) {
        if role == Role::Uses {
            happens_before(&self.renewed);
        }
        self.knows();
    }

    fn changed(&self, value: u32, role: Role) {
        match role {
            // The waiter does not check the state when it comes back, and so need not know this
            // write. A later wait either overwrites it, or comes first, in which case the kick
            // finds another state.
            Role::Kicks(Kind::Ticket | Kind::Park) => self.value.set(value),
            _ => self.wrote(value),
        }
    }

    fn wrote(&self, value: u32) {
        self.writes.set(self.writes.get() + 1);
        self.value.set(value);
        self.knows();
        self.last.replace(Some(UnsafeCell::new(())));
    }
}

/// Fails the model unless the creation of `event` happens before now.
fn happens_before(event: &RefCell<Option<UnsafeCell<()>>>) {
    if let Some(event) = &*event.borrow() {
        event.with(|_| ());
    }
}

pub(crate) enum Part {
    Lock(&'static Life),
    /// A cell of a queue node. The cell that holds the waiter's state has numbers.
    Node(Trail, Option<Numbers>),
    /// A cell of the table, with the number of entries in use.
    Table(&'static Cell<usize>),
}

// SAFETY: all threads of a model run in turn on one thread of the operating system.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    /// The value that is written, or compared with, in place of `value`.
    fn number(&self, value: u32) -> u32 {
        match self {
            Self::Node(_, Some(numbers)) => numbers.of(value),
            _ => value,
        }
    }

    fn touched(&self) {
        platform::accessed();
        if let Self::Lock(life) = self {
            life.alive.with(|_| ());
        }
    }

    fn loaded(&self, value: u32, role: Role) {
        if let Self::Node(trail, numbers) = self {
            trail.loaded(value, role);
            if numbers.is_some() {
                states::found(role, value);
            }
        }
    }

    /// Notes that a CPU gives its own node this state, if the cell is a node's state. Returns
    /// whether a kick may have replaced the state before. If so, loom has to be told that the kick
    /// came first, because nothing comes between what a read-modify-write reads and what it writes.
    fn follows_kick(&self, state: u32) -> bool {
        match self {
            Self::Node(trail, Some(_)) => trail.kickable.replace(states::is_kickable(state)),
            _ => false,
        }
    }

    fn stores(&self, value: u32, role: Role) {
        match self {
            Self::Node(trail, _) => trail.stores(value, role),
            Self::Table(used) if value == 0 => used.set(used.get() - 1),
            _ => {}
        }
    }

    fn modifies(&self, found: u32, role: Role) {
        if let Self::Node(trail, numbers) = self {
            trail.modifies(role);
            if numbers.is_some() {
                states::found(role, found);
            }
        }
    }

    fn changed(&self, old: u32, new: u32, role: Role) {
        match self {
            Self::Lock(life) => life.changed(old, new),
            Self::Node(trail, numbers) => {
                trail.changed(new, role);
                if numbers.is_some() {
                    states::changed(role, old, new);
                }
            }
            Self::Table(used) => {
                used.set(used.get() + usize::from(new != 0) - usize::from(old != 0));
            }
        }
    }
}

macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident: $int:ident in $cell:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name {
            cell: loom::sync::atomic::$cell,
            part: Part,
        }

        impl $name {
            pub(crate) fn new(value: $int, part: Part) -> Self {
                Self { cell: loom::sync::atomic::$cell::new(value), part }
            }

            fn number(&self, value: $int) -> $int {
                let number = self.part.number(u32::from(value));
                number.try_into().expect("only a word has other numbers than its own")
            }

            /// A read-modify-write: `act` performs it, and `new` maps the value found to the value
            /// written.
            #[track_caller]
            fn update(
                &self,
                operation: &'static str,
                order: Ordering,
                act: impl FnOnce(&loom::sync::atomic::$cell, Ordering) -> $int,
                new: impl FnOnce($int) -> $int,
            ) -> $int {
                if platform::is_deadlocked() {
                    return 0;
                }
                let at = Location::caller();
                let ((order, _), role) = sites::access(at, operation, (order, Relaxed));
                self.part.follows_kick(0);
                self.part.touched();
                let old = act(&self.cell, order);
                self.part.modifies(u32::from(old), role);
                self.part.changed(u32::from(old), u32::from(new(old)), role);
                old
            }
        }

        // SAFETY: each method is loom's of the same name, unless a test breaks it on purpose.
        unsafe impl Atomic<$int> for $name {
            fn load(&self, order: Ordering) -> $int {
                let at = Location::caller();
                let ((order, _), role) = sites::access(at, "load", (order, Relaxed));
                self.part.touched();
                let value = self.cell.load(order);
                self.part.loaded(u32::from(value), role);
                value
            }

            fn store(&self, value: $int, order: Ordering) {
                let at = Location::caller();
                let ((order, _), role) = sites::access(at, "store", (order, Relaxed));
                let follows_kick = self.part.follows_kick(u32::from(value));
                let value = self.number(value);
                self.part.touched();
                if follows_kick {
                    self.cell.swap(value, order);
                } else {
                    self.cell.store(value, order);
                }
                self.part.stores(u32::from(value), role);
            }

            fn swap(&self, value: $int, order: Ordering) -> $int {
                let value = self.number(value);
                self.update("swap", order, |cell, order| cell.swap(value, order), |_| value)
            }

            fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                let new = |old: $int| old.wrapping_add(value);
                self.update("fetch_add", order, |cell, order| cell.fetch_add(value, order), new)
            }

            fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                let new = |old: $int| old.wrapping_sub(value);
                self.update("fetch_sub", order, |cell, order| cell.fetch_sub(value, order), new)
            }

            fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                let new = |old: $int| old | value;
                self.update("fetch_or", order, |cell, order| cell.fetch_or(value, order), new)
            }

            fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                let new = |old: $int| old & value;
                self.update("fetch_and", order, |cell, order| cell.fetch_and(value, order), new)
            }

            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                let at = Location::caller();
                let ((success, failure), role) =
                    sites::access(at, "compare_exchange", (success, failure));
                let (current, new) = (self.number(current), self.number(new));
                self.part.touched();
                if matches!(role, Role::Kicks(_)) {
                    platform::linger();
                }
                if platform::stale_failures() {
                    let seen = self.cell.load(failure);
                    if seen != current {
                        self.part.loaded(u32::from(seen), role);
                        return Err(seen);
                    }
                }
                let result = self.cell.compare_exchange(current, new, success, failure);
                let (Ok(found) | Err(found)) = result;
                self.part.modifies(u32::from(found), role);
                if result.is_ok() {
                    self.part.changed(u32::from(current), u32::from(new), role);
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
    Byte: u8 in AtomicU8;
    Half: u16 in AtomicU16;
    Word: u32 in AtomicU32;
}

impl Word {
    /// The step that takes a lock whose lowest byte is zero. To memory, it is a read-modify-write
    /// of the word.
    pub(crate) fn set_lowest_bit(&self, at: &'static Location<'static>) -> bool {
        let ((order, _), _) = sites::access(at, "set_lowest_bit", (Acquire, Relaxed));
        let mut seen = 0;
        while seen & 0xff == 0 {
            self.part.touched();
            let taken = self.cell.compare_exchange(seen, seen | 1, order, Relaxed);
            let (Ok(found) | Err(found)) = taken;
            self.part.modifies(found, Role::Uses);
            if taken.is_ok() {
                if found >> 16 != 0 {
                    sites::reach(TAKES_PAST_A_QUEUE);
                }
                self.part.changed(found, found | 1, Role::Uses);
                return true;
            }
            seen = found;
        }
        false
    }

    /// The two steps of a cheap release: a comparison, and a store of the low byte. To memory, the
    /// store is a read-modify-write of the word.
    pub(crate) fn clear_low_byte(&self, at: &'static Location<'static>) -> bool {
        let ((order, _), _) = sites::access(at, "clear_low_byte", (Release, Relaxed));
        self.part.touched();
        let seen = self.cell.load(Relaxed);
        if seen >> 16 != 0 {
            return false;
        }
        self.part.touched();
        let found = self.cell.fetch_and(!0xff, order);
        if found >> 16 != 0 {
            sites::reach(MISSES_A_WAITER);
        }
        // With `NO_STEALING`, a waiter that is missed has set a count of 1.
        let alone = if found >> 16 == 0 { found & 0xff == 1 } else { found & 0xfd == 1 };
        assert!(alone, "without a queue, `LOCKED` is alone in the low byte: {found:#x}");
        self.part.changed(found, found & !0xff, Role::Uses);
        true
    }
}

pub(crate) const TAKES_PAST_A_QUEUE: &str = "the fast path takes the lock past a queue";
/// A cheap release did not see what a waiter wrote into the word.
pub(crate) const MISSES_A_WAITER: &str = "a cheap release misses a waiter";

impl Half {
    /// The two steps of a cheap release: a load, and a store of the sum.
    pub(crate) fn add_unless(&self, at: &'static Location<'static>, n: u16, unless: u16) -> bool {
        let ((order, _), _) = sites::access(at, "add_half", (Release, Relaxed));
        self.part.touched();
        let old = self.cell.load(Relaxed);
        if old & unless != 0 {
            return false;
        }
        let new = old.wrapping_add(n);
        self.part.touched();
        // This is a swap, because loom does not know that a store comes after the
        // read-modify-writes that follow the value it replaces. The swap hides one thing: that a
        // store ends a release sequence.
        let found = self.cell.swap(new, order);
        self.part.changed(u32::from(found), u32::from(new), Role::Uses);
        true
    }
}

impl Word {
    /// Whether the value is `expected`, as the platform sees it when a CPU is about to halt.
    pub(crate) fn holds(&self, expected: u32) -> bool {
        self.part.touched();
        self.cell.load(Relaxed) == self.number(expected)
    }
}
