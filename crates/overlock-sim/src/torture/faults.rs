//! The faults that a run injects, and has injected, counted by kind.

use overlock_results::named;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    Fault {
        /// A CPU was taken away in the middle of an operation.
        Away = "away",
        /// A CPU's slice of its processor ended.
        Slice = "slice",
        /// A CPU was interrupted, and the handler used locks too.
        Interrupt = "interrupt",
        /// A halted CPU was woken spuriously.
        Spurious = "spurious",
        LateKick = "late_kick",
        TwiceKick = "twice_kick",
        /// The memory of a lock was freed by its last holder, and used again.
        Freed = "freed",
        /// A wait for a notification ended by a panic once it had released its lock.
        Cancelled = "cancelled",
        /// What a CPU had taken was released by another.
        Given = "given",
    }
}

/// How often each kind was injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults([u64; Fault::ALL.len()]);

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// How often `fault` was injected.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }
}

impl std::ops::AddAssign for Faults {
    fn add_assign(&mut self, other: Self) {
        for (mine, more) in self.0.iter_mut().zip(other.0) {
            *mine += more;
        }
    }
}

/// What hits one CPU at one of its steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Injection {
    pub(crate) cpu: usize,
    pub(crate) step: u64,
    pub(crate) what: InjectedFault,
}

/// A fault that a plan asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InjectedFault {
    /// The CPU is taken away for this many nanoseconds.
    Away(u64),
    /// An interrupt, whose handler asks for the script's second lock.
    Interrupt,
}
