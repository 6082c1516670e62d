//! The faults that a run injects, and has injected, counted by kind.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A CPU was taken away in the middle of an operation.
    Away,
    /// A CPU's slice of its processor ended.
    Slice,
    /// A CPU was interrupted, and the handler used locks too.
    Interrupt,
    /// A halted CPU was woken spuriously.
    Spurious,
    LateKick,
    TwiceKick,
    /// The memory of a lock was freed by its last holder, and used again.
    Freed,
    /// A wait for a notification ended by a panic once it had released its lock.
    Cancelled,
    /// What a CPU had taken was released by another.
    Given,
}

impl Fault {
    pub const ALL: [Self; 9] = [
        Self::Away,
        Self::Slice,
        Self::Interrupt,
        Self::Spurious,
        Self::LateKick,
        Self::TwiceKick,
        Self::Freed,
        Self::Cancelled,
        Self::Given,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Slice => "slice",
            Self::Interrupt => "interrupt",
            Self::Spurious => "spurious",
            Self::LateKick => "late_kick",
            Self::TwiceKick => "twice_kick",
            Self::Freed => "freed",
            Self::Cancelled => "cancelled",
            Self::Given => "given",
        }
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
