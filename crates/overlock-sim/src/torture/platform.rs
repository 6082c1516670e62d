//! `Inject`: a machine in virtual time whose CPUs are taken away on purpose.
//!
//! | clause | answer |
//! |---|---|
//! | P0 | A cell is plain memory that one coroutine at a time accesses: every access is sequentially consistent, and a fence has nothing to do. A subject may number the states of nodes wrongly, on purpose. |
//! | P1 | After a step, the machine compares the word with the expected value and halts the CPU in one go. |
//! | P2 | Spurious wake-ups occur at the world's rate, and after each interrupt of a halted CPU. |
//! | P3 | A kick wakes a halted CPU, at once or late; a CPU that has not halted yet finds the word changed. |
//! | P4 | A kick that finds no halted CPU is dropped. |
//! | P6 | Time passes. |
//! | P7 | Numbers are fixed for a run. Some CPUs have no number. |
//! | P8 | Slots and table lie in the arena, laid out anew for each run. |
//! | P9 | The machine's virtual time, with an offset for each CPU. |
//! | P10 | [`SpinOnly`] never waits, nor does [`SwitchedOff`]; the machine checks that `wait` is not called. | |
//! | P11 | A step lies between comparison and store, in which every fault may hit the CPU. `membarrier` and interrupts cut the sequence off; being taken away does not. |

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::Ordering;

use overlock::atomic::Atomic;
use overlock::platform::{Bucket, CheapRelease, Costs, Cpu, Platform, Slot};

use crate::torture::machine::calls::{self, Word};
use crate::torture::machine::wait::{self, Whom};

/// How CPUs wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    waits: bool,
    by_address: bool,
    cheap: bool,
    /// Whether `membarrier` does what it promises.
    fences: bool,
    /// Whether kicks of all waiters at once arrive.
    kicks: bool,
    /// Whether classes of waiters are told apart.
    classes: bool,
    /// Whether waiting is switched on.
    pub(crate) on: bool,
    /// See [`Costs::reserved_ns`]. For ever: what ends a reservation breaks the order that oracles
    /// check.
    reserved_ns: u64,
}

const BY_NUMBER: How = How {
    waits: true,
    by_address: false,
    cheap: false,
    fences: true,
    kicks: true,
    classes: true,
    on: true,
    reserved_ns: u64::MAX,
};
const BY_ADDRESS: How = How { by_address: true, ..BY_NUMBER };
const CHEAP: How = How { cheap: true, ..BY_ADDRESS };

/// A type for each way to wait.
pub(crate) trait Waiting: Send + Sync + std::fmt::Debug + 'static {
    const HOW: How;
}

macro_rules! ways {
    ($($(#[$doc:meta])* $name:ident: $how:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name;

        impl Waiting for $name {
            const HOW: How = $how;
        }
    )*};
}

ways! {
    /// CPUs halt, and are kicked by number.
    ByNumber: BY_NUMBER;
    /// Like [`ByNumber`], and a lock does not stay reserved for a CPU that does not come, but for a
    /// time so short that a waiter which has looked ever less often looks in time for the oracle.
    Ending: How { reserved_ns: 500, ..BY_NUMBER };
    /// CPUs halt, and are kicked by the address of the word they wait on.
    ByAddress: BY_ADDRESS;
    /// Like [`ByAddress`], with cheap releases.
    Cheap: CHEAP;
    /// Like [`Cheap`], but `membarrier` does nothing.
    Unfenced: How { fences: false, ..CHEAP };
    /// Like [`ByAddress`], but kicks of all waiters at once are lost.
    Kickless: How { kicks: false, ..BY_ADDRESS };
    /// Like [`ByAddress`], but a kick of one class of waiters may be another's.
    Classless: How { classes: false, ..BY_ADDRESS };
    /// CPUs could halt, but waiting is switched off.
    SwitchedOff: How { on: false, ..BY_NUMBER };
    /// CPUs never halt.
    SpinOnly: How { waits: false, on: false, ..BY_NUMBER };
}

/// The machine that takes CPUs away. See the [crate documentation](crate).
#[derive(Debug)]
pub(crate) struct Inject<W: Waiting>(PhantomData<W>);

/// Releases by sequences of two steps.
#[derive(Debug)]
pub(crate) struct Sequences<W>(PhantomData<W>);

// SAFETY: the cells say what each operation does. The table above answers P11, which `Unfenced`
// breaks on purpose.
unsafe impl<W: Waiting> CheapRelease<Word<u32>, Word<u16>> for Sequences<W> {
    const EXISTS: bool = W::HOW.cheap;

    #[track_caller]
    fn set_lowest_bit(word: &Word<u32>) -> bool {
        if W::HOW.cheap {
            word.set_lowest_bit()
        } else {
            word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        }
    }

    #[track_caller]
    fn clear_low_byte(word: &Word<u32>) -> bool {
        W::HOW.cheap && word.clear_low_byte()
    }

    fn add_half(cell: &Word<u16>, n: u16, unless: u16) -> bool {
        W::HOW.cheap && cell.add_unless(n, unless)
    }

    fn membarrier() -> bool {
        if W::HOW.fences {
            calls::membarrier(Location::caller());
        }
        true
    }
}

// SAFETY: the table above answers the contract clause by clause.
unsafe impl<W: Waiting> Platform for Inject<W> {
    type Byte = Word<u8>;
    type Half = Word<u16>;
    type Word = Word<u32>;

    const WAITS: bool = W::HOW.waits;
    const KICKS_BY_ADDRESS: bool = W::HOW.by_address;

    type Release = Sequences<W>;

    fn waits() -> bool {
        W::HOW.on
    }

    fn costs() -> Costs {
        // Half of the CPUs wait outside the queue first, and not for long.
        let is_odd = calls::number().is_some_and(|number| number % 2 == 1);
        let outside_wakes = if is_odd { 4 } else { 0 };
        Costs::DEFAULT.with_reserved_ns(W::HOW.reserved_ns).with_outside_wakes(outside_wakes)
    }

    fn fence(_order: Ordering) {
        calls::step(Location::caller());
    }

    fn relax() {
        calls::relax();
    }

    fn nap(ns: u64) {
        calls::nap(ns);
    }

    fn cpu() -> Option<Cpu> {
        calls::number().and_then(Cpu::new)
    }

    fn slot(cpu: Cpu) -> &'static Slot<Word<u32>> {
        calls::slot(cpu)
    }

    fn waiters() -> &'static [Bucket<Word<u32>>] {
        calls::waiters()
    }

    fn wait(word: &Word<u32>, expected: u32, deadline_ns: Option<u64>) {
        Self::wait_as(word, expected, deadline_ns, u32::MAX);
    }

    fn wait_as(word: &Word<u32>, expected: u32, deadline_ns: Option<u64>, classes: u32) {
        let classes = if W::HOW.classes { classes } else { u32::MAX };
        wait::wait(word, word.number(expected), deadline_ns, classes);
    }

    fn kick(word: *const Word<u32>, cpu: Cpu) {
        wait::kick(word.addr(), Whom::Number(cpu.index()));
    }

    fn kick_any_of(word: *const Word<u32>, classes: u32) -> bool {
        wait::kick(word.addr(), Whom::Any(classes))
    }

    fn kick_every_of(word: *const Word<u32>, classes: u32) -> bool {
        W::HOW.kicks && wait::kick(word.addr(), Whom::Every(classes))
    }

    fn now_ns() -> u64 {
        calls::now_ns()
    }
}
