// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Inject`: a machine in virtual time whose CPUs are taken away on purpose.
//!
//! | clause | answer |
//! |---|---|
//! | P0 | A cell is plain memory that one coroutine at a time accesses: every access is sequentially consistent, and a fence has nothing to do. [`Misnumbered`] nodes are wrong on purpose. |
//! | P1 | After a step, the machine compares the word with the expected value and halts the CPU in one go. |
//! | P2 | Spurious wake-ups occur at the world's rate, and after each interrupt of a halted CPU. |
//! | P3 | A kick wakes a halted CPU, at once or late; a CPU that has not halted yet finds the word changed. |
//! | P4 | A kick that finds no halted CPU is dropped. |
//! | P5 | Another CPU gets the processor, if one waits for it. |
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

use crate::torture::cell::{Cell32, Numbers, Renumbered};
use crate::torture::machine::calls::{self, Word};
use crate::torture::machine::wait::{self, Whom};

/// How CPUs wait for each other.
pub(crate) trait Waiting: Send + Sync + std::fmt::Debug + 'static {
    const WAITS: bool;
    const BY_ADDRESS: bool = false;
    const CHEAP: bool = false;
    /// Whether `membarrier` does what it promises.
    const FENCES: bool = true;
    /// Whether kicks of all waiters at once arrive.
    const KICKS: bool = true;
    /// Whether classes of waiters are told apart.
    const CLASSES: bool = true;
    const ON: bool = Self::WAITS;
    /// See [`Costs::reserved_ns`]. For ever: what ends a reservation breaks the order that oracles
    /// check.
    const RESERVED_NS: u64 = u64::MAX;
    type Word: Cell32;
}

/// CPUs halt, and are kicked by number.
#[derive(Debug)]
pub(crate) struct ByNumber;
/// Like [`ByNumber`], and a lock does not stay reserved for a CPU that does not come.
#[derive(Debug)]
pub(crate) struct Ending;
/// CPUs halt, and are kicked by the address of the word they wait on.
#[derive(Debug)]
pub(crate) struct ByAddress;
/// Like [`ByAddress`], with cheap releases.
#[derive(Debug)]
pub(crate) struct Cheap;
/// Like [`Cheap`], but `membarrier` does nothing.
#[derive(Debug)]
pub(crate) struct Unfenced;
/// Like [`ByAddress`], but kicks of all waiters at once are lost.
#[derive(Debug)]
pub(crate) struct Kickless;
/// Like [`ByAddress`], but a kick of one class of waiters may be another's.
#[derive(Debug)]
pub(crate) struct Classless;
/// CPUs could halt, but waiting is switched off.
#[derive(Debug)]
pub(crate) struct SwitchedOff;
#[derive(Debug)]
pub(crate) struct SpinOnly;

impl Waiting for ByNumber {
    const WAITS: bool = true;
    type Word = Word<u32>;
}
impl Waiting for Ending {
    const WAITS: bool = true;
    /// So short that a waiter which has looked ever less often looks in time for the oracle.
    const RESERVED_NS: u64 = 500;
    type Word = Word<u32>;
}
impl Waiting for ByAddress {
    const WAITS: bool = true;
    const BY_ADDRESS: bool = true;
    type Word = Word<u32>;
}
impl Waiting for Cheap {
    const WAITS: bool = true;
    const BY_ADDRESS: bool = true;
    const CHEAP: bool = true;
    type Word = Word<u32>;
}
impl Waiting for Unfenced {
    const WAITS: bool = true;
    const BY_ADDRESS: bool = true;
    const CHEAP: bool = true;
    const FENCES: bool = false;
    type Word = Word<u32>;
}
impl Waiting for Kickless {
    const WAITS: bool = true;
    const BY_ADDRESS: bool = true;
    const KICKS: bool = false;
    type Word = Word<u32>;
}
impl Waiting for Classless {
    const WAITS: bool = true;
    const BY_ADDRESS: bool = true;
    const CLASSES: bool = false;
    type Word = Word<u32>;
}
impl Waiting for SwitchedOff {
    const WAITS: bool = true;
    const ON: bool = false;
    type Word = Word<u32>;
}
impl Waiting for SpinOnly {
    const WAITS: bool = false;
    type Word = Word<u32>;
}

/// Like [`ByNumber`], with cells that are numbered wrongly.
#[derive(Debug)]
pub(crate) struct Misnumbered<N>(PhantomData<N>);

impl<N: Numbers> Waiting for Misnumbered<N> {
    const WAITS: bool = true;
    type Word = Renumbered<N>;
}

/// The machine that takes CPUs away. See the [crate documentation](crate).
#[derive(Debug)]
pub(crate) struct Inject<W: Waiting>(PhantomData<W>);

/// Releases by sequences of two steps.
#[derive(Debug)]
pub(crate) struct Sequences<W>(PhantomData<W>);

// SAFETY: the cells say what each operation does. The table above answers P11, which `Unfenced`
// breaks on purpose.
unsafe impl<W: Waiting> CheapRelease<W::Word, Word<u16>> for Sequences<W> {
    const EXISTS: bool = W::CHEAP;

    #[track_caller]
    fn set_lowest_bit(word: &W::Word) -> bool {
        if W::CHEAP {
            word.word().set_lowest_bit()
        } else {
            word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        }
    }

    #[track_caller]
    fn clear_low_byte(word: &W::Word) -> bool {
        W::CHEAP && word.word().clear_low_byte()
    }

    fn add_half(cell: &Word<u16>, n: u16, unless: u16) -> bool {
        W::CHEAP && cell.add_unless(n, unless)
    }

    fn membarrier() -> bool {
        if W::FENCES {
            calls::membarrier(Location::caller());
        }
        true
    }
}

// SAFETY: the table above answers the contract clause by clause.
unsafe impl<W: Waiting> Platform for Inject<W> {
    type Byte = Word<u8>;
    type Half = Word<u16>;
    type Word = W::Word;

    const WAITS: bool = W::WAITS;
    const KICKS_BY_ADDRESS: bool = W::BY_ADDRESS;
    // Each way to wait has the paths of the world that it represents: threads or guests. A guest's
    // paths also cope with a yield.
    const YIELDS: bool = W::BY_ADDRESS;

    type Release = Sequences<W>;

    fn waits() -> bool {
        W::ON
    }

    fn costs() -> Costs {
        // Half of the CPUs wait outside the queue first, and not for long.
        let is_odd = calls::number().is_some_and(|number| number % 2 == 1);
        let outside_wakes = if is_odd { 4 } else { 0 };
        Costs::DEFAULT.with_reserved_ns(W::RESERVED_NS).with_outside_wakes(outside_wakes)
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

    fn yield_now() {
        calls::yield_to(None);
    }

    fn cpu() -> Option<Cpu> {
        calls::number().and_then(Cpu::new)
    }

    fn slot(cpu: Cpu) -> &'static Slot<W::Word> {
        calls::slot(cpu)
    }

    fn waiters() -> &'static [Bucket<W::Word>] {
        calls::waiters()
    }

    fn wait(word: &W::Word, expected: u32, deadline_ns: Option<u64>) {
        Self::wait_as(word, expected, deadline_ns, u32::MAX);
    }

    fn wait_as(word: &W::Word, expected: u32, deadline_ns: Option<u64>, classes: u32) {
        let classes = if W::CLASSES { classes } else { u32::MAX };
        wait::wait(word.word(), word.number(expected), deadline_ns, classes);
    }

    fn kick(word: *const W::Word, cpu: Cpu) {
        wait::kick(word.addr(), Whom::Number(cpu.index()));
    }

    fn kick_any(word: *const W::Word) {
        wait::kick(word.addr(), Whom::Any(u32::MAX));
    }

    fn kick_every(word: *const W::Word) {
        Self::kick_every_of(word, u32::MAX);
    }

    fn kick_any_of(word: *const W::Word, classes: u32) {
        wait::kick(word.addr(), Whom::Any(classes));
    }

    fn kick_every_of(word: *const W::Word, classes: u32) {
        if W::KICKS {
            wait::kick(word.addr(), Whom::Every(classes));
        }
    }

    fn now_ns() -> u64 {
        calls::now_ns()
    }
}
