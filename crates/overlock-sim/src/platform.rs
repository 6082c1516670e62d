// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Inject`: a machine in virtual time whose CPUs are taken away on purpose.
//!
//! | clause | answer |
//! |---|---|
//! | P1 | A step; then word and expected value are compared and the CPU halts in one go. |
//! | P2 | Spurious wake-ups, by the world's rate, and after each interrupt of a halted CPU. |
//! | P3 | A kick wakes a halted CPU, at once or late; one not halted yet finds the word changed. |
//! | P4 | A kick that finds nobody halted is dropped. |
//! | P5 | Whether the CPU has a processor now; by the world's rate, the opposite. |
//! | P6 | Time passes. |
//! | P7 | Fixed for a run. Some CPUs have no number. |
//! | P8 | The arena's, laid out anew for each run. |
//! | P9 | The machine's virtual time, with an offset for each CPU. |
//! | P10 | [`SpinOnly`] never waits, nor does [`SwitchedOff`]: that `wait` is not called is checked. |
//! | P11 | A step lies between load and store, in which everything may befall the CPU. `settle` and interrupts cut it off, being taken away does not. |

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::Ordering;

use overlock::platform::Platform;
use overlock::{Bucket, Cpu, Slot};

use crate::cell::{Cell32, Numbers, Renumbered, Word};
use crate::machine::{self, Whom};

/// How CPUs wait for each other.
pub(crate) trait Waiting: Send + Sync + std::fmt::Debug + 'static {
    /// See [`Platform::WAITS`].
    const WAITS: bool;
    /// See [`Platform::KICKS_BY_ADDRESS`].
    const BY_ADDRESS: bool = false;
    /// See [`Platform::SECTIONS`].
    const SECTIONS: bool = false;
    /// Whether `settle` does what it says.
    const SETTLES: bool = true;
    /// See [`Platform::waits`].
    const ON: bool = Self::WAITS;
    /// See [`Platform::Word`].
    type Word: Cell32;
}

/// CPUs halt, and are kicked by number.
#[derive(Debug)]
pub(crate) struct ByNumber;
/// CPUs halt, and are kicked by the address of the word they wait on.
#[derive(Debug)]
pub(crate) struct ByAddress;
/// As [`ByAddress`], and releases are sections.
#[derive(Debug)]
pub(crate) struct Sections;
/// As [`Sections`], but nobody settles them.
#[derive(Debug)]
pub(crate) struct Unsettled;
/// CPUs could halt, but waiting is switched off.
#[derive(Debug)]
pub(crate) struct SwitchedOff;
/// CPUs never halt.
#[derive(Debug)]
pub(crate) struct SpinOnly;

impl Waiting for ByNumber {
    const WAITS: bool = true;
    type Word = Word<u32>;
}
impl Waiting for ByAddress {
    const WAITS: bool = true;
    const BY_ADDRESS: bool = true;
    type Word = Word<u32>;
}
impl Waiting for Sections {
    const WAITS: bool = true;
    const BY_ADDRESS: bool = true;
    const SECTIONS: bool = true;
    type Word = Word<u32>;
}
impl Waiting for Unsettled {
    const WAITS: bool = true;
    const BY_ADDRESS: bool = true;
    const SECTIONS: bool = true;
    const SETTLES: bool = false;
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

/// As [`ByNumber`], on nodes whose states are numbered wrongly.
#[derive(Debug)]
pub(crate) struct Misnumbered<N>(PhantomData<N>);

impl<N: Numbers> Waiting for Misnumbered<N> {
    const WAITS: bool = true;
    type Word = Renumbered<N>;
}

/// The machine that takes CPUs away. See the [crate documentation](crate).
#[derive(Debug)]
pub(crate) struct Inject<W: Waiting>(PhantomData<W>);

// SAFETY: clause by clause in the table above.
unsafe impl<W: Waiting> Platform for Inject<W> {
    type Byte = Word<u8>;
    type Half = Word<u16>;
    type Word = W::Word;

    const WAITS: bool = W::WAITS;
    const KICKS_BY_ADDRESS: bool = W::BY_ADDRESS;
    // Each way to wait has the paths of the world that it stands for: threads, or guests. Those of
    // a guest find that a yield helps all the same.
    const YIELDS: bool = W::BY_ADDRESS;
    const SECTIONS: bool = W::SECTIONS;

    fn add_half(cell: &Word<u16>, n: u16, unless: u16) -> bool {
        W::SECTIONS && cell.section(|old| (old & unless == 0).then_some(old.wrapping_add(n)))
    }

    fn replace_word(cell: &W::Word, old: u32, new: u32) -> bool {
        W::SECTIONS && cell.word().section(|found| (found == old).then_some(new))
    }

    fn settle() -> bool {
        if W::SETTLES {
            machine::settle(Location::caller());
        }
        true
    }

    fn waits() -> bool {
        W::ON
    }

    fn fence(_order: Ordering) {
        machine::step(Location::caller());
    }

    fn relax() {
        machine::relax();
    }

    fn nap(ns: u64) {
        machine::nap(ns);
    }

    fn yield_to(cpu: Option<Cpu>) {
        machine::yield_to(cpu.map(Cpu::index));
    }

    fn cpu() -> Option<Cpu> {
        machine::number().and_then(Cpu::new)
    }

    fn slot(cpu: Cpu) -> &'static Slot<Self> {
        machine::slot(cpu)
    }

    fn waiters() -> &'static [Bucket<Self>] {
        machine::waiters()
    }

    fn wait(word: &W::Word, expected: u32, deadline_ns: Option<u64>) {
        machine::wait(word.word(), word.number(expected), deadline_ns);
    }

    fn kick(word: *const W::Word, cpu: Cpu) {
        machine::kick(word.addr(), Whom::Number(cpu.index()));
    }

    fn kick_any(word: *const W::Word) {
        machine::kick(word.addr(), Whom::Any);
    }

    fn kick_every(word: *const W::Word) {
        machine::kick(word.addr(), Whom::Every);
    }

    fn is_preempted(cpu: Cpu) -> bool {
        machine::is_preempted(cpu.index())
    }

    fn now_ns() -> u64 {
        machine::now_ns()
    }
}
