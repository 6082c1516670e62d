//! A guest of Xen with virtual hardware (PVH): hypercalls, the pages shared with it, and events.
//! It starts as the bare machine does.
//!
//! Sources: Xen's public headers, 4.17 (MIT licence): xen.h, sched.h, vcpu.h, event_channel.h,
//! memory.h, hvm/hvm_op.h, arch-x86/xen.h, arch-x86/xen-x86_64.h, arch-x86/cpuid.h.

pub mod abi;
pub mod calls;
pub mod events;
pub mod pvh;
pub mod start;
pub mod timer;
