//! The memory that a vCPU and its host share: one [`VcpuRecord`] each, and the numbers of the
//! hypercalls.
//!
//! ```text
//!            writes                        reads
//! host   preempted, steal, halted,      critical, interrupts_off
//!        pending, yield_wanted, stop
//! guest  everything else                everything
//! ```
//!
//! Both sides run in one address space, so a record is an ordinary shared structure and every field
//! is an atomic. No field carries another's data: the exit or the entry itself, which a vCPU's own
//! thread performs, orders what must be ordered.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use overlock_bench::clock::Clock;
use overlock_bench::{Hint, VCPUS_MAX};

/// The most vCPUs that a run can have.
pub(crate) const MAX_VCPUS: usize = VCPUS_MAX as usize;

/// A hypercall, with two arguments.
///
/// `Call as u16` is the port that is written, with the arguments in `rdi` and
/// `rsi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Call {
    /// The program has started; argument 0 is the guest's time stamp counter.
    Started = 0x500,
    Finished = 0x501,
    /// Halt until kicked, interrupted, or until time argument 0 (0: without limit).
    Halt = 0x502,
    /// Kick vCPU argument 0.
    Kick = 0x503,
    /// The vCPU has spun for long, in vain.
    LongSpin = 0x504,
    /// Send interrupt argument 1 to vCPU argument 0.
    Ipi = 0x505,
    /// The critical section that outlived its slice is over.
    EndGrace = 0x506,
    /// Let vCPU argument 0 run instead of this one, or any other if there is no such vCPU.
    YieldTo = 0x507,
    /// Send interrupt argument 0 to all other vCPUs.
    IpiAll = 0x508,
}

impl Call {
    /// Returns the call behind a port number.
    pub(crate) fn from_port(port: u16) -> Option<Self> {
        use Call::{EndGrace, Finished, Halt, Ipi, IpiAll, Kick, LongSpin, Started, YieldTo};
        [Started, Finished, Halt, Kick, LongSpin, Ipi, EndGrace, YieldTo, IpiAll]
            .into_iter()
            .find(|call| *call as u16 == port)
    }
}

/// The port of the ACPI PM timer, where QEMU and Xen guests also find one.
pub(crate) const PM_TIMER_PORT: u16 = 0x608;

/// The part that all vCPUs of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    pub(crate) clock: Clock,
    pub(crate) vcpus: u32,
    /// Whether locks that can halt do.
    pub(crate) waits: bool,
    /// How long a loop of pauses lasts before it exits to the host; 0 means for ever.
    pub(crate) pause_window_ticks: u64,
    /// About how long a halt, a kick and a wake-up take, in nanoseconds.
    pub(crate) wake_ns: u64,
    /// The [`Tables`](super::platform::Tables) of the world.
    pub(crate) tables: *const (),
}

// SAFETY: the pointer is written before any vCPU starts, and points to memory that threads can
// share.
unsafe impl Sync for Shared {}

/// The record of one vCPU.
///
/// `own` comes first: a guest finds its record by reading the word at its GS
/// base.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct VcpuRecord {
    pub(crate) own: u64,
    /// All records of the run, [`Shared::vcpus`] of them.
    pub(crate) all: *const VcpuRecord,
    /// The part that all vCPUs share.
    pub(crate) shared: *const Shared,
    pub(crate) number: u32,
    /// When the current loop of pauses began, and its last pause, in ticks.
    pub(crate) first_pause: AtomicU64,
    pub(crate) last_pause: AtomicU64,
    /// The number to add to the time stamp counter to get the host's.
    pub(crate) tsc_offset: AtomicU64,

    pub(crate) preempted: AtomicBool,
    /// Nanoseconds runnable without a processor, so far.
    pub(crate) steal_ns: AtomicU64,
    pub(crate) halted_ns: AtomicU64,

    /// The vCPU is in a critical section, and asks to keep its processor.
    pub(crate) critical: AtomicBool,
    /// The host waits for the end of the critical section and wants [`Call::EndGrace`].
    pub(crate) yield_wanted: AtomicBool,

    pub(crate) pending: AtomicU32,
    pub(crate) interrupts_off: AtomicBool,
    /// What is called of the program that runs.
    pub(crate) hooks: Hooks,
    pub(crate) program: *const (),
}

/// The functions of a vCPU that are made for the program that runs. Nothing else of a run is.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Hooks {
    pub(crate) deliver: extern "C" fn(&VcpuRecord),
    /// Returns whom this vCPU waits for, as the guest publishes it, and as it is; the host calls
    /// it.
    pub(crate) hint: fn(&VcpuRecord) -> Hint,
    pub(crate) truth: fn(&VcpuRecord) -> Hint,
    /// Returns how often the vCPU's waits have ended; the host calls it.
    pub(crate) progress: fn(&VcpuRecord) -> u64,
    /// Tells the program that the vCPU was without a processor, and from when to when; the host
    /// calls it.
    pub(crate) was_away: fn(&VcpuRecord, u64, u64),
}

// SAFETY: the pointers are written before any vCPU starts, point to memory that outlives the run
// and are only read through; everything else is an atomic or constant.
unsafe impl Sync for VcpuRecord {}

// SAFETY: as above; no field is bound to a thread.
unsafe impl Send for VcpuRecord {}

impl VcpuRecord {
    /// Returns the part that all vCPUs of the run share.
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: points to the run's `Shared`, which outlives all its records.
        unsafe { &*self.shared }
    }

    pub(crate) fn other(&self, number: u32) -> Option<&VcpuRecord> {
        // SAFETY: `all` points to `vcpus` records and `number` is below that.
        (number < self.shared().vcpus).then(|| unsafe { &*self.all.add(number as usize) })
    }

    /// Returns the guest's time, in nanoseconds, when the vCPU's counter shows `ticks`.
    #[inline(always)]
    pub(crate) fn ns_at(&self, ticks: u64) -> u64 {
        self.shared().clock.ns(ticks.wrapping_add(self.tsc_offset.load(Relaxed)))
    }

    /// Returns whether an interrupt could be delivered now.
    pub(crate) fn deliverable(&self) -> bool {
        self.pending.load(Relaxed) != 0 && !self.interrupts_off.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_found_by_its_port() {
        for port in 0..=u16::MAX {
            match Call::from_port(port) {
                Some(call) => assert_eq!(call as u16, port),
                None => assert!(!(0x500..=0x508).contains(&port)),
            }
        }
    }

    #[test]
    fn a_record_begins_with_its_own_address() {
        assert_eq!(std::mem::offset_of!(VcpuRecord, own), 0);
    }
}
