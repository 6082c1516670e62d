//! What takes the locks of a world.

use crate::row::{PROCESS, Point};

/// Who takes locks: it decides which factors, columns and ratios mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takers {
    Threads,
    /// The threads of an unmodified program.
    Program,
    /// Virtual CPUs that our host schedules.
    Vcpus,
    Kernel,
}

impl Takers {
    /// Returns what takes the locks of the world with this name.
    pub fn of(world: &str) -> Self {
        match world {
            "threads" => Self::Threads,
            PROCESS => Self::Program,
            "tcg" | "kvm-guest" | "xen" => Self::Kernel,
            _ => Self::Vcpus,
        }
    }

    /// Whether they have a host, so that policies, slices and PM timers mean something.
    pub fn has_host(self) -> bool {
        matches!(self, Self::Vcpus | Self::Kernel)
    }

    pub fn names(self) -> (&'static str, &'static str) {
        if self.has_host() { ("vCPU", "pCPU") } else { ("thread", "CPU") }
    }
}

impl Point {
    pub fn takers(&self) -> Takers {
        Takers::of(&self.world)
    }
}
