//! Overlock inside a kernel: three platforms, and the smallest kernel that can try them.
//!
//! | world | what a CPU is | wait | kick |
//! |---|---|---|---|
//! | [`Bare`](platform::bare::Bare) | a processor with its own APIC | check, `sti; hlt` | an inter-processor interrupt |
//! | [`Kvm`](platform::kvm::Kvm) | a vCPU of KVM | check, `hlt` | `KVM_HC_KICK_CPU` |
//! | [`Xen`](platform::xen::Xen) | a vCPU of Xen | clear, check, `SCHEDOP_poll` | `EVTCHNOP_send` |
//!
//! The kernel has no processes, no memory allocator and no drivers but for a console. It starts all
//! CPUs, runs what its command line asks for ([`plan`]), and reports the results on the console,
//! one JSON record per line. `overlock bench --in tcg` builds it, starts it under QEMU, reads them.
//!
//! A kernel of your own needs one of the files in `platform/` and little else: `docs/kernels.md`.

#![no_std]
#![cfg(target_arch = "x86_64")]

pub mod console;
pub mod cpus;
pub mod kernel;
pub mod machine;
pub mod plan;
pub mod platform;
pub mod work;
pub mod xen;
