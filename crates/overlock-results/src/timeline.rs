//! Which vCPU ran where, and which waited for and held which lock, for a part of a run.

/// vCPU; `running`, `ready` or `halted`; the pCPU if it is running; beginning; end.
pub type Stint = (u32, &'static str, Option<u32>, u64, u64);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// When the recording begins, in nanoseconds of the clock that vCPUs read.
    pub from_ns: u64,
    /// When it ends: where it was asked to end, or where there was no more room.
    pub to_ns: u64,
    pub stints: Vec<Stint>,
    /// vCPU; lock; when it asked for the lock, when it had it, and by when it had released it.
    pub holds: Vec<(u32, u32, u64, u64, u64)>,
}
