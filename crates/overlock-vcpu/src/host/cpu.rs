//! The names of CPUs: virtual ones, which come and go, and the physical ones they run on.

use core::fmt;

/// A virtual CPU of one guest, numbered from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vcpu(pub u32);

/// A physical CPU: a slot that carries one vCPU at a time, numbered from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pcpu(pub u32);

impl Vcpu {
    /// Its index in an array with one element per vCPU.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Pcpu {
    /// Its index in an array with one element per pCPU.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Vcpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vcpu{}", self.0)
    }
}

impl fmt::Display for Pcpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pcpu{}", self.0)
    }
}
