// SPDX-License-Identifier: MIT OR Apache-2.0
//! A paravirtual guest of Xen: hypercalls, the pages shared with it, events, and all vCPUs.
//!
//! Sources: Xen's public headers, 4.17 (MIT licence): xen.h, sched.h, vcpu.h, event_channel.h,
//! arch-x86/xen.h, arch-x86/xen-x86_64.h.

#[allow(missing_docs, reason = "names and meanings are those of the headers")]
pub mod abi;
pub mod calls;
pub mod events;
pub mod start;
