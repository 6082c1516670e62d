//! What Xen and its guest share: layouts and numbers.

use core::sync::atomic::{AtomicI8, AtomicI32, AtomicU8, AtomicU32, AtomicU64};

/// vCPUs whose information fits the shared page.
pub const VCPUS: usize = 32;

/// The rate of the time stamp counter.
#[derive(Debug)]
#[repr(C)]
pub struct VcpuTime {
    pub version: AtomicU32,
    pad: u32,
    pub tsc_timestamp: AtomicU64,
    pub system_time: AtomicU64,
    /// `ns = ((ticks << shift) * mul) >> 32`.
    pub tsc_to_system_mul: AtomicU32,
    pub tsc_shift: AtomicI8,
    pad1: [u8; 3],
}

/// One vCPU's part of the shared page.
#[derive(Debug)]
#[repr(C)]
pub struct VcpuInfo {
    pub upcall_pending: AtomicU8,
    /// This vCPU takes no events: what the interrupt flag is to a processor.
    pub upcall_mask: AtomicU8,
    pub pending_words: AtomicU64,
    pub cr2: AtomicU64,
    pad: u64,
    pub time: VcpuTime,
}

/// The page that Xen shares with its guest.
#[derive(Debug)]
#[repr(C)]
pub struct SharedInfo {
    pub vcpus: [VcpuInfo; VCPUS],
    pub pending: [AtomicU64; 64],
    pub mask: [AtomicU64; 64],
}

/// How long a vCPU was in each state; Xen writes it.
#[derive(Debug)]
#[repr(C)]
pub struct Runstate {
    pub state: AtomicI32,
    pub since: AtomicU64,
    pub time: [AtomicU64; 4],
}

/// `RUNSTATE_*`.
pub const RUNNABLE: usize = 1;

/// Numbers of hypercalls (`__HYPERVISOR_*`).
pub const MEMORY_OP: u32 = 12;
pub const CONSOLE_IO: u32 = 18;
pub const VCPU_OP: u32 = 24;
pub const SCHED_OP: u32 = 29;
pub const EVENT_CHANNEL_OP: u32 = 32;
pub const HVM_OP: u32 = 34;

/// `VCPUOP_*`.
pub const VCPU_REGISTER_RUNSTATE: u64 = 5;
pub const VCPU_STOP_PERIODIC: u64 = 7;
pub const VCPU_SET_SINGLE: u64 = 8;
pub const VCPU_STOP_SINGLE: u64 = 9;

/// `SCHEDOP_*`, and `SHUTDOWN_reboot`.
pub const SCHED_YIELD: u64 = 0;
pub const SCHED_SHUTDOWN: u64 = 2;
pub const SCHED_POLL: u64 = 3;
pub const REBOOT: u32 = 1;

/// `XENMEM_add_to_physmap`, and `XENMAPSPACE_shared_info`.
pub const ADD_TO_MEMORY: u64 = 7;
pub const SHARED_INFO: u32 = 0;

/// `DOMID_SELF`.
pub const SELF: u16 = 0x7ff0;

/// `HVMOP_set_evtchn_upcall_vector`.
pub const SET_VECTOR: u64 = 23;

/// `EVTCHNOP_*`, and `VIRQ_TIMER`.
pub const BIND_VIRQ: u64 = 1;
pub const SEND: u64 = 4;
pub const BIND_IPI: u64 = 7;
pub const VIRQ_TIMER: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    /// As a C compiler lays out Xen's headers (4.17, x86-64).
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!(size_of::<VcpuInfo>(), 64);
        assert_eq!(offset_of!(SharedInfo, pending), 2048);
        assert_eq!(offset_of!(SharedInfo, mask), 2560);
        assert_eq!(size_of::<Runstate>(), 48);
    }
}
