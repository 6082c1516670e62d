//! The part of a run that is recorded, and room for its records.

/// How many records of each kind there is room for, shared equally among the vCPUs.
const ROOM: usize = 1 << 17;

/// How many of them each vCPU gets, given the number of vCPUs.
fn room(vcpus: u32) -> usize {
    ROOM / vcpus.max(1) as usize
}

/// Room for the records of one of `vcpus` vCPUs. It has been written to, so that no first touch of
/// a page falls into the recorded part.
pub fn prepared<T: Copy>(vcpus: u32, blank: T) -> Vec<T> {
    let mut notes = vec![blank; room(vcpus)];
    notes.clear();
    notes
}

/// The part of a run that is recorded, in nanoseconds of the clock that vCPUs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from_ns: u64,
    pub to_ns: u64,
}

impl Window {
    /// Whether something that lasted from `from_ns` to `to_ns` was at least partly within the
    /// window.
    #[inline]
    pub fn has(self, from_ns: u64, to_ns: u64) -> bool {
        from_ns < self.to_ns && to_ns > self.from_ns
    }
}
