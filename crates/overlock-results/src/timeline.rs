//! Which vCPU ran where, and which waited for and held which lock, for a part of a run.

/// The state of a vCPU, as its host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It owns this pCPU.
    Running(u32),
    /// It could run, but owns none.
    Ready,
    /// It sleeps, or has ended.
    Halted,
}

/// A part of a vCPU's life with one standing, in nanoseconds of the clock that vCPUs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stint {
    pub standing: Standing,
    pub from_ns: u64,
    pub to_ns: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// When the recording begins, in nanoseconds of the clock that vCPUs read.
    pub from_ns: u64,
    /// When it ends: where it was asked to end, or where there was no more room.
    pub to_ns: u64,
    /// vCPU; `running`, `ready` or `halted`; the pCPU if it is running; beginning; end.
    pub stints: Vec<(u32, &'static str, Option<u32>, u64, u64)>,
    /// vCPU; lock; when it asked for the lock, when it had it, and by when it had released it.
    pub holds: Vec<(u32, u32, u64, u64, u64)>,
}
