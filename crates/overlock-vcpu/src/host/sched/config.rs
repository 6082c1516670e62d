//! The configuration of a scheduler: the number of CPUs, and the scheduler's time spans.

use core::fmt;

use crate::host::Nanos;

/// The most vCPUs or pCPUs that a scheduler supports: twice what KVM gives one guest on most
/// machines. The queues reserve 32 bytes for each pair of a vCPU and a pCPU: 128 KiB for 64 on 64.
pub const CPUS_MAX: u32 = 2048;

/// A scheduler's constants.
///
/// Only ratios between the spans matter much; [`Config::new`] gives values that suit a host on
/// which leaving and entering the guest costs a few tens of microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// vCPUs of the guest, 1 to [`CPUS_MAX`].
    pub vcpus: u32,
    /// pCPUs they share, 1 to [`CPUS_MAX`].
    pub pcpus: u32,
    /// How long a vCPU keeps its pCPU while others wait. Shorter slices find a preempted lock
    /// holder sooner and cost more switches. The default of 1 ms is about seventy exits of 14 µs.
    pub slice: Nanos,
    /// How much longer a vCPU may stay, once per slice, if it announces that it is in a critical
    /// section. Zero turns the grace off. The default of 50 µs is the upper end of what Linux
    /// grants a thread through its rseq slice extension (10 µs to 50 µs): most critical sections
    /// are shorter.
    pub grace: Nanos,
    /// How far a woken vCPU must lag, in weighted CPU time, behind the one it would preempt. If it
    /// is too small, every kick costs a switch; if too large, a kicked waiter waits for a slice.
    pub wake_lag: Nanos,
    /// How far, in weighted CPU time, a directed yield may put its target ahead of the vCPU that
    /// lags most. This is what a yield can cost a bystander, and the bound of its fairness.
    pub yield_lead: Nanos,
    /// How much more a vCPU in another pCPU's queue must lag, in weighted CPU time, than the first
    /// in this one's to be fetched: the price of a cold cache.
    pub migrate_lag: Nanos,
}

impl Config {
    /// Makes the default configuration for `vcpus` on `pcpus`.
    pub const fn new(vcpus: u32, pcpus: u32) -> Self {
        Self {
            vcpus,
            pcpus,
            slice: Nanos::from_millis(1),
            grace: Nanos::from_micros(50),
            wake_lag: Nanos::from_micros(500),
            yield_lead: Nanos::from_millis(4),
            migrate_lag: Nanos::from_micros(500),
        }
    }

    /// Checks that a scheduler can be made from this.
    pub(super) const fn check(&self) -> Result<(), ConfigError> {
        if self.vcpus == 0 || self.vcpus > CPUS_MAX {
            return Err(ConfigError::Vcpus(self.vcpus));
        }
        if self.pcpus == 0 || self.pcpus > CPUS_MAX {
            return Err(ConfigError::Pcpus(self.pcpus));
        }
        if self.slice.0 == 0 {
            return Err(ConfigError::EmptySlice);
        }
        Ok(())
    }
}

/// Why no scheduler can be made from a [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// This number of vCPUs is not usable.
    Vcpus(u32),
    /// This number of pCPUs is not usable.
    Pcpus(u32),
    /// The slice is zero, so that no vCPU would ever run.
    EmptySlice,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vcpus(n) => {
                write!(f, "{n} vCPUs cannot be scheduled; choose 1 to {CPUS_MAX}")
            }
            Self::Pcpus(n) => {
                write!(f, "{n} pCPUs cannot be scheduled on; choose 1 to {CPUS_MAX}")
            }
            Self::EmptySlice => {
                write!(f, "a time slice of 0 ns lets no vCPU run; choose at least 1 ns")
            }
        }
    }
}

impl core::error::Error for ConfigError {}
