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

/// What Xen tells at the start.
#[derive(Debug)]
#[repr(C)]
pub struct StartInfo {
    pub magic: [u8; 32],
    pub nr_pages: u64,
    /// A machine address.
    pub shared_info: u64,
    pub flags: u32,
    pub store_mfn: u64,
    pub store_evtchn: u32,
    pub console: [u64; 2],
    /// The address of the top page table.
    pub pt_base: u64,
    pub nr_pt_frames: u64,
    /// The address of the list of machine frames, by the guest's frames.
    pub mfn_list: u64,
    pub mod_start: u64,
    pub mod_len: u64,
    pub cmd_line: [core::ffi::c_char; 1024],
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

/// A vCPU's registers as it starts.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub error_code: u32,
    pub entry_vector: u32,
    pub rip: u64,
    pub cs: u16,
    pub pad: u16,
    pub saved_upcall_mask: u8,
    pub pad1: [u8; 3],
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
    pub es: u64,
    pub ds: u64,
    pub fs: u64,
    pub gs: u64,
}

/// One entry of the virtual table of traps.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Trap {
    pub vector: u8,
    pub flags: u8,
    pub cs: u16,
    pub address: u64,
}

#[derive(Debug)]
#[repr(C, align(64))]
pub struct Context {
    pub fpu: [u8; 512],
    pub flags: u64,
    pub registers: Registers,
    pub traps: [Trap; 256],
    pub ldt: [u64; 2],
    pub gdt_frames: [u64; 16],
    pub gdt_entries: u64,
    pub kernel_ss: u64,
    pub kernel_sp: u64,
    pub control: [u64; 8],
    pub debug: [u64; 8],
    pub event_callback: u64,
    pub failsafe_callback: u64,
    pub syscall_callback: u64,
    pub vm_assist: u64,
    pub fs_base: u64,
    pub gs_base_kernel: u64,
    pub gs_base_user: u64,
}

/// `VGCF_in_kernel`.
pub const IN_KERNEL: u64 = 1 << 2;
/// `FLAT_KERNEL_CS`, `FLAT_KERNEL_SS`.
pub const KERNEL_CS: u16 = 0xe033;
pub const KERNEL_SS: u64 = 0xe02b;
/// `SEGBASE_GS_KERNEL`.
pub const GS_KERNEL: u64 = 2;

/// Numbers of hypercalls (`__HYPERVISOR_*`).
pub const SET_CALLBACKS: u32 = 4;
pub const MEMORY_OP: u32 = 12;
pub const UPDATE_VA_MAPPING: u32 = 14;
pub const XEN_VERSION: u32 = 17;
pub const CONSOLE_IO: u32 = 18;
pub const IRET: u32 = 23;
pub const VCPU_OP: u32 = 24;
pub const SET_SEGMENT_BASE: u32 = 25;
pub const SCHED_OP: u32 = 29;
pub const EVENT_CHANNEL_OP: u32 = 32;
pub const HVM_OP: u32 = 34;

/// `VCPUOP_*`.
pub const VCPU_INITIALISE: u64 = 0;
pub const VCPU_UP: u64 = 1;
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
        assert_eq!(offset_of!(StartInfo, pt_base), 88);
        assert_eq!(offset_of!(StartInfo, cmd_line), 128);
        assert_eq!(size_of::<Registers>(), 200);
        assert_eq!(offset_of!(Context, control), 4984);
        assert_eq!(offset_of!(Context, event_callback), 5112);
        assert_eq!(offset_of!(Context, gs_base_kernel), 5152);
        assert_eq!(size_of::<Runstate>(), 48);
    }
}
